"""Read what `inference-perf` leaves in its folder: a report a stage, and a record a request.

`stage_N_lifecycle_metrics.json` has the figures of a stage, `per_request_lifecycle_metrics.json`
the requests of all stages, `config.yaml` how they were to arrive. Known from inference-perf 0.7.0.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

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

STAGE = "stage_*_lifecycle_metrics.json"
RECORDS = "per_request_lifecycle_metrics.json"
CONFIG = "config.yaml"
MAX_SECONDS = 1e6
MAX_INSTANT = 1e11
MAX_STAGES = 256
MAX_CHUNKS = 100_000  # Most tokens of an answer.
_STATISTICS = {
    "mean": "mean",
    "median": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
}
_OWN_COUNT = (
    "counts tokens by the tool's own tokenizer; ours by the server's count (measure with "
    "report.request_lifecycle.use_server_output_tokens: true)"
)
_TTFT = FigureDefinition(
    "time_to_first_token", "ttft", "answers of a single token are left out"
)
_NEVER = (
    FigureDefinition(
        "inter_token_latency",
        None,
        "is the time between two tokens: 0 within a chunk; our ITL is between chunks",
    ),
    FigureDefinition(
        "request_latency",
        None,
        "ends when the stream is closed; our E2EL ends with the last token",
    ),
    FigureDefinition(
        "normalized_time_per_output_token",
        None,
        "is an answer's whole time, TTFT included, divided by the number of its tokens",
    ),
)
_REQUEST_RATE = FigureDefinition(
    "requests_per_sec", "request_throughput", f"of {WHOLE}"
)
_ABSENT = {
    **dict.fromkeys(
        (
            Input.TIMES,
            Input.INPUT_TOKENS,
            Input.OUTPUT_TOKENS,
            Input.GAPS,
            Input.ASKED_TOKENS,
        ),
        f"give {RECORDS} too, with the reports of all its stages "
        "(report.request_lifecycle.per_request: true, api.streaming: true)",
    ),
    Input.ERRORS: f"give {RECORDS} too (report.request_lifecycle.per_request: true)",
    Input.LOAD: f"give {CONFIG} too",
}


def read(sources: Sequence[Source]) -> list[ForeignStage]:
    """Return the stages of all reports, with the records and the config of the same folder."""
    found = []
    for folder in dict.fromkeys(source.folder for source in sources):
        documents = [
            each
            for source in sources
            if source.folder == folder
            for each in source.documents
        ]
        found += _folder(documents)
    if not found:
        document = next(each for source in sources for each in source.documents)
        raise document.wrong(f"is no report of a stage: {STAGE} has the figures")
    return found


def _folder(documents: Sequence[Part]) -> list[ForeignStage]:
    records = [each for each in documents if isinstance(each.value, list)]
    objects = [each for each in documents if not isinstance(each.value, list)]
    reports = [each for each in objects if each.find("load_summary") is not None]
    configs = [each for each in objects if each.find("load_summary") is None]
    reports.sort(key=_number)
    config = configs[0] if configs else None
    sent = _by_stage(records, reports)
    return [
        _stage(report, config, requests)
        for report, requests in zip(reports, sent, strict=True)
    ]


_NUMBER = re.compile(r"stage_(\d{1,6})_lifecycle")


def _number(report: Part) -> int:
    """Return the number of a stage; -1 for the summary of all."""
    found = _NUMBER.search(report.file)
    return -1 if found is None else int(found[1])


def _by_stage(
    records: Sequence[Part], reports: Sequence[Part]
) -> list[Sequence[Part] | None]:
    """Return the records of each report; None where they can't be told apart.

    A record does not name its stage. Stages follow each other, so that their counts do.
    """
    every = [
        record
        for document in records
        for record in document.items(most=MAX_STAGES * MAX_REQUESTS_A_STAGE)
    ]
    counts = [_count(report) for report in reports]
    if not every or len(every) != sum(counts):
        return [None] * len(reports)
    every.sort(key=_start)
    ends = [sum(counts[: place + 1]) for place in range(len(counts))]
    return [
        every[end - count : end] for count, end in zip(counts, ends, strict=True)
    ]


def _count(report: Part) -> int:
    return report.at("load_summary", "count").count(most=MAX_REQUESTS_A_STAGE)


def _start(record: Part) -> float:
    return record.at("start_time").number(most=MAX_INSTANT)


def _stage(
    report: Part, config: Part | None, records: Sequence[Part] | None
) -> ForeignStage:
    load, why = _load(report, config)
    by_server = _is_true(
        config, "report", "request_lifecycle", "use_server_output_tokens"
    )
    definitions = _definitions(by_server)
    found = None if records is None else _rows(records)
    model = None if config is None else config.find("server", "model_name")
    return ForeignStage(
        file=report.file,
        tool=READER.tool,
        version=None,
        model=None if model is None else model.text(),
        load=load,
        load_unknown=why,
        answered=report.at("successes", "count").count(most=MAX_REQUESTS_A_STAGE),
        failed=report.at("failures", "count").count(most=MAX_REQUESTS_A_STAGE),
        seconds=_seconds(report),
        figures=list(_figures(report, definitions)),
        definitions=definitions,
        requests=None if found is None else rows.requests_of(found),
        errors=_errors(report) if records is None else _errors_of(records),
        absent=_ABSENT,
    )


def _seconds(report: Part) -> float | None:
    found = report.find("benchmark_time_seconds")
    return None if found is None else found.number(most=MAX_SECONDS)


def _is_true(config: Part | None, *keys: str) -> bool:
    found = None if config is None else config.find(*keys)
    return found is not None and found.value is True


def _definitions(by_server: bool) -> list[FigureDefinition]:
    counted = (
        ("time_per_output_token", "tpot", ""),
        ("output_tokens_per_sec", "output_throughput", f"of {WHOLE}"),
    )
    return [
        _TTFT,
        _REQUEST_RATE,
        *(
            FigureDefinition(theirs, ours, note)
            if by_server
            else FigureDefinition(theirs, None, _OWN_COUNT)
            for theirs, ours, note in counted
        ),
        *_NEVER,
    ]


def _figures(
    report: Part, definitions: Sequence[FigureDefinition]
) -> Iterator[ForeignFigure]:
    for definition in definitions:
        name, ours = definition.theirs, definition.ours
        rate = report.find("successes", "throughput")
        if rate is not None and rate.find(name) is not None:
            yield ForeignFigure(name, rate.finite(name), ours)
            continue
        found = report.find("successes", "latency", name)
        for theirs, statistic in _STATISTICS.items():
            seconds = None if found is None else found.finite(theirs)
            if seconds is not None:
                key = None if ours is None else f"{statistic}_{ours}_ms"
                yield ForeignFigure(f"{name}.{theirs} (ms)", 1000 * seconds, key)


def _load(report: Part, config: Part | None) -> tuple[Load | None, str]:
    summary = report.at("load_summary")
    users = summary.find("concurrency")
    if users is not None:
        count = users.count(most=MAX_REQUESTS_A_STAGE)
        if not count:
            raise users.wrong("must be 1 or more")
        return UsersLoad(concurrency=count, start="Together"), ""
    rate = summary.find("requested_rate")
    if rate is None:
        return None, f"the summary of all stages has no single load: give {STAGE}"
    if config is None:
        return None, f"whether requests came evenly or by chance stands in {CONFIG}"
    kind = config.at("load", "type").text()
    if kind not in ("constant", "poisson"):
        return None, f"the load {kind} is no single one that this release knows"
    return rows.rate_load(
        rate.number(least=1e-6, most=1e6),
        burstiness="1" if kind == "poisson" else rows.EVEN,
    ), ""


def _rows(records: Sequence[Part]) -> list[rows.Row] | None:
    """Return the requests; None if none of the answers was streamed."""
    found = [_row(each) for each in records]
    streamed = any(row.gaps is not None for row in found)
    return found if streamed or not any(row.ok for row in found) else None


def _row(record: Part) -> rows.Row:
    start = _start(record)
    end = record.at("end_time").number(least=start, most=start + MAX_SECONDS)
    if record.find("error") is not None:
        return rows.Row(start=start, ok=False, ttft=0.0, e2el=end - start)
    times = _times(record, start)
    return rows.Row(
        start=start,
        ok=True,
        ttft=(times[0] if times else end) - start,
        e2el=(times[-1] if times else end) - start,
        input_tokens=_tokens(
            record, "info", "request_metrics", "text", "input_tokens"
        ),
        output_tokens=_output_tokens(record, times),
        asked_tokens=_asked_tokens(record),
        gaps=[b - a for a, b in pairwise(times)] if times else None,
    )


def _times(record: Part, start: float) -> list[float]:
    """Return the instants of an answer's chunks: all tokens of a chunk have the same."""
    found = record.find("info", "response_metrics", "output_token_times")
    if found is None:
        return []
    instants = [
        each.number(least=start, most=start + MAX_SECONDS)
        for each in found.items(most=MAX_CHUNKS)
    ]
    return sorted(set(instants))


