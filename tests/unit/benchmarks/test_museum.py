"""The museum's counts: what a word means, twins that are shared, and exhibits that are whole."""

import re
from dataclasses import replace

import pytest
from benchrun.api import Code
from museum import _experiments, _twins, museum
from museum_kit import tally
from museum_kit.exhibits import EXHIBITS, Exhibit
from museum_kit.vllm_column import Said, can_replay

from dev.museum_table import museum_text

PREFIX = Code.PREFIX_CACHE_CONTAMINATED
CACHED = next(each for each in EXHIBITS if PREFIX in each.names)


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda each: each.thread)
def test_an_exhibit_differs_from_its_twin_and_has_a_name(exhibit: Exhibit) -> None:
    assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", exhibit.thread)
    assert exhibit.wrong != exhibit.clean
    assert bool(exhibit.names) != (exhibit.is_prevented is not None)
    assert set(exhibit.names) <= {code.value for code in Code}
    for run in (exhibit.wrong, exhibit.clean):
        assert run.spec("http://127.0.0.1:1").workloads


def test_threads_are_different_and_twins_are_shared() -> None:
    shared = _twins(EXHIBITS)
    assert len({each.thread for each in shared}) == len(EXHIBITS) >= 24
    runs = _experiments(shared)
    assert len({each.name for each in runs}) == len(runs) < 2 * len(EXHIBITS)


@pytest.mark.parametrize(
    ("word", "wrong", "clean", "prevented"),
    [
        ("named", {PREFIX: "Suspect"}, {}, False),
        ("named", {PREFIX: "Invalid"}, {PREFIX: "Suspect"}, False),
        ("flagged", {PREFIX: "Note", Code.COLD_START: "Suspect"}, {}, False),
        ("silent", {PREFIX: "Suspect"}, {PREFIX: "Suspect"}, False),
        ("silent", {Code.TOO_FEW_SAMPLES: "Note"}, {}, False),
        ("silent", {}, {}, False),
        ("prevented", {}, {}, True),
    ],
)
def test_what_the_words_mean(
    word: str, wrong: tally.Codes, clean: tally.Codes, prevented: bool
) -> None:
    assert tally.word_of(CACHED, wrong, clean, prevented=prevented) == word


SEEN = replace(
    tally.unseen(CACHED), twin="twin", ours="named", said=[PREFIX], vllm="silent"
)
MISSED = replace(
    tally.unseen(EXHIBITS[-1]), twin="twin", ours="silent", alarms=["ColdStart"]
)


def test_a_twin_of_several_counts_once() -> None:
    assert tally.figures(
        [SEEN, replace(MISSED, alarms=[]), MISSED, tally.unseen(EXHIBITS[1])]
    ) == {
        "exhibits": 4,
        "replayed": 3,
        "named": 1,
        "flagged": 0,
        "silent": 2,
        "prevented": 0,
        "twins": 1,
        "false_alarms": 1,
        "vllm_exhibits": 1,
        "named_by_vllm": 0,
    }


def test_what_is_not_shown_again_keeps_its_result() -> None:
    content = museum([SEEN, replace(MISSED, ours="flagged")], [MISSED])
    rows = [tally.Shown(**each) for each in content["exhibits"]]
    assert [each.thread for each in rows] == [each.thread for each in EXHIBITS]
    assert {each.ours for each in rows if each.ours} == {"named", "silent"}
    assert content["figures"] == tally.figures(rows)


def test_the_page_has_a_row_an_exhibit_and_what_does_not_happen() -> None:
    page = museum_text(museum([SEEN], []))
    row = next(line for line in page.splitlines() if f"[{SEEN.thread}]" in line)
    assert f"| named | [{PREFIX}](findings/{PREFIX}.md) | silent |" in row
    assert page.count("not replayed yet") == len(EXHIBITS) - 1
    assert f"- {SEEN.thread}: {SEEN.by_default}." in page


def test_vllm_flags_what_it_does_not_say_of_the_twin() -> None:
    clean = Said(failed=1, warnings=frozenset({"slow"}))
    assert not Said(failed=1, warnings=frozenset({"slow"})).flags(clean)
    assert Said(failed=2).flags(clean)
    assert Said(ended=True).flags(clean)
    assert Said(warnings=frozenset({"cache"})).flags(clean)


def test_a_starved_client_is_not_replayed_through_another() -> None:
    starved = [each for each in EXHIBITS if each.wrong.client_cpu_share is not None]
    assert starved
    assert not any(can_replay(each.wrong) for each in starved)
