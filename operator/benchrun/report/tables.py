"""Tables for people: columns, rows and figures, and the tables of one run's results."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from benchrun import api
from benchrun.api.sweep import SweepRow
from benchrun.measure import ANSWERED_PERCENT, CACHED_BY_ANSWERS, sum_of_known
from benchrun.names import ROLE_DECODE, ROLE_GATEWAY, ROLE_PROXY
from benchrun.observe import untrusted_json as raw
from benchrun.report.said_once import ExplainedRow, said_once

ABSENT = "-"  # Shown where nothing was measured: never 0.
UNCERTAIN = "?"
"""Mark after a figure that can't be relied on: a percentile from too few requests, or a figure of a
Suspect load point."""
UNCERTAIN_NOTE = (
    "? means: too few requests, or too short a stage, to rely on this percentile"
)
LEGEND = (
    "throughput and latencies (ms) are of the steady part, or of the whole stage if "
    "it has none; running and waiting are means over the stages, of all servers"
)
BARS = "▁▂▃▄▅▆▇█"
GAP = " "  # Stands for an unknown value: the lowest bar would be a number.
T = TypeVar("T")
_QUESTIONS: Mapping[str, str] = {
    "TrueRun": "true run",
    "Beginnings": "prompts",
    "AnswerLength": "answers",
    "MaxModelLen": "max-model-len",
    "StepTokens": "step tokens",
}


class Rows(NamedTuple):
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column of a table."""

    header: str
    load_point: Callable[[T], str]
    wide: bool = False  # Shown only in a wide table.
    optional: bool = False  # Left out where no row has it.


def table_of(
    columns: Sequence[Column[T]], rows: Sequence[T], *, wide: bool = True
) -> Rows:
    """Build a table with the columns in the order given.

    Optional columns without any value are left out; so are wide columns, unless the table may be
    `wide`.
    """
    shown = [
        (column.header, load_points)
        for column in columns
        if wide or not column.wide
        for load_points in [[column.load_point(row) for row in rows]]
        if not column.optional
        or any(load_point != ABSENT for load_point in load_points)
    ]
    return Rows(
        tuple(header for header, _ in shown),
        tuple(zip(*(load_points for _, load_points in shown), strict=True)),
    )


def has_uncertain(rows: Rows) -> bool:
    """Return whether a figure of the table is marked as uncertain."""
    return any(
        load_point.endswith(UNCERTAIN) for row in rows.rows for load_point in row
    )


def figure(value: float | None, *, digits: int = 3, unit: str = "") -> str:
    """Format a number with `digits` significant digits and no exponent."""
    if value is None:
        return ABSENT
    return f"{Decimal(f'{value + 0.0:.{digits}g}'):f}{unit}"  # Adding 0.0 turns -0 into 0.


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)")


def format_seconds(seconds: float) -> str:
    """Format a duration in one or two units: `8 s`, `4 min 12 s`, `2 h 5 min`, `3 d`."""
    whole = max(0, round(seconds))
    if whole >= 86_400:
        return f"{whole // 86_400} d"
    if whole < 60:
        return f"{whole} s"
    unit, large, small = (60, "min", "s") if whole < 3600 else (3600, "h", "min")
    rest = whole % unit * 60 // unit
    return f"{whole // unit} {large}" + (f" {rest} {small}" if rest else "")


def age(seconds: float) -> str:
    """Format a duration in one unit, short enough for a column: `8s`, `12m`, `5h`, `3d`."""
    whole = max(0, int(seconds))
    unit = next((unit for unit in ("d", "h", "m") if whole >= _SECONDS[unit]), "s")
    return f"{whole // _SECONDS[unit]}{unit}"


def clock(seconds: float) -> str:
    """Format a duration as `mm:ss`, or `h:mm:ss` from an hour on, so that lines of a log align."""
    hours, rest = divmod(max(0, int(seconds)), 3600)
    return (f"{hours}:" if hours else "") + f"{rest // 60:02d}:{rest % 60:02d}"