def _tokens(record: Part, *keys: str) -> int | None:
    found = record.find(*keys)
    return None if found is None else found.count(most=10**9)


def _output_tokens(record: Part, times: Sequence[float]) -> int | None:
    """Return the server's count; None where the server told none."""
    counted = _tokens(
        record, "info", "response_metrics", "server_usage", "completion_tokens"
    )
    return 0 if counted is None and not times else counted


def _asked_tokens(record: Part) -> int | None:
    """Return how many tokens the answer was to have; None where it was free to end earlier."""
    request = record.find("request")
    try:
        body = {} if request is None else json.loads(str(request.value))
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, Mapping) or body.get("ignore_eos") is not True:
        return None
    asked = body.get("max_completion_tokens", body.get("max_tokens"))
    is_count = isinstance(asked, int) and not isinstance(asked, bool)
    return asked if is_count and 0 <= asked <= 10**9 else None


def _errors(report: Part) -> Counter[str] | None:
    """Return the errors that the report counts; None if it has none of its failures."""
    labels = report.find("failures", "by_label")
    if labels is None or not isinstance(labels.value, Mapping):
        return None
    found: Counter[str] = Counter()
    for label in list(labels.value)[:MAX_STAGES]:
        count = labels.at(str(label), "count").count(most=MAX_REQUESTS_A_STAGE)
        found[_phrase(str(label))] += count
    return found


def _errors_of(records: Sequence[Part]) -> Counter[str]:
    failed = (each.find("error") for each in records)
    return Counter(_error(each) for each in failed if each is not None)


def _error(part: Part) -> str:
    kind = part.find("error_type")
    message = part.find("error_msg")
    text = "" if message is None else message.text()
    return _phrase(text if kind is None else f"{kind.text()} {text}")


_STATUS = re.compile(r"\b([45]\d\d)\b")


def _phrase(text: str) -> str:
    status = _STATUS.search(text)
    return text if status is None else rows.phrase(int(status[1]), text)


READER = FileReader(
    "inference-perf",
    f"the folder of inference-perf, or {STAGE}, {RECORDS} and {CONFIG} of it",
    (STAGE, RECORDS, CONFIG),
    read,
)
