"""Read what `vllm bench serve --save-result` writes, with `--save-detailed` every request.

Known from vLLM 0.32; the file does not name its version.
"""

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
    WHOLE,
    FigureDefinition,
    FileReader,
    ForeignFigure,
    ForeignRequests,
    ForeignStage,
    Source,
)
from benchrun.judge.rules.inputs import Input

MAX_GAPS = 4_000_000  # Most gaps between chunks in a file.
MAX_SECONDS = 1e6
DETAILED = "vllm bench serve --save-result --save-detailed"
_ABSENT = dict.fromkeys(
    (
        Input.TIMES,
        Input.ERRORS,
        Input.CLIENT_QUEUE,
        Input.INPUT_TOKENS,
        Input.OUTPUT_TOKENS,
        Input.GAPS,
    ),
    f"measure with {DETAILED}",
)
_STATISTICS = ("mean", "median", "std")
_PERCENTILES = ("p50", "p90", "p95", "p99", "p99.9")
_LATENCIES = ("ttft", "tpot", "itl", "e2el")
_WHOLE_STAGE = (
    "completed",
    "failed",
    "duration",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
)
_COMPLETIONS = frozenset({"openai", "vllm"})
_CHAT = frozenset({"openai-chat"})
_ROLE = (
    "ends with the first chunk of a stream, which in a chat is the role and may hold no token; "
    "ours ends with the first content"
)


def read(sources: Sequence[Source]) -> list[ForeignStage]:
    """Return the measurements of all files; a file has several with `--append-result`."""
    return [_stage(each) for source in sources for each in source.documents]


def _stage(part: Part) -> ForeignStage:
    answered = part.at("completed").count(most=MAX_REQUESTS_A_STAGE)
    planned = part.at("num_prompts").count(most=MAX_REQUESTS_A_STAGE)
    failed = part.find("failed")
    backend = part.at("backend").text()
    definitions = definitions_of(backend)
    sent = _requests(part, answered) if part.find("ttfts") is not None else None
    load, why = _load(part)
    model = part.find("model_id")
    return ForeignStage(
        file=part.file,
        tool=READER.tool,
        version=None,
        model=None if model is None else model.text(),
        load=load,
        load_unknown=why,
        answered=answered,
        failed=max(0, planned - answered)
        if failed is None
        else failed.count(most=MAX_REQUESTS_A_STAGE),
        seconds=part.at("duration").number(most=MAX_SECONDS),
        figures=list(_figures(part, definitions)),
        definitions=definitions,
        requests=sent,
        not_ours=frozenset(
            each.theirs for each in definitions if each.ours is None
        ),
        errors=_errors(part),
        absent=_ABSENT,
    )


def definitions_of(backend: str) -> list[FigureDefinition]:
    """Return what the latencies of a back end are among ours, and the throughput."""
    if backend in _COMPLETIONS:
        notes = dict.fromkeys(_LATENCIES, "")
    elif backend in _CHAT:
        notes = {
            "ttft": _ROLE,
            "tpot": "is counted from that TTFT",
            "itl": "has the gap after the role",
            "e2el": "",
        }
    else:
        why = f"what backend {backend} measures is not known to this release"
        notes = dict.fromkeys(_LATENCIES, why)
    latencies = [
        FigureDefinition(name, None if note else name, note)
        for name, note in notes.items()
    ]
    return [*latencies, FigureDefinition("throughput", "throughput", f"of {WHOLE}")]


def _figures(
    part: Part, definitions: Sequence[FigureDefinition]
) -> Iterator[ForeignFigure]:
    for key in _WHOLE_STAGE:
        if part.find(key) is not None:
            yield ForeignFigure(key, part.finite(key), key)
    for latency in definitions:
        for statistic in (*_STATISTICS, *_PERCENTILES):
            key = f"{statistic}_{latency.theirs}_ms"
            if part.find(key) is not None:
                ours = None if latency.ours is None else key
                yield ForeignFigure(key, part.finite(key), ours)