def parse_seconds(text: str) -> float:
    """Parse `90`, `90s`, `10m`, `2h` or `1d` into seconds. Raises ValueError for any other text."""
    if (found := _DURATION.fullmatch(text.strip())) is None or float(found[1]) == 0:
        raise ValueError(f"{text!r} is not a length of time; write 90s, 10m or 2h")
    return float(found[1]) * _SECONDS[found[2]]


def sparkline(
    values: Sequence[float | None], *, top: float | None = None, width: int = 30
) -> str:
    """Draw the last `width` values as bars from 0 to `top`, in a text of `width` characters.

    Without a top, the bars reach up to the largest of these values.
    """
    shown = list(values)[-width:] if width > 0 else []
    highest = (
        top
        if top is not None
        else max((value for value in shown if value is not None), default=0.0)
    )
    shares = (
        min(max(value or 0.0, 0.0) / highest, 1.0) if highest > 0 else 0.0
        for value in shown
    )
    bars = (BARS[min(int(share * len(BARS)), len(BARS) - 1)] for share in shares)
    return "".join(
        GAP if value is None else bar
        for value, bar in zip(shown, bars, strict=True)
    ).ljust(width)


# Result rows.

Texts = Mapping[str, int]
"""Number of texts in each prompt of a workload, by the workload's name. A workload that does not
pack texts is left out."""
NO_TEXTS: Texts = MappingProxyType({})
R = TypeVar("R", bound=api.Result | SweepRow)


def metric(key: str, *, unit: str = "") -> Callable[[api.Result | SweepRow], str]:
    """Return a function that formats this figure of a row of a run or sweep.

    A run's throughput is that of the plateau, where there is one.
    """
    return lambda row: figure(_figure_of(row, key), unit=unit)


def _figure_of(row: api.Result | SweepRow, key: str) -> float | None:
    return row.figure(key) if isinstance(row, api.Result) else row.metrics.get(key)


def throughput_of(row: api.Result | SweepRow) -> str:
    """Return from which part a row's throughput is taken, for the column `tok/s of`.

    This is the plateau, the arrivals (at a rate that the server kept up with), or the whole stage.
    """
    return row.throughput_of.lower() if row.throughput_of is not None else ABSENT


def texts_per_prompt(spec: Mapping[str, object]) -> dict[str, int]:
    """Return the texts per prompt of each workload whose dataset is `texts`.

    `spec` is a run's spec as the API server returns it, in any version.
    """
    found: dict[str, int] = {}
    for workload in raw.mappings(spec.get("workloads")):
        dataset = raw.mapping(workload.get("dataset"))
        if "texts" in dataset:
            texts = raw.mapping(dataset["texts"])
            found[raw.text(workload.get("name"))] = raw.number(
                texts.get("textsPerPrompt"), default=1
            )
    return found


def texts_a_second(texts: Texts) -> Callable[[api.Result | SweepRow], str]:
    """Return a function that formats how many texts per second a row stands for."""

    def load_point(row: api.Result | SweepRow) -> str:
        requests = _figure_of(row, "request_throughput")
        each = texts.get(row.load_point.partition("/")[0])
        return figure(
            requests * each if requests is not None and each is not None else None
        )

    return load_point


def cost_header(currency: str | None) -> str:
    """Return the header of the column with the cost of a million output tokens."""
    return f"{currency or 'cost'}/Mtok"


def cost_columns(currency: str | None) -> tuple[Column[R], ...]:
    """Build the columns of the cost of a million output tokens and, in a wide table, of all tokens.

    They are left out if no price is known.
    """
    total = f"{currency or 'cost'}/total Mtok"
    return (
        Column(cost_header(currency), metric(api.OUTPUT_COST), optional=True),
        Column(total, metric(api.TOTAL_COST), wide=True, optional=True),
    )


