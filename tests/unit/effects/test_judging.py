"""The judgement of a run: everything that was measured goes to the judge in order, unopened, one
part at a time. Time jumps."""

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest
from benchrun import names
from benchrun.api import ClientStatus, EndingStatus, Judgement, ServerStatus
from benchrun.decide import Answers, Evaluation, Judging
from benchrun.effects import (
    JUDGE_RETRY_SECONDS,
    KINDS,
    A,
    About,
    LookUps,
    NotFound,
    NotFoundOut,
    NotJudged,
    Tools,
    TooSlow,
    Unavailable,
)
from benchrun.judge_process.messages import Job, JobPart, SweepJob
from benchrun.measure import decode
from benchrun.observe import Children, Key, child_of, run_of
from benchrun.plan import (
    Owner,
    PackedResult,
    TimelinePart,
    result_config_map,
    stage_config_map,
    timeline_config_map,
)
from benchrun_client.contract import Sealed
from unit.measure.records import sealed_bytes
from unit.runtime.bodies import KEY, NAMESPACE, UID, run_body
from unit.runtime.fast_time import now, passing, run_fast
from unit.runtime.judges import Judge
from unit.runtime.memory_cluster import MemoryCluster
from unit.runtime.scene import ENDED, OWNER, sample

JUDGED = Judgement(message="judged")
QUERY = Judging(
    ended_early=False,
    servers=(ServerStatus(engine="VLLM", role="server", pod="p", gpus=1),),
    client=ClientStatus(image="client:1"),
)
LABELS_READ = [("get", "BenchmarkRun", "chat")]
EARLY = Judging(ended_early=True, ending=EndingStatus(reason="ServerGone"))


def arrival(sequence: int, **changes: Any) -> Sealed:
    """A record that nobody may open: it is none."""
    body = changes.pop("data", f"packed {sequence}".encode())
    return sealed_bytes(sequence, body, **changes)


class Court:
    """A run of which this is stored, and a judge."""

    def __init__(
        self, *outcomes: Judgement | Exception, baseline: str = ""
    ) -> None:
        self.cluster = MemoryCluster()
        self.judge = Judge(*outcomes)
        self.children = Children()
        body = run_body()
        body["spec"] |= {"baseline": {"name": baseline}} if baseline else {}
        self.run = run_of(body)
        self.arrivals: tuple[Sealed, ...] = ()
        self.samples: tuple[Any, ...] = ()

    def store(self, manifest: dict[str, Any], **meta: Any) -> None:
        body = json.loads(json.dumps(manifest))
        body["metadata"] |= {
            "uid": body["metadata"]["name"],
            "resourceVersion": "500",
            **meta,
        }
        self.cluster.add("ConfigMap", body)
        view = child_of("ConfigMap", {"metadata": body["metadata"]})
        self.children = Children(objects=(*self.children.objects, view))

    async def judged(self, query: Judging = QUERY) -> Judgement:
        about = About(self.run, self.children, self.arrivals, self.samples)
        found: Evaluation = await KINDS[Judging].look_up(
            Tools(self.cluster, self.judge), about, query
        )
        return found.judgement

    def parts(self) -> list[JobPart]:
        return self.judge.parts[-1]

    def heads(self) -> list[tuple[str, str]]:
        return [(part.head.kind, part.head.name) for part in self.parts()]


def name_of(sequence: int) -> str:
    return names.stage_name("chat", UID, sequence)


def chunk(at: float) -> TimelinePart:
    return TimelinePart(f"packed until {at}".encode(), through=at)


async def test_everything_that_is_stored_comes_in_order_and_as_it_is() -> None:
    court = Court(JUDGED)
    court.store(timeline_config_map(OWNER, chunk=0, timeline=chunk(1)))
    court.store(stage_config_map(OWNER, arrival(0), timeline=chunk(2)))
    court.store(
        stage_config_map(OWNER, arrival(1, ends_search="chat"), timeline=None)
    )
    court.arrivals = (arrival(2), arrival(3, ends_search="code"))
    court.samples = (sample(8.0), sample(9.0))
    assert await court.judged() == JUDGED
    assert court.heads() == [
        ("timeline", names.timeline_name("chat", UID, 0)),
        ("record", name_of(0)),
        ("timeline", name_of(0)),
        ("record", name_of(1)),
        ("record", "record 2"),
        ("record", "record 3"),
        ("timeline", "the latest samples"),
    ]
    records = [part for part in court.parts() if part.head.kind == "record"]
    assert [part.data for part in records] == [
        f"packed {n}".encode() for n in range(4)
    ]
    assert [part.head.envelope for part in records] == [
        arrival(n, ends_search=[None, "chat", None, "code"][n]).envelope
        for n in range(4)
    ]
    assert court.parts()[0].data == b"packed until 1"
    assert [s.at for s in decode(court.parts()[-1].data)] == [8.0, 9.0]


