"""The judge's process as the operator sees it: a judgement comes or NotJudged is raised, in time,
and nothing is left behind."""

import asyncio
import ctypes
import gzip
import hashlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from benchrun.api import MAX_PACKED_RESULT_BYTES, Judgement, Truncated
from benchrun.api.sweep import SweepTable, TabledRun
from benchrun.effects import JudgeChild, NotJudged, TooSlow
from benchrun.judge_process.judge_job import judge_job
from benchrun.judge_process.messages import (
    MAX_JUDGEMENT_BYTES,
    DocumentHead,
    JobPart,
    SweepJob,
)
from unit.judge.comparison.sides import row as table_row, run as status_of
from unit.judge_process.jobs import (
    STAGES,
    forged_timeline,
    job,
    measured,
    part,
    records,
    timeline,
)
from unit.measure.records import requests, sample, sealed_bytes
from unit.plan.specs import UID
from unit.sweep.sweeps import sweep_body

MIB = 1024 * 1024
PR_SET_CHILD_SUBREAPER = 36
NO_DOCUMENT = f'{{"size":0,"digest":"{"a" * 64}"}}'
TOO_LARGE = f'{{"size":{MAX_PACKED_RESULT_BYTES + 1},"digest":"{"a" * 64}"}}'


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Like the first process of a container, this one is handed what its children leave."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    before = children()
    yield
    assert children() == before


def children(pid: int | None = None) -> list[int]:
    """Also those that have ended and that nobody asked about."""
    tasks = Path(f"/proc/{pid or os.getpid()}/task").glob("*/children")
    return sorted(
        int(child) for task in tasks for child in task.read_text().split()
    )


def large(count: int = 20_000) -> JobPart:
    """A record of so many requests."""
    columns = requests(
        ttft_us=range(20_000, 20_000 + count),
        e2el_us=range(120_000, 120_000 + count),
        output_tokens=[11] * count,
    )
    return part(measured(0, requests=columns))


def fake(tmp_path: Path, script: str) -> tuple[str, ...]:
    """Something that is started instead of the judge."""
    path = tmp_path / "judge.py"
    path.write_text(script)
    return (sys.executable, str(path))


async def given(*parts: JobPart) -> AsyncGenerator[JobPart, None]:
    for each in parts:
        yield each


async def reason(child: JudgeChild, *parts: JobPart) -> str:
    """Why a job is not judged."""
    with pytest.raises(NotJudged) as raised:
        await child.judge(job(), given(*parts), Judgement)
    await child.close()
    return str(raised.value)


async def test_a_judgement_is_that_of_the_judge_itself() -> None:
    child = JudgeChild()
    parts = [*records(), timeline(sample(1000.5), sample(1001.5))]
    judgement, document = await child.judge(job(), given(*parts), Judgement)
    await child.close()
    duration = {"duration_seconds": judgement.duration_seconds}
    again, same_document = judge_job(job(), parts)
    assert judgement == again.model_copy(update=duration)
    assert document == same_document
    assert judgement.measured_anything


async def test_a_run_and_a_sweep_are_judged_by_one_process() -> None:
    child = JudgeChild()
    runs = tuple(
        TabledRun(variant=name, name=f"run-{name}", uid=name)
        for name in ("base", "wide")
    )
    figures = [
        table_row(OutputThroughput=1000.0),
        table_row(OutputThroughput=2000.0),
    ]
    parts = [
        JobPart.of(
            "run",
            status_of("any", [each]).status.model_dump_json(by_alias=True).encode(),
            name=run.uid,
        )
        for run, each in zip(runs, figures, strict=True)
    ]
    table, _ = await child.judge(
        SweepJob(spec=sweep_body(), baseline="base", runs=runs, missing={}),
        given(*parts),
        SweepTable,
    )
    assert [
        (row.variant, row.runs, row.metrics["output_throughput"])
        for row in table.results
    ] == [
        ("base", 1, 1000.0),
        ("wide", 1, 2000.0),
    ]
    assert (await child.judge(job(), given(*records()), Judgement))[
        0
    ].measured_anything
    assert len(children()) == 1
    await child.close()


async def test_a_sweep_of_what_is_no_status_is_not_judged() -> None:
    child = JudgeChild()
    run = TabledRun(variant="base", name="run", uid="base")
    part = JobPart.of("run", b'{"results": 5}', name="base")
    with pytest.raises(NotJudged):
        await child.judge(
            SweepJob(spec=sweep_body(), baseline="base", runs=(run,)),
            given(part),
            SweepTable,
        )
    await child.close()


async def test_jobs_one_after_the_other_are_judged_by_one_process() -> None:
    child = JudgeChild()
    seen = []
    for _ in range(3):
        await child.judge(job(), given(*records()), Judgement)
        seen.append(children())
    await child.close()
    assert len(seen[0]) == 1
    assert seen[0] == seen[1] == seen[2]