def price_text(cost: api.CostStatus) -> str:
    """Format a price, such as `4.98 USD an hour`."""
    if cost.per_million_tokens is not None:
        return f"{cost.per_million_tokens}, {cost.currency} a million tokens"
    if cost.per_hour is None:
        return "not known: the price is per GPU, and no server holds one"
    return f"{figure(cost.per_hour, digits=5)} {cost.currency} an hour"


def result_rows(
    status: api.BenchmarkRunStatus,
    *,
    texts_per_prompt: Texts = NO_TEXTS,
    wide: bool = False,
) -> Rows:
    """Build a table with one row for each load point.

    It has throughput, latencies in milliseconds, and what the servers did meanwhile. Texts a
    second, costs and throughput per GPU are shown if the spec has packed texts, a price, or several
    GPUs. The total of tokens is shown if the table may be `wide`.
    """
    whole = bool(status.results) and all(
        row.has_whole_answers for row in status.results
    )
    per_gpu = (
        metric(api.PER_GPU)
        if api.total_gpus(status.servers) > 1
        else lambda row: ABSENT
    )
    columns: tuple[Column[api.Result], ...] = (
        Column("load point", lambda row: row.load_point),
        Column("req/s", metric("request_throughput")),
        Column("texts/s", texts_a_second(texts_per_prompt), optional=True),
        Column("tok/s", metric("output_throughput"), optional=whole),
        Column("total tok/s", metric("total_token_throughput"), wide=not whole),
        Column("tok/s of", throughput_of, wide=True, optional=True),
        Column(
            "stage tok/s",
            lambda row: figure(row.metrics.get("output_throughput")),
            wide=True,
            optional=whole,
        ),
        Column("in:out", _tokens_for_each, wide=True, optional=True),
        Column("per GPU", per_gpu, optional=True),
        *cost_columns(status.cost.currency if status.cost is not None else None),
        Column("tok/J", metric(api.TOKENS_PER_JOULE), optional=True),
        Column(
            "GPU W",
            lambda row: figure(
                sum_of_known(r.gpu_power_mean_watts for r in row.roles)
            ),
            True,
            True,
        ),
        Column("TTFT p50", lambda row: _latency(row, "ttft", "50"), optional=whole),
        Column("p99", lambda row: _latency(row, "ttft", "99"), optional=whole),
        Column(
            "TTFRT p50",
            lambda row: _latency(row, "ttfrt", "50"),
            wide=True,
            optional=True,
        ),
        Column(
            "TTFAT p50", lambda row: _latency(row, "ttfat", "50"), optional=True
        ),
        Column(
            "TTFAT p99", lambda row: _latency(row, "ttfat", "99"), optional=True
        ),
        Column("TPOT p50", lambda row: _latency(row, "tpot", "50"), optional=whole),
        Column(
            "E2EL p50",
            lambda row: _latency(row, "e2el", "50") if whole else ABSENT,
            optional=True,
        ),
        Column("E2EL p99", lambda row: _latency(row, "e2el", "99")),
        *(
            Column(
                shown.column,
                partial(_by_role, name=name, unit=shown.unit),
                optional=shown.is_rare,
            )
            for name, shown in api.SHOWN_FIGURES.items()
        ),
        # Share of the prompt tokens that the decode servers fetched from the prefill servers.
        Column(
            "fetched",
            partial(_of_role, role=ROLE_DECODE, name="fetched_percent", unit="%"),
            optional=True,
        ),
        Column(
            "proxy ms",
            partial(_of_role, role=ROLE_PROXY, name="added_mean_ms"),
            optional=True,
        ),
        Column(
            "gateway ms",
            partial(_of_role, role=ROLE_GATEWAY, name="added_mean_ms"),
            optional=True,
        ),
        Column("replicas", _replicas, optional=True),
        Column("steady part", steady_part, wide=True, optional=True),
        Column("users began", _began, optional=True),
        Column("failed", _failed),
        Column("verdict", lambda row: row.verdict),
    )
    return table_of(columns, status.results, wide=wide)


