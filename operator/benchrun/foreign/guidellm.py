"""Read the JSON that `guidellm run --output kind=json` writes: several benchmarks, every request.

Known from guidellm 0.8.1.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from benchrun_client.contract import (
    MAX_REQUESTS_A_STAGE,
    AtOnceLoad,
    Load,
    UsersLoad,
)

from benchrun.foreign import rows
from benchrun.foreign.document import Part
from benchrun.foreign.model import (
    FigureDefinition,
    FileReader,
    ForeignFigure,
    ForeignStage,
    Source,
)
from benchrun.judge.rules.inputs import Input

MAX_BENCHMARKS = 256
MAX_SECONDS = 1e6
MAX_INSTANT = 1e11
_RANKS = (
    "the mean is the same; percentiles are of the nearest rank, ours are interpolated: they differ "
    "where requests are few"
)
_WINDOW = "the mean is the same, of the time that the tool measured (without warmup and cooldown)"
# Its name in `metrics`, our name, and the factor from its unit to ours.
_SAME_MEAN = (
    ("time_to_first_token_ms", "mean_ttft_ms", _RANKS),
    ("requests_per_second", "request_throughput", _WINDOW),
    ("output_tokens_per_second", "output_throughput", _WINDOW),
)
_NONE = (
    (
        "inter_token_latency_ms",
        "is the time after an answer's first token divided by the number of its other tokens "
        "(our TPOT), but each answer counts as often as it has tokens",
    ),
    (
        "time_per_output_token_ms",
        "is an answer's whole time, TTFT included, divided by the number of its tokens",
    ),
    (
        "request_latency",
        "ends when the stream is closed (in seconds); our E2EL ends with the last token",
    ),
)
DEFINITIONS = (
    *(FigureDefinition(theirs, ours, note) for theirs, ours, note in _SAME_MEAN),
    *(FigureDefinition(theirs, None, note) for theirs, note in _NONE),
)
_PERCENTILES = ("p50", "p90", "p95", "p99")
_ABSENT = {
    Input.ASKED_TOKENS: "measure with --data kind=synthetic_text without a spread of lengths",
}
_STATUS = re.compile(r"\b([45]\d\d)\b")


def read(sources: Sequence[Source]) -> list[ForeignStage]:
    """Return the benchmarks of all files."""
    return [
        _stage(document, benchmark)
        for source in sources
        for document in source.documents
        for benchmark in document.at("benchmarks").items(most=MAX_BENCHMARKS)
    ]


def _stage(document: Part, part: Part) -> ForeignStage:
    totals = part.at("metrics", "request_totals")
    load, why = _load(part)
    failed = [*_listed(part, "errored")]
    version = document.find("metadata", "guidellm_version")
    model = part.find("config", "backend", "model")
    return ForeignStage(
        file=part.file,
        tool=READER.tool,
        version=None if version is None else version.text(),
        model=None if model is None else model.text(),
        load=load,
        load_unknown=why,
        answered=totals.at("successful").count(most=MAX_REQUESTS_A_STAGE),
        failed=totals.at("errored").count(most=MAX_REQUESTS_A_STAGE),
        seconds=part.at("duration").number(most=MAX_SECONDS),
        figures=list(_figures(part)),
        definitions=DEFINITIONS,
        requests=rows.requests_of(_rows(part, _asked_tokens(document))),
        errors=Counter(_error(each) for each in failed),
        absent=_ABSENT,
    )


def _figures(part: Part) -> Iterator[ForeignFigure]:
    for name, ours, _ in _SAME_MEAN:
        yield ForeignFigure(f"{name}.mean", _mean(part, name), ours)
        yield from _percentiles(part, name)
    for name, _ in _NONE:
        yield ForeignFigure(f"{name}.mean", _mean(part, name), None)
        yield from _percentiles(part, name)


def _mean(part: Part, name: str) -> float | None:
    found = part.find("metrics", name, "successful")
    return None if found is None else found.finite("mean")


def _percentiles(part: Part, name: str) -> Iterator[ForeignFigure]:
    found = part.find("metrics", name, "successful", "percentiles")
    if found is not None and not name.endswith("_per_second"):
        for percentile in _PERCENTILES:
            yield ForeignFigure(
                f"{name}.{percentile}", found.finite(percentile), None
            )


def _load(part: Part) -> tuple[Load | None, str]:
    strategy = part.at("config", "strategy")
    kind = strategy.at("type_").text()
    if kind == "synchronous":
        return UsersLoad(concurrency=1, start="Together"), ""
    if kind == "concurrent":
        return _users(strategy.at("streams")), ""
    if kind == "throughput":
        cap = strategy.find("max_concurrency")
        return AtOnceLoad() if cap is None else _users(cap), ""
    if kind in ("constant", "poisson"):
        rate = strategy.at("rate").number(least=1e-6, most=1e6)
        burstiness = "1" if kind == "poisson" else rows.EVEN
        return rows.rate_load(rate, burstiness=burstiness), ""
    return None, f"the strategy {kind} is no single load that this release knows"


def _users(part: Part) -> UsersLoad:
    users = part.count(most=MAX_REQUESTS_A_STAGE)
    if not users:
        raise part.wrong("must be 1 or more")
    return UsersLoad(concurrency=users, start="Together")


def _listed(part: Part, status: str) -> Iterator[Part]:
    listed = part.find("requests", status)
    if listed is not None:
        yield from listed.items(most=MAX_REQUESTS_A_STAGE)


def _rows(part: Part, asked: int | None) -> list[rows.Row]:
    """Return the requests that were sent before the first that the end of the run cut off.

    Of later ones it is not known how many ran beside them.
    """
    found = [_row(each, True, asked) for each in _listed(part, "successful")]
    found += [_row(each, False, asked) for each in _listed(part, "errored")]
    cut = [
        start.number(most=MAX_INSTANT)
        for each in _listed(part, "incomplete")
        if (start := each.find("info", "timings", "request_start")) is not None
    ]
    end = min(cut, default=MAX_INSTANT)
    return [row for row in found if row is not None and row.start < end]


def _row(part: Part, ok: bool, asked: int | None) -> rows.Row | None:
    """Return a request; None if it failed before it was sent."""
    timings = part.at("info", "timings")
    start = timings.find("request_start")
    if start is None and not ok:
        return None
    start = timings.at("request_start")
    began = start.number(most=MAX_INSTANT)
    first = timings.at("first_token_iteration") if ok else start
    last = timings.at("last_token_iteration") if ok else _end(timings, start)
    return rows.Row(
        start=began,
        ok=ok,
        ttft=_since(first, began),
        e2el=_since(last, began),
        input_tokens=_tokens(part, "prompt_tokens"),
        output_tokens=_tokens(part, "output_tokens"),
        asked_tokens=asked,
    )


def _end(timings: Part, start: Part) -> Part:
    end = timings.find("request_end")
    return start if end is None else end


def _since(part: Part, began: float) -> float:
    value = part.number(most=MAX_INSTANT)
    if not began <= value <= began + MAX_SECONDS:
        raise part.wrong("lies before request_start, or long after it")
    return value - began


def _tokens(part: Part, key: str) -> int | None:
    found = part.find(key)
    return None if found is None else found.count(most=10**9)


def _error(part: Part) -> str:
    found = part.find("info", "error")
    text = "" if found is None else found.text()
    status = _STATUS.search(text)
    return text if status is None else rows.phrase(int(status[1]), text)


_SPREAD = ("output_tokens_stdev", "output_tokens_min", "output_tokens_max")


def _asked_tokens(document: Part) -> int | None:
    """Return how many tokens every answer was to have; None if that differs or is not known."""
    data = document.find("config", "spec", "data")
    sources = [] if data is None else list(data.items(most=MAX_BENCHMARKS))
    if len(sources) != 1 or any(sources[0].find(key) for key in _SPREAD):
        return None
    turns = sources[0].find("turns")
    asked = sources[0].find("output_tokens")
    if asked is None or (turns is not None and turns.count() > 1):
        return None
    return asked.count(most=10**9)


READER = FileReader(
    "guidellm",
    "the file that guidellm run --output kind=json writes",
    ("*.json",),
    read,
)