async def test_jobs_that_come_together_wait_for_each_other() -> None:
    child = JudgeChild()
    jobs = [
        child.judge(job(name=f"run-{n}"), given(*records()), Judgement)
        for n in range(4)
    ]
    assert all(found.measured_anything for found, _ in await asyncio.gather(*jobs))
    await child.close()


async def test_a_judge_without_work_ends_by_itself() -> None:
    child = JudgeChild(idle_seconds=0)
    await child.judge(job(), given(*records()), Judgement)
    async with asyncio.timeout(30):
        while children():  # noqa: ASYNC110  nothing tells that a process of others has ended
            await asyncio.sleep(0.01)
    assert (await child.judge(job(), given(*records()), Judgement))[
        0
    ].measured_anything
    await child.close()


async def test_what_unfolds_is_rejected_and_the_rest_is_judged() -> None:
    child = JudgeChild()
    gaps = gzip.compress(b'{"gaps":{"us":[' + b"0," * 3_900_000 + b"0]}}")
    digest = hashlib.sha256(gaps).hexdigest()
    envelope = sealed_bytes(
        0, gaps, run_uid=UID, stage_id=STAGES[0], digest=digest
    ).envelope
    bomb = JobPart.of("record", gaps, name="bomb", envelope=envelope)
    many = forged_timeline('"at":[' + "0," * 1_900_000 + "0]")
    judgement, _ = await child.judge(
        job(), given(bomb, many, part(measured(1))), Judgement
    )
    await child.close()
    assert (judgement.refused_count, judgement.measured_anything) == (2, True)


async def test_a_judge_that_needs_too_much_memory_gives_up_and_the_next_run_is_judged() -> (
    None
):
    small = JudgeChild(memory_bytes=64 * MIB)
    whole = JudgeChild()
    assert "MemoryError" in await reason(small, large())
    assert (await whole.judge(job(), given(large()), Judgement))[
        0
    ].measured_anything
    await whole.close()


async def test_a_judge_that_needs_too_much_time_of_the_processor_is_killed() -> (
    None
):
    assert "SIG" in await reason(JudgeChild(cpu_seconds=1), *[large()] * 100)


async def test_a_judge_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    child = JudgeChild(
        wall_seconds=0.5, command=fake(tmp_path, "import time; time.sleep(600)")
    )
    assert "0.5 s" in await reason(child, *records())


async def test_a_judge_that_never_stops_complaining_is_killed(
    tmp_path: Path,
) -> None:
    script = "import sys\nwhile True: sys.stderr.write('x' * 10_000)"
    assert "0.5 s" in await reason(
        JudgeChild(wall_seconds=0.5, command=fake(tmp_path, script)), *records()
    )


async def test_a_judge_that_neither_reads_nor_ends_stops_nobody(
    tmp_path: Path,
) -> None:
    child = JudgeChild(
        wall_seconds=0.5, command=fake(tmp_path, "import time; time.sleep(600)")
    )
    full = JobPart.of("baseline", bytes(2 * MIB), name="more than a pipe holds")
    assert "0.5 s" in await reason(child, *[full] * 8)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("print('no judgement')", "not a judgement", id="text"),
        pytest.param("print('[]')", "not a judgement", id="JSON"),
        pytest.param(
            'print(\'{"verdict": "Splendid"}\')',
            "not a judgement",
            id="another verdict",
        ),
        pytest.param("print('\\x00' * 100)", "not a judgement", id="bytes"),
        pytest.param(
            f"print('x' * {4 * MAX_JUDGEMENT_BYTES})", "larger than", id="too much"
        ),
        pytest.param(
            "print('x', end='')", "without an error message", id="half a line"
        ),
        pytest.param("pass", "without an error message", id="nothing"),
        pytest.param("print('{}')", "without an error message", id="no document"),
        pytest.param("print('{}'); print('[]')", "not a judgement", id="no head"),
        pytest.param(
            f"print('{{}}'); print({NO_DOCUMENT!r})",
            "digest",
            id="another document",
        ),
        pytest.param(
            f"print('{{}}'); print({TOO_LARGE!r})",
            "not a judgement",
            id="a large one",
        ),
        pytest.param(
            "import sys; sys.exit('\\x1b[2Jno room')",
            "?[2Jno room",
            id="its last words",
        ),
    ],
)
async def test_invalid_output_gives_no_judgement(
    tmp_path: Path, script: str, message: str
) -> None:
    words = await reason(
        JudgeChild(command=fake(tmp_path, script), wall_seconds=20), *records()
    )
    assert message in words
    assert len(words) <= 300