def _by_role(result: api.Result, *, name: str, unit: str) -> str:
    """Format a figure of each role of servers, with prefill before decode: `0.3/2.1`."""
    roles = [
        role for role in result.roles if role.role not in (ROLE_PROXY, ROLE_GATEWAY)
    ]
    told = result.metrics.get(CACHED_BY_ANSWERS)
    if (
        name == "prefix_hit_percent"
        and told is not None
        and all(role.prefix_hit_percent is None for role in roles)
    ):
        return f"{figure(told, unit=unit)}{BY_ANSWERS}"
    return (
        "/".join(figure(getattr(role, name), unit=unit) for role in roles) or ABSENT
    )


BY_ANSWERS = " (answers)"
"""Mark of a figure that no server's metrics tell, but every answer of the server does."""


def _replicas(result: api.Result) -> str:
    """Format the fewest and the most servers at once, where their number changed: `1..3`."""
    changed = (
        f"{role.servers_min}..{role.servers_max}"
        for role in result.roles
        if role.servers_min is not None
    )
    return "/".join(changed) or ABSENT


def _of_role(result: api.Result, *, role: str, name: str, unit: str = "") -> str:
    return figure(
        next(
            (getattr(each, name) for each in result.roles if each.role == role),
            None,
        ),
        unit=unit,
    )


def _latency(result: api.Result, name: str, percentile: str) -> str:
    """Format a latency in milliseconds, with a mark if it is uncertain.

    The median is used if the spec does not list the 50th percentile.
    """
    key = f"p{percentile}_{name}_ms"
    value = result.figure(key)
    if value is None and percentile == "50":
        value = result.figure(f"median_{name}_ms")
    return figure(value, unit=UNCERTAIN if key in result.uncertain else "")


def _tokens_for_each(result: api.Result) -> str:
    """Return the cell of the column `in:out`: prompt tokens for each output token."""
    prompts, answers = (
        result.metrics.get(f"total_{side}_tokens") or 0.0
        for side in ("input", "output")
    )
    return figure(prompts / answers if prompts and answers else None)


def _failed(result: api.Result) -> str:
    failed = result.metrics.get("failed")
    completed = result.metrics.get("completed")
    if failed is None or completed is None:
        return ABSENT
    answered = result.metrics.get(ANSWERED_PERCENT)
    share = "" if answered is None else f", latencies of {figure(answered)} %"
    return f"{failed:.0f}/{failed + completed:.0f}{share}"


def packing_rows(status: api.BenchmarkRunStatus, texts_per_prompt: Texts) -> Rows:
    """Build a table that compares how texts are packed into prompts.

    There is one row for each figure and total number of texts, and one column for each packing: all
    texts in one prompt, several in a prompt, or one in each. Of several load points the one with
    the most tokens a second is shown. With a single packing there are no rows.
    """
    best: dict[tuple[int, str], api.Result] = {}
    for row in status.results:
        sent = (row.metrics.get("completed") or 0) + (
            row.metrics.get("failed") or 0
        )
        each = texts_per_prompt.get(row.workload, 0)
        if not each or not sent or not row.repeats:
            continue
        total = round(sent / row.repeats) * each
        key = (
            total,
            "all in one prompt"
            if each == total
            else "one a prompt"
            if each == 1
            else f"{each} a prompt",
        )
        if key not in best or _tokens_a_second(row) > _tokens_a_second(best[key]):
            best[key] = row
    packings = list(dict.fromkeys(packing for _, packing in best))
    figures: Mapping[str, Callable[[api.Result], str]] = {
        "total tok/s": metric("total_token_throughput"),
        "tok/s": metric("output_throughput"),
        "texts/s": texts_a_second(texts_per_prompt),
        "prompt tokens": _prompt_tokens_a_repeat,
        "verdict": lambda row: row.verdict,
    }
    rows = tuple(
        (
            str(total),
            name,
            *(
                load_point(best[total, each]) if (total, each) in best else ABSENT
                for each in packings
            ),
        )
        for total in sorted({total for total, _ in best}, reverse=True)
        for name, load_point in figures.items()
    )
    return Rows(
        ("texts in all", "figure", *packings), rows if len(packings) > 1 else ()
    )


