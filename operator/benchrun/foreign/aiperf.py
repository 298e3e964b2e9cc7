"""Read what `aiperf profile` leaves in its folder: a summary, and a record of every request.

`profile_export_aiperf.json` is the summary, `profile_export.jsonl` beside it has the records. Known
from AIPerf 0.13.0.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from benchrun_client.contract import MAX_REQUESTS_A_STAGE, Load, UsersLoad

from benchrun.foreign import rows
from benchrun.foreign.document import Part
from benchrun.foreign.model import (
    WHOLE,
    FigureDefinition,
    FileReader,
    ForeignFigure,
    ForeignStage,
    Source,
)
from benchrun.judge.rules.inputs import Input

SUMMARY = "profile_export_aiperf.json"
RECORDS = "profile_export.jsonl"
MAX_SECONDS = 1e6
MAX_MS = 1e9
MAX_NS = 1e20
MAX_CHUNKS = 100_000  # Most chunks of an answer.
MAX_PHASES = 64
_STATISTICS = {
    "avg": "mean",
    "p50": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
}
_OWN_COUNT = (
    "counts tokens by the tool's own tokenizer; ours by the server's count (measure with "
    "--use-server-token-count)"
)
# Name, our latency, and whether it rests on the count of output tokens.
_LATENCIES = (
    ("time_to_first_token", "ttft", False),
    ("request_latency", "e2el", False),
    ("inter_token_latency", "tpot", True),
    ("inter_chunk_latency", "itl", False),
)
_RATES = (
    ("request_throughput", "request_throughput", False),
    ("output_token_throughput", "output_throughput", True),
    ("total_token_throughput", "total_token_throughput", True),
)
_ABSENT = {
    **dict.fromkeys(
        (
            Input.TIMES,
            Input.ERRORS,
            Input.INPUT_TOKENS,
            Input.OUTPUT_TOKENS,
            Input.GAPS,
            Input.PROMPT_COUNTS,
        ),
        f"give {RECORDS} too, of --export-level records",
    ),
    Input.ASKED_TOKENS: "measure with --output-tokens-mean without a spread of lengths",
}


def read(sources: Sequence[Source]) -> list[ForeignStage]:
    """Return the measurement of every summary, with the records of the same folder."""
    records: dict[str, list[Part]] = {}
    for source in sources:
        of_folder = records.setdefault(source.folder, [])
        of_folder += [each for each in source.documents if not _is_summary(each)]
    found = [
        _stage(document, records[source.folder])
        for source in sources
        for document in source.documents
        if _is_summary(document)
    ]
    if not found:
        document = next(each for source in sources for each in source.documents)
        raise document.wrong(
            f"is no summary: {SUMMARY} has the load and the figures"
        )
    return found


def _is_summary(document: Part) -> bool:
    return document.find("metadata") is None or document.find("metrics") is None


def _stage(part: Part, records: Sequence[Part]) -> ForeignStage:
    config = part.at("input_config")
    profiled = [each for each in records if _is_profiled(each)]
    if len(profiled) > MAX_REQUESTS_A_STAGE:
        raise part.wrong(f"has more than {MAX_REQUESTS_A_STAGE} records beside it")
    failed = part.find("error_request_count", "avg")
    load, why = _load(config)
    found = rows.requests_of(_rows(profiled, _asked_tokens(config)))
    counts = config.find("endpoint", "use_server_token_count")
    definitions = _definitions(counts is not None and counts.value is True)
    version = part.find("aiperf_version")
    return ForeignStage(
        file=part.file,
        tool=READER.tool,
        version=None if version is None else version.text(),
        model=_model(config),
        load=load,
        load_unknown=why,
        answered=part.at("request_count", "avg").count(most=MAX_REQUESTS_A_STAGE),
        failed=0 if failed is None else failed.count(most=MAX_REQUESTS_A_STAGE),
        seconds=part.at("benchmark_duration", "avg").number(most=MAX_SECONDS),
        figures=list(_figures(part, definitions)),
        definitions=definitions,
        requests=found,
        errors=None if found is None else _errors(profiled),
        absent=_ABSENT,
    )


def _is_profiled(record: Part) -> bool:
    phase = record.find("metadata", "benchmark_phase")
    return phase is None or phase.value == "profiling"


def _definitions(by_server: bool) -> list[FigureDefinition]:
    return [
        FigureDefinition(theirs, None, _OWN_COUNT)
        if rests_on_tokens and not by_server
        else FigureDefinition(
            theirs, ours, f"of {WHOLE}" if theirs.endswith("put") else ""
        )
        for theirs, ours, rests_on_tokens in (*_LATENCIES, *_RATES)
    ]


def _figures(
    part: Part, definitions: Sequence[FigureDefinition]
) -> Iterator[ForeignFigure]:
    rates = {theirs for theirs, _, _ in _RATES}
    for definition in definitions:
        found = part.find(definition.theirs)
        if found is None:
            continue
        if definition.theirs in rates:
            yield ForeignFigure(
                definition.theirs, found.finite("avg"), definition.ours
            )
            continue
        for theirs, ours in _STATISTICS.items():
            key = (
                None if definition.ours is None else f"{ours}_{definition.ours}_ms"
            )
            yield ForeignFigure(
                f"{definition.theirs}.{theirs}", found.finite(theirs), key
            )


def _model(config: Part) -> str | None:
    items = config.find("models", "items")
    names = (
        []
        if items is None
        else [each.at("name").text() for each in items.items(most=64)]
    )
    return ", ".join(names) or None


def _load(config: Part) -> tuple[Load | None, str]:
    phases = [
        each
        for each in config.at("phases").items(most=MAX_PHASES)
        if (purpose := each.find("kind")) is None or purpose.value == "profiling"
    ]
    if len(phases) != 1:
        return (
            None,
            f"{len(phases)} phases were measured together, and no single load",
        )
    (phase,) = phases
    kind = phase.at("type").text()
    if any(
        phase.find(key) for key in ("concurrency_ramp", "rate_ramp", "rate_series")
    ):
        return None, "the load changed over time, and no single one was asked for"
    users = phase.find("concurrency")
    cap = None if users is None else users.count(most=MAX_REQUESTS_A_STAGE)
    if cap == 0:
        raise phase.at("concurrency").wrong("must be 1 or more")
    if kind == "concurrency":
        return UsersLoad(concurrency=cap or 1, start="Together"), ""
    if kind in ("constant", "poisson", "gamma"):
        return _rate(phase, kind, cap), ""
    return None, f"the phase type {kind} is no single load that this release knows"


def _rate(phase: Part, kind: str, cap: int | None) -> Load:
    rate = phase.at("rate").number(least=1e-6, most=1e6)
    smoothness = phase.find("smoothness")
    burstiness = rows.EVEN if kind == "constant" else "1"
    if kind == "gamma" and smoothness is not None:
        burstiness = rows.decimal(smoothness.number(least=1e-6, most=1e6))
    return rows.rate_load(rate, burstiness=burstiness, cap=cap)


def _asked_tokens(config: Part) -> int | None:
    """Return how many tokens every answer was to have; None if that differs or is not known."""
    datasets = config.find("datasets")
    found = [] if datasets is None else list(datasets.items(most=MAX_PHASES))
    if len(found) != 1:
        return None
    lengths = found[0].find("prompts", "osl")
    if lengths is None or set(_keys(lengths)) != {"mean"}:
        return None
    mean = lengths.at("mean").number(most=1e9)
    return int(mean) if mean == int(mean) else None


def _keys(part: Part) -> Iterator[str]:
    if isinstance(part.value, dict):
        yield from (key for key, value in part.value.items() if value is not None)


def _rows(records: Sequence[Part], asked: int | None) -> list[rows.Row]:
    """Return the requests that were sent before the first that the end of the run cut off."""
    cut = [_start(each) for each in records if _was_cut(each)]
    end = min(cut, default=MAX_NS)
    return [
        _row(each, asked)
        for each in records
        if not _was_cut(each) and _start(each) < end
    ]


def _was_cut(record: Part) -> bool:
    cancelled = record.find("metadata", "was_cancelled")
    return cancelled is not None and cancelled.value is True


def _start(record: Part) -> float:
    return record.at("metadata", "request_start_ns").number(most=MAX_NS) / 1e9


def _row(record: Part, asked: int | None) -> rows.Row:
    metrics = record.at("metrics")
    start = _start(record)
    if record.find("error") is not None:
        end = record.at("metadata", "request_end_ns").number(most=MAX_NS) / 1e9
        return rows.Row(start=start, ok=False, ttft=0.0, e2el=max(0.0, end - start))
    return rows.Row(
        start=start,
        ok=True,
        ttft=_ms(metrics, "time_to_first_token") / 1000,
        e2el=_ms(metrics, "request_latency") / 1000,
        input_tokens=_tokens(metrics, "usage_prompt_tokens"),
        output_tokens=_tokens(metrics, "usage_completion_tokens"),
        asked_tokens=asked,
        gaps=_gaps(metrics),
        client_input_tokens=_tokens(metrics, "input_sequence_length"),
    )


def _ms(metrics: Part, key: str) -> float:
    found = metrics.at(key)
    if found.at("unit").value != "ms":
        raise found.at("unit").wrong("must be ms")
    return found.at("value").number(most=MAX_MS)


def _tokens(metrics: Part, key: str) -> int | None:
    found = metrics.find(key, "value")
    return None if found is None else found.count(most=10**9)


def _gaps(metrics: Part) -> list[float] | None:
    """Return the gaps of an answer in seconds; an answer of one chunk has none."""
    found = metrics.find("inter_chunk_latency", "value")
    if found is None:
        return []
    return [gap.number(most=MAX_MS) / 1000 for gap in found.items(most=MAX_CHUNKS)]


def _errors(records: Sequence[Part]) -> Counter[str]:
    failed = (each.find("error") for each in records)
    return Counter(_error(each) for each in failed if each is not None)


def _error(part: Part) -> str:
    message = part.find("message")
    text = "" if message is None else message.text()
    code = part.find("code")
    return text if code is None else rows.phrase(code.count(), text)


READER = FileReader(
    "aiperf",
    f"{SUMMARY} and {RECORDS} of aiperf profile, or the folder with both",
    (SUMMARY, RECORDS),
    read,
)
