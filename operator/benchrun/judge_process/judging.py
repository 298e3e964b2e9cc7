"""A job judged: its parts are opened, what does not fit is left out and counted, and the rest goes to the judge."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

from benchrun.api.judgement import MAX_REFUSED, MAX_REFUSED_CHARS, Judgement
from benchrun.api.names import SERVING_ROLES
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.judge.judged_run import judged_run
from benchrun.judge_process.bodies import Asked, PackedRecords
from benchrun.judge_process.job import Job, Part, PartKind
from benchrun.measure.samples import Sample
from benchrun.measure.timeline import decode, once
from benchrun.observe.trim import run_of
from benchrun.observe.views import Run
from benchrun.plan.metadata import Owner

MAX_SAMPLES = 100_000
"""Of a run's timeline, in some 40 MB. A week of 13 servers leaves 3,584 buckets of each."""


def judge_job(job: Job, parts: Iterable[Part]) -> Judgement:
    """The judgement of a run. Raises ValueError where its spec is not one; parts are never a reason to raise, unless there is
    no room or no time for them."""
    started = time.monotonic()
    spec = BenchmarkRunSpec.model_validate(job.spec)
    opened = _Opened(Asked(spec, Owner(namespace=job.namespace, name=job.name, uid=job.uid)))
    for part in parts:
        opened.take(part)
    judgement = judged_run(
        job.name,
        job.uid,
        spec,
        opened.records(),
        opened.samples(),
        servers=job.servers,
        client=job.client,
        baseline=opened.baseline,
        ended_early=job.ended_early,
    )
    return judgement.model_copy(
        update={
            "refused": opened.refused[:MAX_REFUSED],
            "refused_count": len(opened.refused),
            "duration_seconds": round(time.monotonic() - started, 3),
        }
    )


class _Opened:
    """What the parts hold."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._records: dict[int, bytes] = {}
        self._samples: list[Sample] = []
        self.baseline: Run | None = None
        self.refused: list[str] = []

    def take(self, part: Part) -> None:
        """Open a part, or refuse it."""
        try:
            self._TAKERS[part.head.kind](self, part)
        except (ValueError, TypeError, OverflowError, MemoryError, RecursionError) as error:
            self._refuse(part, str(error).partition("\n")[0] or type(error).__name__)

    def records(self) -> PackedRecords:
        """In order of measurement."""
        return PackedRecords(tuple(self._records[sequence] for sequence in sorted(self._records)))

    def samples(self) -> tuple[Sample, ...]:
        """Each once, oldest first."""
        return tuple(once(self._samples))

    def _refuse(self, part: Part, reason: str) -> None:
        self.refused.append(f"{part.head.kind} {part.head.name}: {reason}"[:MAX_REFUSED_CHARS])

    def _take_record(self, part: Part) -> None:
        problem = self._asked.problem_with(part.head, part.data)
        if problem is not None or part.head.sequence is None:
            raise ValueError(problem)
        # The first of a stage stands.
        self._records.setdefault(part.head.sequence, part.data)

    def _take_timeline(self, part: Part) -> None:
        found = decode(part.data).samples
        if len(self._samples) + len(found) > MAX_SAMPLES:
            raise ValueError(f"the run has more than {MAX_SAMPLES} samples")
        self._samples += [sample for sample in found if sample.role in SERVING_ROLES]

    def _take_baseline(self, part: Part) -> None:
        body = json.loads(part.data)
        if not isinstance(body, dict):
            raise ValueError("not an object")
        self.baseline = run_of(body)

    def _take_run(self, part: Part) -> None:
        raise ValueError("not a part of a run")

    _TAKERS: dict[PartKind, Callable[[_Opened, Part], None]] = {  # noqa: RUF012
        "record": _take_record,
        "timeline": _take_timeline,
        "baseline": _take_baseline,
        "run": _take_run,
    }