async def test_a_judge_that_cannot_be_started_is_none() -> None:
    assert "started" in await reason(
        JudgeChild(command=("/nonexistent/python",)), *records()
    )


async def test_a_judge_that_is_killed_costs_its_run_and_no_other() -> None:
    child = JudgeChild()

    async def killing() -> AsyncGenerator[JobPart, None]:
        yield records()[0]
        (process,) = children()
        while not (forks := children(process)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        os.kill(forks[0], signal.SIGKILL)

    with pytest.raises(NotJudged, match="SIGKILL"):
        await child.judge(job(), killing(), Judgement)
    assert (await child.judge(job(), given(*records()), Judgement))[
        0
    ].measured_anything
    await child.close()


async def test_an_operator_that_ends_does_not_wait_for_its_judge() -> None:
    child = JudgeChild()
    begun = asyncio.Event()

    async def endless() -> AsyncGenerator[JobPart, None]:
        begun.set()
        yield records()[0]
        await asyncio.Event().wait()

    judging = asyncio.create_task(child.judge(job(), endless(), Judgement))
    await begun.wait()
    await child.close()
    assert children() == []
    judging.cancel()
    await asyncio.wait({judging})


async def test_a_job_that_is_given_up_leaves_nothing_behind() -> None:
    child = JudgeChild()
    begun = asyncio.Event()

    async def endless() -> AsyncGenerator[JobPart, None]:
        yield records()[0]
        begun.set()
        await asyncio.Event().wait()

    judging = asyncio.create_task(child.judge(job(), endless(), Judgement))
    await begun.wait()
    judging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await judging
    assert children() == []
    assert (await child.judge(job(), given(*records()), Judgement))[
        0
    ].measured_anything
    await child.close()


@pytest.mark.parametrize("error", [LookupError, TimeoutError, ConnectionResetError])
async def test_what_cannot_be_read_is_the_readers_own_matter(
    error: type[Exception],
) -> None:
    child = JudgeChild()

    async def unreadable() -> AsyncGenerator[JobPart, None]:
        yield records()[0]
        raise error

    with pytest.raises(error):
        await child.judge(job(), unreadable(), Judgement)
    assert (await child.judge(job(), given(*records()), Judgement))[
        0
    ].measured_anything
    await child.close()


async def test_an_invalid_spec_is_reported() -> None:
    child = JudgeChild()
    with pytest.raises(NotJudged, match="ValidationError"):
        await child.judge(job({"model": 5}), given(*records()), Judgement)
    await child.close()


async def test_the_judge_gets_nothing_of_the_operators_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHRUN_TOKEN", "secret")
    script = "import os, sys; sys.exit(' '.join(sorted(os.environ)) + ' in ' + os.getcwd())"
    words = await reason(JudgeChild(command=fake(tmp_path, script)), *records())
    assert words == "LC_ALL PATH PYTHONDONTWRITEBYTECODE PYTHONPATH in /"


def test_every_list_of_a_judgement_may_be_cut_at_once() -> None:
    cut = [Truncated(field=f"list {n}", total=2, included=1) for n in range(17)]
    assert (
        Judgement.model_validate_json(
            Judgement(truncated=cut).model_dump_json()
        ).truncated
        == cut
    )


ECHO = f"""
import sys
for line in sys.stdin.buffer:
    if line == b"\\n":
        print("{{}}")
        print({DocumentHead.of(b"").line().decode().strip()!r}, flush=True)
"""


async def test_namespaces_take_turns() -> None:
    """Twenty jobs of one keep another from the second turn, not from the twenty-first."""
    child = JudgeChild(command=(sys.executable, "-c", ECHO))
    order: list[str] = []
    begin = asyncio.Event()

    async def parts() -> AsyncGenerator[JobPart, None]:
        await begin.wait()
        return
        yield

    async def one(namespace: str) -> None:
        mine = job().model_copy(update={"namespace": namespace})
        await child.judge(mine, parts(), Judgement)
        order.append(namespace)

    tasks = [asyncio.create_task(one("busy")) for _ in range(20)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(one("other")))
    await asyncio.sleep(0)
    begin.set()
    await asyncio.gather(*tasks)
    await child.close()
    assert order.index("other") <= 1


async def test_a_turn_is_not_held_by_who_cannot_be_read() -> None:
    child = JudgeChild(command=(sys.executable, "-c", ECHO), reading_seconds=0.1)

    async def stalled() -> AsyncGenerator[JobPart, None]:
        await asyncio.Event().wait()
        yield part(measured(0))

    async def slow() -> None:
        with pytest.raises(TooSlow):
            await child.judge(job(), stalled(), Judgement)

    first = asyncio.create_task(slow())
    await asyncio.sleep(0)
    assert await child.judge(job(), given(), Judgement) == (Judgement(), b"")
    await first
    await child.close()
