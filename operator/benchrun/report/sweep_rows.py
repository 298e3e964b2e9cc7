"""Tables of sweeps: many of them, and one with its variants. Text only, no layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from pydantic import ValidationError

from benchrun.api import KEYS, OUTPUT_COST, TOKENS_PER_JOULE
from benchrun.api.sweep.status import BenchmarkSweepStatus, BestVariant, FrontPoint, Row
from benchrun.judge.comparison.figures import SCOPES
from benchrun.judge.row import PER_GPU
from benchrun.judge.sweep.measured import KV_CACHE, PREFIX_HITS, RUNNING, WAITING
from benchrun.observe import raw
from benchrun.observe.trim import sweep_of
from benchrun.observe.views import Sweep
from benchrun.report.comparison_rows import WORDS, interval, signed
from benchrun.report.result_rows import NO_TEXTS, cost_columns, cost_header, texts_a_second
from benchrun.report.rows import ABSENT, Column, Rows, age, figure, laid_out
from benchrun.report.run_list import OLDEST, took
from benchrun.report.run_summary import Summary

LEGEND = (
    "means over the runs; latencies in milliseconds; running, waiting, KV max and hits are the servers' own words: "
    "means over stages and runs, of the KV cache the most of any run"
)
_REQUESTS, _OUTPUT, _TOTAL = (KEYS[name] for name in ("RequestThroughput", "OutputThroughput", "TotalTokenThroughput"))
_LATENCIES = (("TTFT", KEYS["MeanTTFT"]), ("TPOT", KEYS["MeanTPOT"]), ("E2EL", KEYS["MeanE2EL"]))


def variant_rows(
    status: BenchmarkSweepStatus, *, texts_per_prompt: Mapping[str, int] = NO_TEXTS, wide: bool = False
) -> Rows:
    """One row a variant and load point: what was measured, and what the servers did meanwhile.

    A column in which nothing was measured is left out. Unless it may be `wide`, so is the throughput per GPU where it is that of
    the server, and the total of tokens where there are latencies to show."""
    throughputs = [(row.metrics.get(_OUTPUT), row.metrics.get(PER_GPU)) for row in status.results]
    has_latencies = any(row.metrics.get(key) is not None for row in status.results for _, key in _LATENCIES)
    columns: tuple[Column[Row], ...] = (
        Column("variant", lambda row: row.variant),
        Column("load point", lambda row: row.cell),
        Column("runs", lambda row: str(row.runs)),
        Column("req/s", lambda row: _figure(row, _REQUESTS)),
        Column("texts/s", lambda row: _texts(row, texts_per_prompt), optional=True),
        Column("tok/s", lambda row: _figure(row, _OUTPUT)),
        Column("total tok/s", lambda row: _figure(row, _TOTAL), wide=has_latencies, optional=True),
        Column("per GPU", lambda row: _figure(row, PER_GPU), wide=all(a == b for a, b in throughputs), optional=True),
        *cost_columns(status.currency),
        Column("tok/J", _reader(TOKENS_PER_JOULE), optional=True),
        *(Column(name, _reader(key), optional=True) for name, key in _LATENCIES),
        Column("running", _reader(RUNNING), optional=True),
        Column("waiting", _reader(WAITING), optional=True),
        Column("KV max", _reader(KV_CACHE, unit="%"), optional=True),
        Column("hits", _reader(PREFIX_HITS, unit="%"), optional=True),
        Column("verdict", lambda row: row.verdict if row.runs else row.reason or row.verdict),
    )
    return laid_out(columns, status.results, wide=wide)


def change_rows(status: BenchmarkSweepStatus) -> Rows:
    """One row a variant, load point and figure: the baseline's beside its own, by how much they differ, and whether that is noise."""
    base = {row.cell: row for row in status.results if row.variant == status.baseline}
    others = dict.fromkeys(row.variant for row in status.results if row.changes)
    own = next(iter(others)) if len(others) == 1 else "its own"
    headers = ("variant", "load point", "figure", status.baseline or "baseline", own, "change", "interval", "word")
    rows = tuple(
        (
            row.variant,
            row.cell,
            change.metric,
            _figure(base[row.cell], KEYS[change.metric]) if row.cell in base else ABSENT,
            _figure(row, KEYS[change.metric]),
            signed(change.change_percent, unit=" %"),
            interval(change),
            WORDS.get(change.word, change.word),
        )
        for row in status.results
        for change in row.changes
    )
    return Rows(headers, rows)