def _prompt_tokens_a_repeat(row: api.Result) -> str:
    """Return the number of tokens in the prompts of a repeat, with all digits.

    Packings of the same texts differ only by their instructions.
    """
    tokens = row.metrics.get("total_input_tokens")
    return ABSENT if tokens is None else f"{tokens / row.repeats:.0f}"


def _tokens_a_second(row: api.Result) -> float:
    return row.figure("total_token_throughput") or 0.0


def interval_rows(status: api.BenchmarkRunStatus) -> Rows:
    """Build a table with one row for each percentile.

    It has the value measured in the steady part, its 95 % interval, the figure of the whole stage,
    as `vllm bench serve` has it, and what it would take to rely on it.
    """
    rows = [
        (result, key)
        for result in status.results
        for key in result.steady | result.metrics
        if key in result.intervals or key in result.uncertain
    ]
    columns: tuple[Column[tuple[api.Result, str]], ...] = (
        Column("load point", lambda row: row[0].load_point),
        Column("percentile (ms)", lambda row: row[1].removesuffix("_ms")),
        Column("measured", _marked_percentile),
        Column("at least", lambda row: _end_of_interval(*row, end=0)),
        Column("at most", lambda row: _end_of_interval(*row, end=1)),
        Column(
            "whole stage", lambda row: figure(row[0].metrics.get(row[1]), digits=4)
        ),
        Column(
            WOULD_TAKE,
            lambda row: price_of(row[0].prices.get(row[1])),
            optional=True,
        ),
    )
    return table_of(columns, rows)


def _marked_percentile(row: tuple[api.Result, str]) -> str:
    result, key = row
    mark = UNCERTAIN if key in result.uncertain else ""
    return figure(result.figure(key), digits=4, unit=mark)


def _end_of_interval(result: api.Result, key: str, *, end: int) -> str:
    return figure(result.intervals.get(key, (None, None))[end], digits=4)


def _began(result: api.Result) -> str:
    """Return how the users began, where they did not begin as users do: spread over a round."""
    return "together" if result.user_start == "Together" else ABSENT


def steady_part(result: api.Result | SweepRow) -> str:
    """Format the length and requests of the steady part, such as `52 s, 640 of 800`."""
    if not isinstance(result, api.Result) or not result.has_plateau:
        return ABSENT
    seconds = result.steady.get("duration")
    requests = result.steady.get("sent")
    sent = (result.metrics.get("completed") or 0) + (
        result.metrics.get("failed") or 0
    )
    if seconds is None or requests is None:
        return ABSENT
    return f"{figure(seconds)} s, {requests:.0f} of {sent:.0f}"


def objective_rows(status: api.BenchmarkRunStatus) -> Rows:
    """Build a table with one row for each objective and load point; none without objectives."""
    rows = [
        (result, each) for result in status.results for each in result.objectives
    ]
    tells_spent = status.until_decided is not None
    columns: tuple[Column[tuple[api.Result, api.ObjectiveResult]], ...] = (
        Column("load point", lambda row: row[0].load_point),
        Column("objective", lambda row: objective_text(row[1])),
        Column(
            "measured (ms)",
            lambda row: figure(row[1].measured_milliseconds, digits=4),
        ),
        Column("outcome", lambda row: row[1].outcome),
        Column(WOULD_TAKE, lambda row: price_of(row[1].price), optional=True),
        Column(
            "repeats",
            lambda row: str(row[0].repeats) if tells_spent else ABSENT,
            optional=True,
        ),
    )
    return table_of(columns, rows)