async def test_the_job_tells_what_the_status_will_tell() -> None:
    court = Court(JUDGED)
    await court.judged()
    (job,) = court.judge.jobs
    assert (job.name, job.namespace, job.uid, job.spec) == (
        "chat",
        NAMESPACE,
        UID,
        {"model": {"name": "m"}},
    )
    assert (tuple(job.servers), job.client, job.ending) == (
        QUERY.servers,
        QUERY.client,
        None,
    )
    assert court.parts() == []


async def test_a_record_that_was_stored_after_it_came_is_sent_once() -> None:
    court = Court(JUDGED)
    court.store(stage_config_map(OWNER, arrival(0), timeline=None))
    court.arrivals = (arrival(0), arrival(1))
    await court.judged()
    assert court.heads() == [("record", name_of(0)), ("record", "record 1")]


@pytest.mark.parametrize("kept", [(), (arrival(0),)])
def test_a_stored_record_that_somebody_deleted_is_missed_and_not_waited_for(
    kept: tuple[Sealed, ...],
) -> None:
    async def end() -> None:
        court = Court(JUDGED)
        court.store(stage_config_map(OWNER, arrival(0), timeline=None))
        court.store(stage_config_map(OWNER, arrival(1), timeline=None))
        del court.cluster.objects["ConfigMap", NAMESPACE, name_of(0)]
        court.arrivals = kept
        await court.judged()
        assert court.heads() == [
            ("record", name_of(1)),
            *(("record", "record 0") for _ in kept),
        ]
        assert now() == 0

    run_fast(end())


@pytest.mark.parametrize(
    "binary",
    [
        None,
        7,
        {},
        {"record.json.gz": None},
        {"record.json.gz": 7},
        {"record.json.gz": "e"},
        {"more": "eA=="},
    ],
)
async def test_a_configmap_that_holds_no_record_is_passed_over(
    binary: object,
) -> None:
    court = Court(JUDGED)
    court.store(
        stage_config_map(OWNER, arrival(0), timeline=None) | {"binaryData": binary}
    )
    court.store(stage_config_map(OWNER, arrival(1), timeline=None))
    await court.judged()
    assert court.heads() == [("record", name_of(1))]


async def test_what_cannot_be_opened_is_the_judges_to_refuse() -> None:
    court = Court(JUDGED)
    bomb = gzip.compress(b"[" + b"0," * 1_000_000 + b"0]")
    court.store(
        stage_config_map(
            OWNER,
            arrival(0, data=bomb),
            timeline=TimelinePart(b"no timeline", through=1),
        )
    )
    assert await court.judged() == JUDGED
    assert [part.data for part in court.parts()] == [bomb, b"no timeline"]


async def test_what_is_another_runs_is_not_read() -> None:
    court = Court(JUDGED)
    manifest = stage_config_map(OWNER, arrival(0), timeline=None)
    manifest["metadata"]["ownerReferences"][0]["uid"] = "another-run"
    court.store(manifest)
    await court.judged()
    assert (court.parts(), court.cluster.log) == ([], LABELS_READ)


@pytest.mark.parametrize("failures", [1, 3])
def test_while_the_api_server_is_away_it_is_retried(failures: int) -> None:
    async def end() -> None:
        court = Court(JUDGED)
        court.store(stage_config_map(OWNER, arrival(0), timeline=None))
        court.store(stage_config_map(OWNER, arrival(1), timeline=None))
        court.cluster.broken_objects[name_of(1)] = Unavailable("down")

        async def comes_back() -> None:
            await passing(JUDGE_RETRY_SECONDS * failures - 1)
            court.cluster.broken_objects.clear()

        back = asyncio.create_task(comes_back())
        assert await court.judged() == JUDGED
        await back
        assert (len(court.judge.jobs), now()) == (
            failures + 1,
            JUDGE_RETRY_SECONDS * failures,
        )
        assert court.heads() == [("record", name_of(0)), ("record", name_of(1))], (
            "from the beginning each time"
        )

    run_fast(end())


class Busy(Judge):
    """Others take half an hour before each turn."""

    async def judge(
        self,
        job: Job | SweepJob,
        parts: AsyncGenerator[JobPart, None],
        answer: type[A],
    ) -> tuple[A, bytes]:
        await passing(1800)
        return await super().judge(job, parts, answer)


@pytest.mark.parametrize("fails", [False, True])
def test_waiting_for_the_judges_turn_is_not_counted(fails: bool) -> None:
    async def end() -> None:
        court = Court()
        court.judge = Busy(JUDGED)
        court.store(stage_config_map(OWNER, arrival(0), timeline=None))
        if fails:
            court.cluster.broken_objects[name_of(0)] = Unavailable("down")
        answers = Answers()
        news = list[Key]()
        lookups = LookUps(Tools(court.cluster, court.judge), news=news.append)
        lookups.ask(KEY, About(court.run, court.children), [QUERY], answers)
        await passing(1900)
        court.cluster.broken_objects.clear()
        await passing(1900)
        assert (answers.value(QUERY), news) == (Evaluation(JUDGED), [KEY])
        await lookups.close()

    run_fast(end())


