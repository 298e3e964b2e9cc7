"""Build the tables of a sweep and its variants, the unit of its throughput, and remarks."""

from collections.abc import Callable, Mapping

from benchrun.api import (
    KEYS,
    OUTPUT_COST,
    PER_GPU,
    SCOPES,
    SHOWN_FIGURES,
    TOKENS_PER_JOULE,
    Change,
    ComparedMetric,
    are_of_whole_answers,
)
from benchrun.api.sweep import (
    BenchmarkSweepStatus,
    BestVariant,
    FrontPoint,
    SweepRow,
    UndecidedVariant,
    VariantStatus,
)
from benchrun.measure import detected_text
from benchrun.report import comparison_rows, tables
from benchrun.report.comparison_rows import CHANGE_HEADERS, change_load_points
from benchrun.report.tables import (
    ABSENT,
    NO_TEXTS,
    WOULD_TAKE,
    Column,
    Rows,
    Texts,
    figure,
    metric,
    price_of,
    table_of,
)

LEGEND = (
    "means over the runs; TTFT, TPOT and E2EL are mean latencies in milliseconds; running, "
    "waiting, KV max and hits are what the servers report: means over stages and runs; KV max: "
    "highest of any run"
)
MAX_POINTS = 8  # Most load points side by side; the long table has all.
_SIDE_BY_SIDE: Mapping[str, ComparedMetric] = {
    "req/s": "RequestThroughput",
    "tok/s": "OutputThroughput",
    "total tok/s": "TotalTokenThroughput",
    "TTFT": "MeanTTFT",
    "TPOT": "MeanTPOT",
    "E2EL": "MeanE2EL",
    "p99 TTFT": "P99TTFT",
    "p99 TPOT": "P99TPOT",
    "ready s": "TimeToReady",
}
_REQUESTS, _OUTPUT, _TOTAL = (
    KEYS[name]
    for name in ("RequestThroughput", "OutputThroughput", "TotalTokenThroughput")
)
_LATENCIES = (
    ("TTFT", KEYS["MeanTTFT"]),
    ("TPOT", KEYS["MeanTPOT"]),
    ("E2EL", KEYS["MeanE2EL"]),
)


def variant_rows(
    status: BenchmarkSweepStatus,
    *,
    texts_per_prompt: Texts = NO_TEXTS,
    wide: bool = False,
) -> Rows:
    """Build a table with one row for each variant and load point, of clients' and servers' figures.

    Columns in which nothing was measured are left out. So are two more, unless the table may be
    `wide`: the throughput per GPU if it equals that of the server, and the total of tokens if there
    are latencies to show. Without GPUs no column is per GPU.
    """
    per_gpu = metric(PER_GPU) if is_per_gpu(status) else lambda row: ABSENT
    throughputs = [
        (row.metrics.get(_OUTPUT), row.metrics.get(PER_GPU))
        for row in status.results
    ]
    has_latencies = any(
        row.metrics.get(key) is not None
        for row in status.results
        for _, key in _LATENCIES
    )
    # Without tokens of answers, as of embeddings, those of the prompts are what there is.
    measured = [row.metrics for row in status.results if row.metrics]
    whole = bool(measured) and all(map(are_of_whole_answers, measured))
    latencies: list[Column[SweepRow]] = [
        Column(name, metric(key), optional=True) for name, key in _LATENCIES
    ]
    reported: list[Column[SweepRow]] = [
        Column(each.column, metric(name, unit=each.unit), optional=True)
        for name, each in SHOWN_FIGURES.items()
    ]
    columns: tuple[Column[SweepRow], ...] = (
        Column("variant", lambda row: row.variant),
        Column("load point", lambda row: row.load_point),
        Column("runs", lambda row: str(row.runs)),
        Column("req/s", metric(_REQUESTS)),
        Column("texts/s", tables.texts_a_second(texts_per_prompt), optional=True),
        Column("tok/s", metric(_OUTPUT), optional=whole),
        Column("tok/s of", tables.throughput_of, wide=True, optional=True),
        Column(
            "total tok/s",
            metric(_TOTAL),
            wide=has_latencies and not whole,
            optional=True,
        ),
        Column(
            "per GPU",
            per_gpu,
            wide=all(a == b for a, b in throughputs),
            optional=True,
        ),
        *tables.cost_columns(status.currency),
        Column("tok/J", metric(TOKENS_PER_JOULE), optional=True),
        *latencies,
        Column("ready s", metric(KEYS["TimeToReady"]), optional=True),
        *reported,
        Column(
            "verdict",
            lambda row: row.verdict if row.runs else row.reason or row.verdict,
        ),
    )
    return table_of(columns, status.results, wide=wide)