def width_rows(status: api.BenchmarkRunStatus) -> Rows:
    """Build a table of the intervals whose width the spec asks for; none if it asks for none."""
    rows = [(result, each) for result in status.results for each in result.widths]
    columns: tuple[Column[tuple[api.Result, api.WidthResult]], ...] = (
        Column("load point", lambda row: row[0].load_point),
        Column("latency", lambda row: f"{row[1].metric} p{row[1].percentile}"),
        Column("asked (%)", lambda row: row[1].percent),
        Column("width (%)", lambda row: figure(row[1].measured_percent, digits=2)),
        Column("reached", lambda row: "yes" if row[1].reached else "no"),
        Column("repeats", lambda row: str(row[0].repeats)),
    )
    return table_of(columns, rows)


def objective_text(result: api.ObjectiveResult) -> str:
    """Format an objective, such as `TTFT p99 at most 500 ms`."""
    return (
        f"{result.metric} p{result.percentile} at most {result.max_milliseconds} ms"
    )


WOULD_TAKE = "would take"
"""Header of the column with the price of what is not decided (`Price`)."""


def price_of(price: api.Price | None) -> str:
    """Format the price of what is not decided; it is absent if it is decided, or not known."""
    return (price.in_words if price is not None else "") or ABSENT


EXPLANATION_HEADERS = ("load points", "", "", "explanation")


def explanation_rows(status: api.BenchmarkRunStatus, *, wide: bool = False) -> Rows:
    """Build a table of why requests waited and what the bottleneck is.

    Load points without either are left out. The table also explains which repeats to use, why
    answers are short, and what max-model-len limits. The explanation that repeats differ by chance
    is shown only if the table may be `wide`. What holds at several load points is said once.
    """
    every = [said for row in status.results for said in _explained(row, wide=wide)]
    if (profile := status.profile) is not None:
        every.append(
            ExplainedRow(
                str(profile.evidence.get("workload", "")),
                "profile",
                profile.limit,
                profile.sentence,
                profile.evidence,
            )
        )
    return Rows(EXPLANATION_HEADERS, tuple(each[:4] for each in said_once(every)))


def _explained(row: api.Result, *, wide: bool) -> Iterable[ExplainedRow]:
    at = row.load_point
    if (why := row.waiting) and why.reason != "None":
        yield ExplainedRow(at, "waiting", why.reason, why.sentence, why.evidence)
    if (limit := row.bottleneck) and limit.limit != "None":
        yield ExplainedRow(at, "limit", limit.limit, limit.sentence, limit.evidence)
    for each in row.explanations:
        if wide or each.answer != "Noise":
            what = _QUESTIONS[each.question]
            yield ExplainedRow(at, what, each.answer, each.sentence, each.evidence)


def repeat_rows(status: api.BenchmarkRunStatus) -> Rows:
    """Build a table with one row for each stage, in the order of measurement.

    It has latencies, prefix cache hits, and the number of kernels that the server compiled.
    """
    stages = [
        (int(order), row, place)
        for row in status.results
        for place, order in enumerate(row.by_repeat.get("sequence", []))
    ]
    columns: tuple[Column[tuple[int, api.Result, int]], ...] = (
        Column("stage", lambda stage: f"{stage[1].load_point}/r{stage[2] + 1}"),
        *(
            Column(
                header, partial(_of_repeat, name=name, digits=digits), optional=True
            )
            for header, name, digits in (
                ("prompt tokens", "mean_input_tokens", 5),
                ("TTFT", "mean_ttft_ms", 3),
                ("E2EL", "mean_e2el_ms", 3),
                ("hit tokens", "prefix_hit_tokens", 9),
                ("looked up", "prefix_query_tokens", 9),
                ("compiled", "compilations", 3),
            )
        ),
    )
    return table_of(columns, sorted(stages, key=lambda stage: stage[0]))


