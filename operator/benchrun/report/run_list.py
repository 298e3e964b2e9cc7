"""Build the rows of `benchrun get`: the main facts of each of many runs or sweeps.

Nothing raises, whatever a status holds: one that another release wrote is listed with the others.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import ValidationError

from benchrun.api import BenchmarkRunStatus, answer_of, answering, total_gpus
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.observe import (
    Run,
    Sweep,
    run_of,
    state_of,
    sweep_of,
    untrusted_json as raw,
)
from benchrun.report.sweep_rows import is_per_gpu, throughput
from benchrun.report.tables import ABSENT, Rows, age, clock, figure

MAX_CODES = 1  # Most findings named in a row; the others are counted.
OLDEST = datetime.min.replace(tzinfo=UTC)  # Stands in for an unknown creation time.
S = TypeVar("S", BenchmarkRunStatus, BenchmarkSweepStatus)
_Cells = Mapping[str, str | None]  # Text of cells by header; None if not known.
_Listed = tuple[
    Run | Sweep, BenchmarkRunStatus | BenchmarkSweepStatus, _Cells, _Cells
]
"""Row of the list: an object, its status, the cells of its figures, and the cells that say how it
is measured."""


def run_list_rows(
    bodies: Iterable[raw.Object],
    *,
    now: datetime,
    wide: bool = False,
    namespaces: bool = False,
) -> Rows:
    """Build a table with one row for each run, the youngest first.

    It has the figures of the best Valid load point or, if there is none, those of the best Suspect
    one, marked `?`. The column `answer` is shown if any run has one.
    """
    listed = [
        (run, _status(run, BenchmarkRunStatus)) for run in map(run_of, bodies)
    ]
    answers = [answer_of(status.conditions) for _, status in listed]
    found: list[_Listed] = []
    for (run, status), answer in zip(listed, answers, strict=True):
        best = status.headline
        server = {"server": run.spec.get("server")}
        figures = {
            **({"answer": answer} if any(answers) else {}),
            "stages": status.progress.summary if status.progress else None,
            "load point": best.load_point if best else None,
            "tok/s": best.throughput if best else None,
            "TTFT p99": best.p99_ttft if best else None,
            "limit": limit(status),
            "findings": finding_codes(status),
        }
        server_there = answering(status.servers)
        gpus = total_gpus(status.servers)
        setup = {
            "model": model(run.spec),
            "version": server_there.version if server_there else None,
            "GPU": f"{gpus} {server_there.gpu or ''}".strip()
            if server_there and gpus
            else None,
            "image": image(server),
        }
        found.append((run, status, figures, setup))
    return _listed("run", found, now=now, wide=wide, namespaces=namespaces)


def sweep_list_rows(
    bodies: Iterable[raw.Object],
    *,
    now: datetime,
    wide: bool = False,
    namespaces: bool = False,
) -> Rows:
    """Build a table with one row for each sweep, the youngest first.

    The best is that of the first workload, by throughput; per GPU if every variant of every listed
    sweep has GPUs.
    """
    found: list[_Listed] = []
    read = [
        (sweep, _status(sweep, BenchmarkSweepStatus))
        for sweep in map(sweep_of, bodies)
    ]
    per_gpu = all(is_per_gpu(status) for _, status in read if status.best)
    for sweep, status in read:
        spec = template(sweep)
        best = status.best[0] if status.best else None
        figures = {
            "runs": status.runs.summary if status.runs else None,
            "best": best.variant if best else None,
            "load point": best.load_point if best else None,
            "tok/s per GPU" if per_gpu else "tok/s": figure(
                throughput(status, best, per_gpu=per_gpu) if best else None
            ),
        }
        setup = {
            "baseline": status.baseline,
            "model": model(spec),
            "image": image(spec),
        }
        found.append((sweep, status, figures, setup))
    return _listed("sweep", found, now=now, wide=wide, namespaces=namespaces)


def is_active(body: raw.Object) -> bool:
    """Return whether a run or sweep has not ended, whatever release wrote its status."""
    return state_of(raw.mapping(body.get("status"))) == "Running"


def listed_facts(of: Run | Sweep) -> dict[str, str | bool | None]:
    """Return the facts of a run or sweep for programs, by name; None: the status has none."""
    status = of.status
    texts = ("phase", "verdict", "acceptedTime", "completionTime")
    return {
        "kind": of.kind,
        "namespace": of.namespace,
        "name": of.name,
        "active": state_of(status) == "Running",
        **{name: raw.text(status.get(name)) or None for name in texts},
        "message": raw.text(status.get("message"), raw.MAX_MESSAGE_CHARS) or None,
    }


def _status(of: Run | Sweep, model: type[S]) -> S:
    """Parse a status.

    A status that can't be parsed, since another version wrote it, becomes one with only a message
    that says so. The other objects are then still listed.
    """
    try:
        return model.model_validate(of.status)
    except ValidationError:
        return model(message="written by another version of benchrun")


def _listed(
    kind: str, found: list[_Listed], *, now: datetime, wide: bool, namespaces: bool
) -> Rows:
    found.sort(
        key=lambda each: (each[0].created_at or OLDEST, each[0].name), reverse=True
    )
    rows: list[_Cells] = [
        {
            **({"namespace": of.namespace} if namespaces else {}),
            kind: of.name,
            "state": state(status),
            **figures,
            "took": duration(status, now=now),
            "age": age((now - (of.created_at or now)).total_seconds()),
            **(
                {name: text or None for name, text in setup.items()} if wide else {}
            ),
        }
        for of, status, figures, setup in found
    ]
    cells = (
        tuple(ABSENT if cell is None else cell for cell in row.values())
        for row in rows
    )
    return Rows(tuple(rows[0]) if rows else (), tuple(cells))


def state(status: BenchmarkRunStatus | BenchmarkSweepStatus) -> str:
    """Return the verdict of a run or sweep that was completed, else its phase."""
    return (
        status.verdict or "Completed"
        if status.phase == "Completed"
        else status.phase or "Pending"
    )


def outcome_word(status: BenchmarkRunStatus | BenchmarkSweepStatus) -> str:
    """Return the phase of a run or sweep that failed or was cancelled, else its verdict."""
    return (
        status.phase
        if status.phase in ("Failed", "Cancelled")
        else status.verdict or "Unknown"
    )


def duration(
    status: BenchmarkRunStatus | BenchmarkSweepStatus, *, now: datetime
) -> str:
    """Format the time from acceptance to the end, or until now if it has not ended."""
    begun = raw.instant(status.accepted_time)
    ended = raw.instant(status.completion_time)
    return (
        ABSENT if begun is None else clock(((ended or now) - begun).total_seconds())
    )


def finding_codes(status: BenchmarkRunStatus, *, most: int = MAX_CODES) -> str:
    """Format at most `most` codes of Invalid and Suspect findings, the worst first.

    The number of other codes is added. Notes are only in the report.
    """
    codes = [
        f.code
        for severity in ("Invalid", "Suspect")
        for f in status.findings
        if f.severity == severity
    ]
    more = len(codes) - most
    return ", ".join(codes[:most]) + (f" +{more}" if more > 0 else "") or ABSENT


def limit(status: BenchmarkRunStatus) -> str:
    """Return the bottleneck at the headline's load point; without a headline, at the first."""
    chosen = status.headline.load_point if status.headline is not None else None
    limits = (
        row.bottleneck.limit
        for row in status.results
        if row.bottleneck is not None and chosen in (None, row.load_point)
    )
    return next((each for each in limits if each != "None"), ABSENT)


def model(spec: raw.Object) -> str:
    """Return the name of the model in a run's spec."""
    return raw.text(raw.mapping(spec.get("model")).get("name"))


def template(sweep: Sweep) -> raw.Object:
    """Return the spec of a sweep's runs."""
    return raw.mapping(sweep.spec.get("template"))


def image(spec: raw.Object) -> str:
    """Return the image of the server that a run's spec starts."""
    return raw.text(
        raw.mapping(spec.get("server") or spec.get("offline")).get("image"), 1024
    )