def change_rows(status: BenchmarkSweepStatus) -> Rows:
    """Build a table with one row for each variant, load point and figure.

    It has the figures of the baseline and the variant, their difference, and whether that is noise.
    """
    base = {
        row.load_point: row
        for row in status.results
        if row.variant == status.baseline
    }
    others = dict.fromkeys(row.variant for row in status.results if row.changes)
    own = next(iter(others)) if len(others) == 1 else "its own"
    headers = (
        "variant",
        "load point",
        "figure",
        status.baseline or "baseline",
        own,
        *CHANGE_HEADERS,
    )
    rows = tuple(
        (
            row.variant,
            row.load_point,
            change.metric,
            *_compared(base.get(row.load_point), row, change),
            *change_load_points(change),
        )
        for row in status.results
        for change in row.changes
    )
    return Rows(headers, rows)


def setting_rows(status: BenchmarkSweepStatus) -> Rows:
    """Build a table with one row for each variant and setting that differs from the baseline's."""
    rows = [
        (variant.name, *cells)
        for variant in status.variants
        for cells in comparison_rows.setting_rows(variant.settings).rows
    ]
    return Rows(("variant", *comparison_rows.SETTING_HEADERS), tuple(rows))


def _compared(
    base: SweepRow | None, row: SweepRow, change: Change
) -> tuple[str, str]:
    """Return both figures of a change; if it has none, those of the rows."""
    if change.value is not None:
        return figure(change.baseline), figure(change.value)
    shown = metric(KEYS[change.metric])
    return ABSENT if base is None else shown(base), shown(row)


def configuration_rows(status: BenchmarkSweepStatus) -> Rows:
    """Build a table with one row for each figure and variant, one column for each load point."""
    return _by_load_point(status, lambda row, name: metric(KEYS[name])(row))


def configuration_change_rows(status: BenchmarkSweepStatus) -> Rows:
    """Build the table of changes against the baseline, laid out like `configuration_rows`.

    Each change has its interval and its outcome.
    """

    def change(row: SweepRow, name: ComparedMetric) -> str:
        found = next(
            (
                change_load_points(each)
                for each in row.changes
                if each.metric == name
            ),
            None,
        )
        return (
            ABSENT
            if found is None or found[0] == ABSENT
            else "{} ({}) {}".format(*found)
        )

    return _by_load_point(status, change)


def _by_load_point(
    status: BenchmarkSweepStatus,
    load_point: Callable[[SweepRow, ComparedMetric], str],
) -> Rows:
    """Build a table with one column for each load point.

    It has no rows if there is a single variant or load point, or if there are too many load points,
    because other tables show those.
    """
    at = {(row.variant, row.load_point): row for row in status.results}
    variants, points = (
        list(dict.fromkeys(key[place] for key in at)) for place in (0, 1)
    )
    rows = [
        (
            title,
            variant,
            *(
                load_point(at[variant, point], name)
                if (variant, point) in at
                else ABSENT
                for point in points
            ),
        )
        for title, name in _SIDE_BY_SIDE.items()
        for variant in variants
    ]
    shown = tuple(row for row in rows if any(value != ABSENT for value in row[2:]))
    return Rows(
        ("figure", "variant", *points),
        shown if len(variants) > 1 and 1 < len(points) <= MAX_POINTS else (),
    )


def is_per_gpu(status: BenchmarkSweepStatus) -> bool:
    """Return whether variants are compared by throughput per GPU, because every one has GPUs."""
    return bool(status.variants) and all(
        variant.gpus for variant in status.variants
    )


def throughput_unit(status: BenchmarkSweepStatus) -> str:
    """Return the unit in which the variants are compared."""
    return "tok/s per GPU" if is_per_gpu(status) else "tok/s"


Told = BestVariant | FrontPoint | UndecidedVariant


def throughput(
    status: BenchmarkSweepStatus, of: Told, *, per_gpu: bool | None = None
) -> float | None:
    """Return the throughput per GPU or per server; with `per_gpu` None, as variants are compared.

    Earlier versions stored only the throughput per GPU, and counted a server without GPUs as one
    GPU.
    """
    if per_gpu is None:
        per_gpu = is_per_gpu(status)
    if per_gpu or of.throughput is not None:
        return of.throughput_per_gpu if per_gpu else of.throughput
    gpus = next(
        (each.gpus for each in status.variants if each.name == of.variant), 0
    )
    return (
        None
        if of.throughput_per_gpu is None
        else of.throughput_per_gpu * max(1, gpus)
    )


NONE_CERTAIN = "none is certain"


def best_rows(status: BenchmarkSweepStatus) -> Rows:
    """Build a table with one row for each workload and objective: which variant is best.

    It has the cost of its tokens, the variants that are tied with it, and the undecided variants
    that may be better.
    """
    columns: tuple[Column[BestVariant], ...] = (
        Column("workload", lambda best: best.workload),
        Column("objective", lambda best: best.objective),
        Column("best", lambda best: best.variant or NONE_CERTAIN),
        Column("load point", lambda best: best.load_point or ABSENT),
        Column(
            throughput_unit(status), lambda best: figure(throughput(status, best))
        ),
        Column(
            tables.cost_header(status.currency),
            lambda best: _cost(status, best),
            optional=True,
        ),
        Column("tied with", lambda best: ", ".join(best.tied_with) or ABSENT),
        Column("undecided", _undecided_names, optional=True),
        Column(
            "selection bias",
            lambda best: figure(best.optimism_percent, unit="%"),
            optional=True,
        ),
    )
    return table_of(columns, status.best)