def _of_repeat(
    stage: tuple[int, api.Result, int], *, name: str, digits: int
) -> str:
    _, row, place = stage
    values = row.by_repeat.get(name, [])
    return figure(values[place] if place < len(values) else None, digits=digits)


def session_rows(stages: Sequence[api.StageResult]) -> Rows:
    """Build a table with one row for each stage of sessions, in the order given."""
    of = [(each.id, each.sessions) for each in stages if each.sessions is not None]
    columns: tuple[Column[tuple[str, api.StageSessions]], ...] = (
        Column("stage", lambda row: row[0]),
        Column("begun", lambda row: str(row[1].begun)),
        Column("completed", lambda row: str(row[1].completed)),
        Column("a second", lambda row: figure(row[1].completed_per_second)),
        Column("turns lost", lambda row: str(row[1].lost_turns)),
        Column("duration p50 (s)", lambda row: _seconds(row[1].duration)),
        Column(
            "of it answers p50 (s)",
            lambda row: _seconds(row[1].waiting_for_answers),
        ),
        *(
            Column(title, partial(_session_percent, name=name), optional=True)
            for title, name in (
                ("hits expected %", "expected_hit_percent"),
                ("hits kept %", "kept_hit_percent"),
                ("hits %", "hit_percent"),
            )
        ),
    )
    return table_of(columns, of)


def _session_percent(row: tuple[str, api.StageSessions], *, name: str) -> str:
    return figure(getattr(row[1], name))


def _seconds(of: api.LatencyDistribution | None) -> str:
    middle = None if of is None else of.percentiles.get("50")
    return figure(None if middle is None else middle / 1000)


def turn_rows(stages: Sequence[api.StageResult]) -> Rows:
    """Build a table with one row for each turn number of each stage of sessions."""
    of = [
        (each.id, turn)
        for each in stages
        if each.sessions is not None
        for turn in each.sessions.turns
    ]

    def latency(
        row: tuple[str, api.TurnFigures], *, name: str, percentile: str
    ) -> str:
        found: api.LatencyDistribution | None = getattr(row[1], name)
        return figure(None if found is None else found.percentiles.get(percentile))

    columns: tuple[Column[tuple[str, api.TurnFigures]], ...] = (
        Column("stage", lambda row: row[0]),
        Column("turn", lambda row: str(row[1].turn)),
        Column("sent", lambda row: str(row[1].requests)),
        Column("answered", lambda row: str(row[1].completed)),
        Column(
            "prompt tokens", lambda row: figure(row[1].mean_input_tokens, digits=5)
        ),
        *(
            Column(
                f"{name.upper()} p{percentile}",
                partial(latency, name=name, percentile=percentile),
            )
            for name in ("ttft", "e2el")
            for percentile in ("50", "90", "99")
        ),
        Column(
            "hits expected %",
            lambda row: figure(row[1].expected_hit_percent),
            optional=True,
        ),
        Column(
            "hits kept %",
            lambda row: figure(row[1].kept_hit_percent),
            optional=True,
        ),
        Column("hits %", lambda row: figure(row[1].hit_percent), optional=True),
    )
    return table_of(columns, of)


def kernel_rows(status: api.BenchmarkRunStatus) -> Rows:
    """Build a table of the kernels of a profile, with the most time-consuming first."""
    shares = status.profile.kernels.items() if status.profile is not None else ()
    ordered = sorted(shares, key=lambda item: -item[1])
    return Rows(
        ("kernel", "% of kernel time"),
        tuple((name, figure(share)) for name, share in ordered),
    )


def finding_rows(status: api.BenchmarkRunStatus) -> Rows:
    """Build a table with one row for each finding: what it is, where it was worst, what to do."""
    rows = tuple(
        (f.severity, f.code, f.worst_stage, f.sentence, f.remedy)
        for f in status.findings
    )
    return Rows(
        ("severity", "finding", "worst stage", "evidence", "what to do"), rows
    )
