"""Following a client: every record once, every change told, nothing asked in a hurry. Time jumps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from benchrun.api import names
from benchrun.decide.decision import PullTarget
from benchrun.effects.errors import Unavailable
from benchrun.effects.scraper import FetchError
from benchrun.observe.views import Run
from benchrun.runtime.following import LONGEST_RETRY_SECONDS, NEXT_STAGE_SECONDS, Follower
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.contract import PLAN_FILE, Delivery, Envelope, LoadPoint, Plan, Progress, RandomData, Stage, Target
from unit.measure.records import record
from unit.runtime.bodies import NAMESPACE, UID, child_body
from unit.runtime.fakes import Web
from unit.runtime.fast_time import passing, run_fast
from unit.runtime.memory_cluster import MemoryCluster

NONCE = "0123456789abcdef"
RUN = Run(namespace=NAMESPACE, name="chat", uid=UID, generation=1)
TARGET = PullTarget(pod="client", url="http://10.0.0.9:8090", nonce=NONCE, from_sequence=0)
PLAN_NAME = names.plan_name("chat", UID)
PLAN = Plan(
    run_uid=UID,
    nonce=NONCE,
    target=Target(base_url="http://s:8000", servers=1, served_model="m", tokenizer="m"),
    stages=tuple(
        Stage(
            id=f"chat/rate=4/r{n}",
            workload="chat",
            repeat=n,
            load=LoadPoint(request_rate="4"),
            data=RandomData(input_tokens=8, output_tokens=8),
            requests=2,
            seed=n,
        )
        for n in (1, 2, 3)
    ),
    percentiles=("99",),
    health_deadline_seconds=0,
)


def envelope(sequence: int = 0, **changes: Any) -> Envelope:
    values = {
        "run_uid": UID,
        "sequence": sequence,
        "stage_id": f"chat/rate=4/r{sequence + 1}",
        "plan_digest": PLAN.digest(),
    }
    return Envelope.seal(record().model_copy(update=values | changes))


def answer(*records: Envelope, version: int = 1, run_uid: str = UID) -> str:
    progress = Progress(version=version, phase="Measuring", records=len(records))
    return Delivery(run_uid=run_uid, progress=progress, records=records).model_dump_json()


def in_turn(*answers: str | Exception) -> Callable[[], str]:
    """One answer after the other; the last one stays."""
    left = list(answers)

    def next_one() -> str:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    return next_one


class Scene:
    """A follower, and what came of it."""

    def __init__(self, *answers: str | Exception) -> None:
        self.web = Web(records=in_turn(*answers))
        self.cluster = MemoryCluster()
        plan = child_body(PLAN_NAME, role=names.ROLE_PLAN, data={PLAN_FILE: PLAN.to_json()})
        self.cluster.add("ConfigMap", plan)
        self.memory = RunMemory(uid=UID)
        self.telemetry = Telemetry()
        self.news = 0
        self.follower = Follower(
            TARGET,
            RUN,
            self.memory,
            cluster=self.cluster,
            exchanger=self.web,
            telemetry=self.telemetry,
            news=self._tell,
        )

    async def go_on(self, seconds: float) -> None:
        task = asyncio.create_task(self.follower.run())
        await passing(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def queries(self) -> list[str]:
        return [url.partition("?")[2] for url, _ in self.web.asked]

    def value(self, name: str) -> float:
        return self.telemetry.registry.get_sample_value(name) or 0.0

    def _tell(self) -> None:
        self.news += 1


def after(seconds: float, *answers: str | Exception) -> Scene:
    scene = Scene(*answers)
    run_fast(scene.go_on(seconds))
    return scene


def test_records_are_kept_as_arrivals_and_told() -> None:
    scene = after(0.5, answer(envelope(0), envelope(1)))
    assert sorted(scene.memory.arrivals) == sorted(scene.memory.sequences) == [0, 1]
    assert scene.news == 1
    assert scene.value("benchrun_records_total") == 2


def test_each_question_asks_for_what_is_not_known_yet() -> None:
    scene = after(0.5, answer(envelope(0)), answer(envelope(1), version=2), answer(version=2))
    assert scene.queries() == ["from=0&seen=-1&wait=20", "from=1&seen=1&wait=20", "from=2&seen=2&wait=20"]


def test_what_is_stored_already_is_not_asked_for() -> None:
    scene = Scene(answer())
    scene.memory.sequences = {2}
    scene.follower.target = PullTarget(pod="client", url=TARGET.url, nonce=NONCE, from_sequence=2)
    run_fast(scene.go_on(0.1))
    assert scene.queries()[0].startswith("from=3&")


def test_record_that_comes_twice_is_taken_once() -> None:
    scene = after(10, answer(envelope(0)))
    assert scene.news == 1
    assert scene.value("benchrun_records_total") == 1


def test_change_of_the_progress_is_told_and_nothing_else_is() -> None:
    scene = after(60, answer(version=1), answer(version=1), answer(version=2), answer(version=2))
    assert scene.news == 2
    assert scene.memory.progress is not None
    assert scene.memory.progress.version == 2


def test_next_stage_is_told_together_with_the_record_of_the_one_before() -> None:
    assert after(0.5, answer(version=1), answer(version=2)).news == 1
    assert after(NEXT_STAGE_SECONDS + 0.5, answer(version=1), answer(version=2)).news == 2
    assert after(0.5, answer(version=1), answer(version=2), answer(envelope(0), version=3)).news == 2


def test_client_that_answers_at_once_without_news_is_not_asked_without_pause() -> None:
    assert len(after(60, answer()).web.asked) <= 62


def test_client_that_does_not_answer_is_asked_less_and_less_often() -> None:
    scene = after(300, FetchError("connection refused"))
    asked = scene.web.asked_for("20")
    pauses = [round(b - a, 3) for a, b in pairwise(asked)]
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert set(pauses[4:]) == {LONGEST_RETRY_SECONDS}


def test_client_that_did_not_answer_for_a_while_counts_as_silent_and_that_is_told_once() -> None:
    assert after(10, FetchError("refused")).memory.client_silent is False
    scene = after(300, FetchError("refused"))
    assert (scene.memory.client_silent, scene.news) == (True, 1)


def test_client_that_speaks_again_is_no_longer_silent() -> None:
    scene = after(60, *[FetchError("refused")] * 8, answer(envelope(0)))
    assert scene.memory.client_silent is False
    assert scene.news == 3


def test_client_is_not_called_silent_because_the_api_server_is() -> None:
    scene = Scene(answer())
    scene.cluster.broken["get"] = Unavailable("down")
    run_fast(scene.go_on(300))
    assert scene.memory.client_silent is False


def test_client_that_answers_again_is_followed_as_before() -> None:
    scene = after(3, FetchError("refused"), FetchError("refused"), answer(envelope(0)))
    assert scene.memory.sequences == {0}


def test_refused_record_is_counted_told_and_not_asked_for_in_a_hurry() -> None:
    scene = after(60, answer(envelope(0, run_uid="another-run")))
    assert scene.memory.sequences == set()
    assert scene.memory.refused is not None
    assert "another-run" in scene.memory.refused
    assert scene.value("benchrun_records_refused_total") == scene.memory.refused_count
    assert len(scene.web.asked) <= 60 / LONGEST_RETRY_SECONDS + 2


def test_answer_of_another_run_is_refused() -> None:
    scene = after(1, answer(run_uid="another-run"))
    assert scene.memory.progress is None
    assert scene.memory.refused == "answer is of run 'another-run'"
    assert scene.news == 1


def test_plan_of_another_run_is_not_trusted() -> None:
    scene = Scene(answer(envelope(0)))
    scene.cluster.add("ConfigMap", child_body(PLAN_NAME, owner_uid="x", data={PLAN_FILE: PLAN.to_json()}))
    run_fast(scene.go_on(10))
    assert (scene.web.asked, scene.memory.sequences) == ([], set())


def test_plan_is_read_once() -> None:
    scene = after(60, answer(envelope(0)))
    assert scene.cluster.log == [("get", "ConfigMap", PLAN_NAME)]


def test_acknowledgement_carries_the_nonce() -> None:
    scene = Scene(answer())
    assert run_fast(scene.follower.acknowledge(2)) is True
    assert scene.web.posted == [("http://10.0.0.9:8090/ack", f'{{"nonce":"{NONCE}","through":2}}')]