def _undecided_names(best: BestVariant) -> str:
    names = [each.variant for each in best.undecided]
    more = [f"{best.more_undecided} more"] if best.more_undecided else []
    return ", ".join((*names, *more)) or ABSENT


def undecided_rows(status: BenchmarkSweepStatus) -> Rows:
    """Build a table with one row for each undecided variant that may be better than the best.

    It has what would decide it, and why it is undecided.
    """
    rows = [(best, each) for best in status.best for each in best.undecided]
    columns: tuple[Column[tuple[BestVariant, UndecidedVariant]], ...] = (
        Column("workload", lambda row: row[0].workload),
        Column("objective", lambda row: row[0].objective),
        Column("undecided", lambda row: row[1].variant),
        Column("load point", lambda row: row[1].load_point),
        Column(
            throughput_unit(status), lambda row: figure(throughput(status, row[1]))
        ),
        Column(WOULD_TAKE, lambda row: price_of(row[1].price), optional=True),
        Column("why", lambda row: row[1].why),
    )
    return table_of(columns, rows)


def front_rows(status: BenchmarkSweepStatus) -> Rows:
    """Build a table with one row for each point of the Pareto front, by rising TPOT."""
    columns: tuple[Column[FrontPoint], ...] = (
        Column("workload", lambda point: point.workload),
        Column("variant", lambda point: point.variant),
        Column("load point", lambda point: point.load_point),
        Column(
            throughput_unit(status), lambda point: figure(throughput(status, point))
        ),
        Column(
            tables.cost_header(status.currency),
            lambda point: _cost(status, point),
            optional=True,
        ),
        Column("TPOT", lambda point: figure(point.mean_tpot_ms)),
        Column(
            "distinct",
            lambda point: {True: "yes", False: "no", None: ABSENT}[
                point.is_distinct
            ],
            optional=True,
        ),
    )
    return table_of(columns, status.front)


def compared_text(status: BenchmarkSweepStatus) -> str | None:
    """Return a sentence on what the intervals cover and which change they could detect.

    Return None if nothing is compared.
    """
    if status.scope is None:
        return None
    least = status.detectable_percent
    return SCOPES[status.scope] + (
        f". {detected_text(least).capitalize()}" if least is not None else ""
    )


def remarks(status: BenchmarkSweepStatus) -> list[str]:
    """Return the remarks on a sweep, each once.

    They say why variants failed, which runs were lost, why rows are not comparable, what the
    bottlenecks are, and what searches found.
    """
    rows = status.results
    variants = status.variants
    found = [
        *(
            f"{variant.name}: {failure(variant)}"
            for variant in variants
            if variant.reason is not None
        ),
        *(
            f"{variant.name}: {variant.lost} {'run' if variant.lost == 1 else 'runs'} lost with a "
            "server or client, and measured anew"
            for variant in variants
            if variant.lost
        ),
        *(
            f"{row.variant} at {row.load_point}: {row.reason}"
            for row in rows
            if row.reason and row.runs
        ),
        *left_out(status),
        *(
            f"{row.variant} at {row.load_point}: {row.limit.sentence}"
            for row in rows
            if row.limit is not None
        ),
        *(
            f"{variant.name}: highest {search.axis} of {search.workload}: {', '.join(search.loads)}"
            for variant in variants
            for search in variant.searches
        ),
    ]
    return list(dict.fromkeys(found))


def failure(variant: VariantStatus) -> str:
    """Return the reason of a failure, the run and its message."""
    return f"{variant.reason} in {variant.run}: {variant.message or ''}".rstrip(
        ": "
    )


def left_out(status: BenchmarkSweepStatus) -> list[str]:
    """Return a sentence for each row that leaves out some of its runs."""
    return [
        f"{row.variant} at {row.load_point}: {row.left_out} of {row.runs + row.left_out} runs "
        "left out: Invalid or missing at this load point"
        for row in status.results
        if row.left_out
    ]


def cuts(status: BenchmarkSweepStatus) -> list[str]:
    """Return a sentence for each field that did not fit into the status."""
    lost = "the rest did not fit into the status"
    return [
        f"{cut.field}: {cut.included} of {cut.total}; {lost}"
        for cut in status.truncated
    ]


def _cost(status: BenchmarkSweepStatus, of: BestVariant | FrontPoint) -> str:
    rows = (
        row
        for row in status.results
        if (row.variant, row.load_point) == (of.variant, of.load_point)
    )
    return figure(next((row.metrics.get(OUTPUT_COST) for row in rows), None))