def _load(part: Part) -> tuple[Load | None, str]:
    if part.find("rps_change_events") is not None:
        return None, "the rate was ramped up, and no single load was asked for"
    cap = part.find("max_concurrency")
    users = None if cap is None else cap.count(most=MAX_REQUESTS_A_STAGE)
    if users == 0:
        raise part.at("max_concurrency").wrong("must be 1 or more")
    rate = part.at("request_rate")
    if rate.value == "inf" or rate.value == float("inf"):
        return (
            AtOnceLoad()
            if users is None
            else UsersLoad(concurrency=users, start="Together")
        ), ""
    a_second = rate.number(least=1e-6, most=1e6)
    shape = part.find("burstiness")
    burstiness = 1.0 if shape is None else shape.number(least=1e-6, most=1e6)
    return rows.rate_load(
        a_second, burstiness=rows.decimal(burstiness), cap=users
    ), ""


def _errors(part: Part) -> Counter[str] | None:
    column = part.find("errors")
    if column is None:
        return None
    texts = (each.text() for each in column.items(most=MAX_REQUESTS_A_STAGE))
    return Counter(text for text in texts if text)


def _requests(part: Part, answered: int) -> ForeignRequests | None:
    """Return the requests; None if the file does not say when each was sent (before vLLM 0.11)."""
    if part.find("start_times") is None or part.find("latencies") is None:
        return None
    starts = _column(part, "start_times", seconds=True, most=1e10)
    sent = len(starts)
    columns = {
        name: _column(part, name, seconds=seconds, entries=sent)
        for name, seconds in (
            ("ttfts", True),
            ("latencies", True),
            ("queue_times", True),
            ("input_lens", False),
            ("output_lens", False),
        )
        if name != "queue_times" or part.find(name) is not None
    }
    errors = [each.text() for each in part.at("errors").items(most=sent)]
    ok = [
        not error and latency > 0
        for error, latency in zip(errors, columns["latencies"], strict=False)
    ]
    if len(errors) != sent or sum(ok) != answered:
        raise part.at("errors").wrong(
            f"and latencies have {sum(ok)} answered requests of {sent}, completed says {answered}"
        )
    order = sorted(range(sent), key=starts.__getitem__)
    first = starts[order[0]] if order else 0
    queued = columns.get("queue_times")
    return ForeignRequests(
        ok=[ok[i] for i in order],
        start_us=[starts[i] - first for i in order],
        ttft_us=[columns["ttfts"][i] for i in order],
        e2el_us=[columns["latencies"][i] for i in order],
        queue_us=None if queued is None else [queued[i] for i in order],
        input_tokens=[columns["input_lens"][i] for i in order],
        output_tokens=[columns["output_lens"][i] for i in order],
        gaps_us=_gaps(part, sent),
    )


def _column(
    part: Part,
    key: str,
    *,
    seconds: bool,
    entries: int | None = None,
    most: float = MAX_SECONDS,
) -> list[int]:
    """Return a column of counts or, with `seconds`, of times converted to microseconds."""
    column = part.at(key)
    values = [
        round(1e6 * each.number(most=most)) if seconds else each.count(most=10**9)
        for each in column.items(most=MAX_REQUESTS_A_STAGE)
    ]
    if entries is not None and len(values) != entries:
        raise column.wrong(f"has {len(values)} entries, start_times has {entries}")
    return values


def _gaps(part: Part, answers: int) -> list[int] | None:
    column = part.find("itls")
    if column is None:
        return None
    gaps: list[int] = []
    for answer in column.items(most=answers):
        gaps += [
            round(1e6 * gap.number(most=MAX_SECONDS))
            for gap in answer.items(most=MAX_GAPS - len(gaps))
        ]
    return gaps


READER = FileReader("vllm", f"the file that {DETAILED} writes", ("*.json",), read)