def best_rows(status: BenchmarkSweepStatus) -> Rows:
    """One row a workload and objective: who did best, what its tokens cost there, and who can't be told from it."""
    columns: tuple[Column[BestVariant], ...] = (
        Column("workload", lambda best: best.workload),
        Column("objective", lambda best: best.objective),
        Column("best", lambda best: best.variant),
        Column("load point", lambda best: best.cell),
        Column("tok/s per GPU", lambda best: figure(best.throughput_per_gpu)),
        Column(cost_header(status.currency), lambda best: _cost(status, best), optional=True),
        Column("not to be told from it", lambda best: _ties(best.tied_with)),
    )
    return laid_out(columns, status.best, wide=True)


def front_rows(status: BenchmarkSweepStatus) -> Rows:
    """One row a point of the Pareto front, from the lowest TPOT on."""
    columns: tuple[Column[FrontPoint], ...] = (
        Column("workload", lambda point: point.workload),
        Column("variant", lambda point: point.variant),
        Column("load point", lambda point: point.cell),
        Column("tok/s per GPU", lambda point: figure(point.throughput_per_gpu)),
        Column(cost_header(status.currency), lambda point: _cost(status, point), optional=True),
        Column("TPOT", lambda point: figure(point.mean_tpot_ms)),
    )
    return laid_out(columns, status.front, wide=True)


def remarks(status: BenchmarkSweepStatus) -> list[str]:
    """Why variants failed, what was lost, why rows are not comparable, and what limits; each once."""
    failed = [
        f"{variant.name}: {variant.reason} in {variant.run}: {variant.message or ''}".rstrip(": ")
        for variant in status.variants
        if variant.reason is not None
    ]
    lost = [
        f"{variant.name}: {variant.lost} {'run' if variant.lost == 1 else 'runs'} lost with a server or client, and measured anew"
        for variant in status.variants
        if variant.lost
    ]
    reasons = [f"{row.variant} at {row.cell}: {row.reason}" for row in status.results if row.reason and row.runs]
    left_out = [
        f"{row.variant} at {row.cell}: {row.left_out} of {row.runs + row.left_out} runs left out, Invalid there or without it"
        for row in status.results
        if row.left_out
    ]
    limits = [f"{row.variant} at {row.cell}: {row.limit.sentence}" for row in status.results if row.limit is not None]
    searches = [
        f"{variant.name}: highest {found.axis} of {found.workload}: {', '.join(found.loads)}"
        for variant in status.variants
        for found in variant.searches
    ]
    return list(dict.fromkeys([*failed, *lost, *reasons, *left_out, *limits, *searches]))


def cuts(status: BenchmarkSweepStatus) -> list[str]:
    """What did not fit into the status, in sentences."""
    return [
        f"{cut.field}: {cut.included} of {cut.total}; the rest did not fit into the status" for cut in status.truncated
    ]


def _figure(row: Row, key: str, *, unit: str = "") -> str:
    return figure(row.metrics.get(key), unit=unit)


def _reader(key: str, *, unit: str = "") -> Callable[[Row], str]:
    return lambda row: _figure(row, key, unit=unit)


def _texts(row: Row, texts_per_prompt: Mapping[str, int]) -> str:
    return texts_a_second(row.metrics.get(_REQUESTS), row.cell.partition("/")[0], texts_per_prompt)


def _cost(status: BenchmarkSweepStatus, of: BestVariant | FrontPoint) -> str:
    """Of a million output tokens, as the table has it."""
    rows = (row for row in status.results if (row.variant, row.cell) == (of.variant, of.cell))
    return figure(next((row.metrics.get(OUTPUT_COST) for row in rows), None))


def _ties(names: list[str]) -> str:
    return ", ".join(names) or ABSENT


# ---- sweep list -------------------------------------------------------------------------------------------------------
# Rows of `benchrun get` for sweeps, and one of them on half a screen.

