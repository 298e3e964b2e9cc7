"""Every status that the operator writes, read by the engines of GitOps tools: kstatus, Flux's
expressions, and Argo CD's script in its interpreter (tests/long has Argo CD itself)."""

from functools import cache

import pytest
from gitops.engines import FLUX, LUA, Answer, asked
from unit.decide.recorded_statuses import STANDINGS, Recorded, recordings

ENGINES = {
    "kstatus": ("kstatus",),
    "flux": ("flux", FLUX),
    "argo": ("lua", LUA),
}


@cache
def answers(engine: str) -> dict[str, Answer]:
    return asked("gitops-health", *ENGINES[engine])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("recorded", recordings(), ids=lambda each: each.name)
def test_word(recorded: Recorded, engine: str) -> None:
    expected = STANDINGS[recorded.standing]._asdict()[engine]
    assert answers(engine)[recorded.name].word == expected


@pytest.mark.parametrize("recorded", recordings(), ids=lambda each: each.name)
def test_argo_cd_shows_the_operators_words(recorded: Recorded) -> None:
    shown = answers("argo")[recorded.name].message
    own = {each["message"] for each in recorded.status.get("conditions", ())}
    assert shown in (
        own if recorded.standing != "unseen" else {"waiting for the operator"}
    )