def test_an_api_server_that_stays_away_ends_it() -> None:
    async def end() -> None:
        court = Court()
        court.store(stage_config_map(OWNER, arrival(0), timeline=None))
        court.cluster.broken_objects[name_of(0)] = Unavailable("down")
        with pytest.raises(NotFoundOut, match="down"):  # no TimeoutError
            async with asyncio.timeout(1000):
                await court.judged()
        assert now() == 900

    run_fast(end())


async def test_records_beyond_the_plan_are_not_read() -> None:
    court = Court(JUDGED)
    for sequence in (0, 1, 2, 1_000_000):
        court.store(stage_config_map(OWNER, arrival(sequence), timeline=None))
    await court.judged(replace(QUERY, most_stages=2))
    assert court.heads() == [("record", name_of(0)), ("record", name_of(1))]


async def test_no_more_of_the_timeline_is_read_than_the_run_can_have() -> None:
    court = Court(JUDGED)
    for number in range(5):
        court.store(
            timeline_config_map(OWNER, chunk=number, timeline=chunk(number))
        )
    await court.judged(replace(QUERY, most_chunks=2))
    assert court.heads() == [
        ("timeline", names.timeline_name("chat", UID, number))
        for number in range(2)
    ]


@pytest.mark.parametrize("role", [names.ROLE_STAGE, names.ROLE_TIMELINE])
async def test_what_only_carries_the_labels_is_not_read(role: str) -> None:
    """Anybody may make ConfigMaps that the run owns; each would be a request in the turn."""
    court = Court(JUDGED)
    for number in range(50):
        manifest = timeline_config_map(OWNER, chunk=0, timeline=chunk(1))
        manifest["metadata"]["labels"][names.LABEL_ROLE] = role
        court.store(manifest, name=f"another-{number}")
    await court.judged()
    assert (court.parts(), court.cluster.log) == ([], LABELS_READ)


def test_who_takes_too_long_to_be_read_has_fewer_tries() -> None:
    async def end() -> None:
        court = Court(*[TooSlow("not read within 60 s")] * 14, JUDGED)
        with pytest.raises(NotFoundOut, match="not read within 60 s"):
            await court.judged()
        assert len(court.judge.jobs) == 14

    run_fast(end())


async def test_why_a_run_was_not_judged_is_the_answer() -> None:
    court = Court(NotJudged("killed: it took more than 320 MiB"))
    with pytest.raises(NotFoundOut, match=r"^killed: it took more than 320 MiB$"):
        await court.judged()
    assert len(court.judge.jobs) == 1


# ---- the baseline
# ----------------------------------------------------------------------------------------------------


async def test_the_baseline_comes_last_and_whole() -> None:
    court = Court(JUDGED, baseline="before")
    before = court.cluster.add(
        "BenchmarkRun",
        run_body(
            "before", uid="b", status=ENDED | {"results": [{"loadPoint": "c"}]}
        ),
    )
    court.samples = (sample(8.0),)
    await court.judged()
    assert court.heads() == [
        ("timeline", "the latest samples"),
        ("baseline", "before"),
    ]
    assert json.loads(court.parts()[-1].data) == before


@pytest.mark.parametrize(
    ("uid", "digest", "sent"),
    [
        pytest.param("b", None, True, id="as-the-status-says"),
        pytest.param("b", "0" * 64, False, id="another-document"),
        pytest.param("c", None, False, id="of-another-run"),
    ],
)
async def test_the_document_of_the_baseline_follows_it(
    uid: str, digest: str | None, sent: bool
) -> None:
    court = Court(JUDGED, baseline="before")
    packed = PackedResult.of(b"packed by the judge of that time")
    owner = Owner(namespace="lab", name="before", uid=uid)
    court.store(result_config_map(owner, packed))
    ref = {
        "configMap": names.result_name("before", uid, packed.digest),
        "sha256": digest or packed.digest,
        "bytes": 1,
    }
    status = ENDED | {"resultDocument": ref}
    court.cluster.add("BenchmarkRun", run_body("before", uid="b", status=status))
    await court.judged()
    documents = [p.data for p in court.parts() if p.head.kind == "baselineDocument"]
    assert documents == ([packed.data] if sent else [])


async def test_a_document_that_is_gone_leaves_the_status() -> None:
    court = Court(JUDGED, baseline="before")
    ref = {"configMap": "gone", "sha256": "0" * 64, "bytes": 1}
    status = ENDED | {"resultDocument": ref}
    court.cluster.add("BenchmarkRun", run_body("before", uid="b", status=status))
    await court.judged()
    assert court.heads() == [("baseline", "before")]


async def test_a_baseline_that_does_not_exist_is_missed() -> None:
    court = Court(JUDGED, baseline="before")
    assert await court.judged() == JUDGED
    assert court.parts() == []


async def test_a_run_that_ended_early_is_not_compared() -> None:
    court = Court(JUDGED, baseline="before")
    court.cluster.broken_objects["before"] = NotFound("not to be asked for")
    await court.judged(EARLY)
    assert (
        court.parts(),
        court.cluster.log,
        court.judge.jobs[0].ending is not None,
    ) == (
        [],
        LABELS_READ,
        True,
    )