HEADERS = ("sweep", "state", "runs", "best", "load point", "tok/s per GPU", "took", "age")
WIDE = ("baseline", "model", "image")


def sweep_list_rows(
    bodies: Iterable[raw.Object], *, now: datetime, wide: bool = False, namespaces: bool = False
) -> Rows:
    """One row a sweep, the youngest first. The best is that of the first workload, by throughput per GPU."""
    sweeps = sorted(
        (sweep_of(body) for body in bodies), key=lambda sweep: (sweep.created_at or OLDEST, sweep.name), reverse=True
    )
    headers = (*(("namespace",) if namespaces else ()), *HEADERS, *(WIDE if wide else ()))
    return Rows(headers, tuple(_row(sweep, now=now, wide=wide, namespaces=namespaces) for sweep in sweeps))


def sweep_summary(sweep: Sweep, status: BenchmarkSweepStatus, *, now: datetime) -> Summary:
    """Of a sweep that waits, goes on or has ended."""
    where = f" -n {sweep.namespace}" if sweep.namespace else ""
    command = "watch" if status.completion_time is None else "report"
    return Summary(
        title=f"{sweep.namespace}/{sweep.name}" if sweep.namespace else sweep.name,
        word=_state(status),
        sentence=status.message or "no operator has looked at it yet",
        facts=tuple((name, text) for name, text in _facts(sweep, status, now=now) if text),
        look_further=(f"benchrun {command} {sweep.name}{where}",),
    )


def _row(sweep: Sweep, *, now: datetime, wide: bool, namespaces: bool) -> tuple[str, ...]:
    try:
        status = BenchmarkSweepStatus.model_validate(sweep.status)
    except ValidationError:
        # Another version's; that must not hide the sweeps beside it.
        status = BenchmarkSweepStatus(message="written by another version of the API")
    best = status.best[0] if status.best else None
    cells = (
        sweep.name,
        _state(status),
        status.runs.summary if status.runs is not None else ABSENT,
        best.variant if best is not None else ABSENT,
        best.cell if best is not None else ABSENT,
        figure(best.throughput_per_gpu if best is not None else None),
        took(status, now=now),
        age((now - (sweep.created_at or now)).total_seconds()),
    )
    return (*((sweep.namespace,) if namespaces else ()), *cells, *(_wide(sweep, status) if wide else ()))


def _wide(sweep: Sweep, status: BenchmarkSweepStatus) -> tuple[str, ...]:
    return tuple(text or ABSENT for text in (status.baseline, _model(sweep), _image(sweep)))


def _state(status: BenchmarkSweepStatus) -> str:
    """The verdict of a sweep that was measured, the phase of any other."""
    return status.verdict or "Completed" if status.phase == "Completed" else status.phase or "Pending"


def _facts(sweep: Sweep, status: BenchmarkSweepStatus, *, now: datetime) -> Iterator[tuple[str, str]]:
    yield "model", _model(sweep)
    yield "image", _image(sweep)
    yield "variants", ", ".join(variant.name for variant in status.variants)
    yield "baseline", status.baseline or ""
    if status.runs is not None:
        counts = status.runs.model_dump(exclude={"tabled", "summary"})
        yield "runs", ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    if status.gpu_seconds:
        yield "GPU seconds", figure(status.gpu_seconds)
    if sweep.created_at is not None:
        yield "created", f"{age((now - sweep.created_at).total_seconds())} ago"
    yield "time", took(status, now=now)
    for best in status.best:
        tied = f", not to be told from {', '.join(best.tied_with)}" if best.tied_with else ""
        told = f"{best.variant} at {best.cell}, {figure(best.throughput_per_gpu)} tok/s per GPU{tied}"
        yield f"best, {best.objective}", told
    yield "compared", SCOPES[status.scope] if status.scope is not None else ""
    for remark in remarks(status):
        yield "note", remark


def _template(sweep: Sweep) -> raw.Object:
    return raw.mapping(sweep.spec.get("template"))


def _model(sweep: Sweep) -> str:
    return raw.text(raw.mapping(_template(sweep).get("model")).get("name"))


def _image(sweep: Sweep) -> str:
    template = _template(sweep)
    return raw.text(raw.mapping(template.get("server") or template.get("offline")).get("image"), 1024)
