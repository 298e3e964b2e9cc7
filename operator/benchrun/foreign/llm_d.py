"""Read benchmark reports of llm-d, into which it converts the results of other tools.

A report has the figures of one stage and no requests. What they mean depends on the tool that
measured. Known from the reports 0.2 and 0.2.1 of llm-d-benchmark 0.8.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from benchrun_client.contract import MAX_REQUESTS_A_STAGE, Load, UsersLoad

from benchrun.foreign import rows, vllm_bench
from benchrun.foreign.document import Part
from benchrun.foreign.model import (
    FigureDefinition,
    FileReader,
    ForeignFigure,
    ForeignStage,
    Source,
)
from benchrun.judge.rules.inputs import Input

MAX_SECONDS = 1e6
VERSIONS = ("0.2", "0.2.1")
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
_LATENCIES = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "request_latency": "e2el",
}
_RATES = {
    "request_rate": "request_throughput",
    "output_token_rate": "output_throughput",
    "total_token_rate": "total_token_throughput",
}
_OTHER = "of {tool} is not our {ours}: judge the tool's own file for the reason"
_SHARED: Mapping[str, Sequence[str]] = {
    "guidellm": ("request_rate", "output_token_rate"),
    "aiperf": ("time_to_first_token", "request_latency", "request_rate"),
    "inference-perf": ("time_to_first_token", "request_rate"),
}
"""What is equal to ours, whatever its statistic, by the tool that measured."""
_SHARED_MEANS: Mapping[str, Sequence[str]] = {"guidellm": ("time_to_first_token",)}
"""What is equal in its mean only."""
_COUNT_ANSWERS = frozenset({"aiperf"})
"""Tools of which a report counts only answers as requests."""
_FAILURES = FigureDefinition(
    "failures", None, "of aiperf: the kinds of errors, not the requests that failed"
)
_REMEDY = "judge the file of the tool itself, which has the requests"
_ABSENT = dict.fromkeys(
    (
        Input.TIMES,
        Input.ERRORS,
        Input.CLIENT_QUEUE,
        Input.INPUT_TOKENS,
        Input.OUTPUT_TOKENS,
        Input.ASKED_TOKENS,
        Input.GAPS,
        Input.PROMPT_COUNTS,
    ),
    _REMEDY,
)


def read(sources: Sequence[Source]) -> list[ForeignStage]:
    """Return the stage of every report."""
    return [_stage(each) for source in sources for each in source.documents]


def _stage(part: Part) -> ForeignStage:
    version = part.at("version")
    if version.value not in VERSIONS:
        known = " or ".join(VERSIONS)
        raise version.wrong(f"must be {known}: other reports are not known")
    load = part.at("scenario", "load")
    tool = load.at("standardized", "tool").text()
    sent = part.at("results", "request_performance", "aggregate")
    total = sent.at("requests", "total").count(most=MAX_REQUESTS_A_STAGE)
    failed = sent.at("requests", "failures").count(most=MAX_REQUESTS_A_STAGE)
    definitions = _definitions(tool, load)
    asked, why = _load(tool, load)
    release = load.find("standardized", "tool_version")
    return ForeignStage(
        file=part.file,
        tool=READER.tool,
        version=f"{tool} {'' if release is None else release.text()}".strip(),
        model=_model(part),
        load=asked,
        load_unknown=why,
        answered=total if tool in _COUNT_ANSWERS else max(0, total - failed),
        failed=failed,
        seconds=_seconds(part),
        figures=list(_figures(sent, definitions)),
        definitions=definitions,
        absent=_ABSENT,
    )


def _definitions(tool: str, load: Part) -> list[FigureDefinition]:
    if tool == "vllm-benchmark":
        return _of_vllm(load)
    shared = _SHARED.get(tool, ())
    means = _SHARED_MEANS.get(tool, ())
    counted = [_FAILURES] if tool in _COUNT_ANSWERS else []
    return [
        *counted,
        *(
            FigureDefinition(theirs, ours, f"of {tool}")
            if theirs in shared
            else FigureDefinition(theirs, ours, f"of {tool}: the mean only")
            if theirs in means
            else FigureDefinition(theirs, None, _OTHER.format(tool=tool, ours=ours))
            for theirs, ours in (*_LATENCIES.items(), *_RATES.items())
        ),
    ]


def _of_vllm(load: Part) -> list[FigureDefinition]:
    backend = load.find("native", "args", "backend")
    name = "(not in the report)" if backend is None else backend.text()
    of_tool = {each.theirs: each for each in vllm_bench.definitions_of(name)}
    return [
        *(
            FigureDefinition(theirs, of_tool[ours].ours, of_tool[ours].note)
            for theirs, ours in _LATENCIES.items()
        ),
        *(
            FigureDefinition(theirs, ours, of_tool["throughput"].note)
            for theirs, ours in _RATES.items()
        ),
    ]


def _figures(
    sent: Part, definitions: Sequence[FigureDefinition]
) -> Iterator[ForeignFigure]:
    for each in definitions:
        if each.theirs in _RATES:
            value = sent.finite("throughput", each.theirs, "mean")
            if value is not None:
                yield ForeignFigure(each.theirs, value, each.ours)
            continue
        found = sent.find("latency", each.theirs)
        for statistic in _STATISTICS if found is not None else ():
            yield from _latency(each, sent.at("latency", each.theirs), statistic)


def _latency(
    definition: FigureDefinition, found: Part, statistic: str
) -> Iterator[ForeignFigure]:
    value = found.finite(statistic)
    if value is None:
        return
    in_ms = 1.0 if found.at("units").text().startswith("ms") else 1000.0
    is_same = definition.ours is not None and (
        statistic == "mean" or not definition.note.endswith("the mean only")
    )
    yield ForeignFigure(
        f"{definition.theirs}.{statistic} (ms)",
        in_ms * value,
        f"{statistic}_{definition.ours}_ms" if is_same else None,
    )


def _load(tool: str, load: Part) -> tuple[Load | None, str]:
    asked = load.at("standardized")
    users = _finite(asked, "concurrency")
    rate = _finite(asked, "rate_qps")
    # inference-perf writes a rate beside the users that it was told.
    if users is not None and (rate is None or tool == "inference-perf"):
        if not 1 <= users <= MAX_REQUESTS_A_STAGE or users != int(users):
            raise asked.at("concurrency").wrong("must be a whole number from 1")
        return UsersLoad(concurrency=int(users), start="Together"), ""
    if rate is None:
        return None, "the report has neither a rate nor a number of users"
    burstiness = _burstiness(tool, load)
    if burstiness is None:
        return (
            None,
            "whether requests came evenly or by chance is not in the report",
        )
    number = asked.at("rate_qps").number(least=1e-6, most=1e6)
    cap = None if users is None else int(users)
    return rows.rate_load(number, burstiness=burstiness, cap=cap), ""


def _finite(part: Part, key: str) -> float | None:
    """Return a number; None where there is none, or it is infinite."""
    return part.finite(key)


def _burstiness(tool: str, load: Part) -> str | None:
    """Return how requests were spaced; None where the report does not say."""
    if tool == "vllm-benchmark":
        args = load.find("native", "args")
        if args is None or not args.value:
            return None
        told = args.find("burstiness")
        return "1" if told is None else told.text()
    kind = load.find("native", "config", "load", "type")
    if tool == "inference-perf" and kind is not None:
        return {"constant": rows.EVEN, "poisson": "1"}.get(kind.text())
    return None


def _model(part: Part) -> str | None:
    stack = part.find("scenario", "stack")
    if stack is None:
        return None
    names = (
        each.find("standardized", "model", "name") for each in stack.items(most=64)
    )
    found = dict.fromkeys(name.text() for name in names if name is not None)
    return ", ".join(found) or None


_DURATION = re.compile(
    r"P(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d+)?)S)?)"
)


def _seconds(part: Part) -> float | None:
    """Return how long the stage took (an ISO 8601 duration of hours, minutes, seconds)."""
    told = part.find("run", "time", "duration")
    if told is None:
        return None
    found = _DURATION.fullmatch(told.text())
    if found is None:
        raise told.wrong("must be a duration such as PT49.9S")
    hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return min(MAX_SECONDS, 3600 * hours + 60 * minutes + seconds)


READER = FileReader(
    "llm-d",
    "the report 0.2 of llm-d-benchmark, as YAML or JSON",
    ("*benchmark_report*.yaml", "*benchmark_report*.json"),
    read,
)
