"""The record of a stage, made from the result of the load engine. Pure."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import accumulate, compress
from numbers import Integral, Real
from operator import and_
from typing import Any, NamedTuple

from benchrun_client import contract
from benchrun_client.answer_schema import checked
from benchrun_client.contract.sessions import Beginning, TurnPlace
from benchrun_client.failures import shorten

MAX_SCALARS = 200
SAME_INSTANT_SECONDS = 0.001
"""If the first content follows the first chunk within this time, both count as one event."""
MAX_ERRORS = 8
MAX_ERROR_CHARACTERS = 300
MAX_DIAGNOSTIC_CHARACTERS = 1000


class Thought(NamedTuple):
    """When the reasoning of an answer and the rest of it began (`time.perf_counter`)."""

    began: float
    answer_began: float | None  # None: the answer ended within the reasoning.
    tokens: int | None  # Tokens of the reasoning; None if not known.


@dataclass(slots=True)
class Instants:
    """When each request was due, sent and answered, and how it ended, in order of the requests.

    Instants are of `time.perf_counter`. The first request is sent first; other requests may
    overtake each other if the users begin spread over time.
    """

    due: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    ok: list[bool] = field(default_factory=list)
    ended: list[bool] = field(default_factory=list)
    """Whether the server's count of tokens came, which is a stream's last chunk, or in an answer
    that comes as a whole. vLLM's client counts an answer without it as a success."""
    closed: list[bool] = field(default_factory=list)
    """Whether the server closed the stream; empty: answers are not streamed."""
    first_chunks: list[float] = field(default_factory=list)
    """Instant of the first chunk, even without content; 0 if no chunk came. Empty: answers are not
    streamed."""
    thoughts: dict[int, Thought] = field(default_factory=dict)
    """The reasoning of answers that have some, by the number of the request."""
    stopped: list[bool] = field(default_factory=list)
    """Whether the model ended the answer itself; empty: answers are not streamed."""
    reconnected: int = 0
    """Number of requests that were sent again on a new connection."""
    cached: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Tokens of the prompt and those found in a cache, by the number of the request, where the
    answer tells them."""
    order: list[int] | None = None
    """Which of the stage's requests was sent as the first, second and so on; None: in their own
    order, every one."""
    connects: list[float] | None = None
    """Time that each new connection took, in seconds, in any order; None if not recorded."""


@dataclass(frozen=True, slots=True)
class ClientCost:
    """What a stage cost the client, as in `ClientFigures`; times are in seconds."""

    cpu_seconds: float
    wall_seconds: float
    throttled_periods: int | None
    lags: list[float]  # How late the event loop ran each tick of the probe.
    node_cpu_seconds: float | None = None
    stolen_seconds: float | None = None
    lost_segments: int | None = None


@dataclass(frozen=True, slots=True)
class RawStage:
    """A measured stage as plain lists, which are quick to copy; times are in seconds.

    Only shard 0 sets the fields that have a default, besides `decodes` and the answers.
    """

    run_uid: str
    plan_digest: str
    sequence: int
    stage_id: str
    load: contract.Load
    prompts_digest: str
    engine: contract.LoadEngineVersion
    scalars: dict[str, float | int | None]
    instants: Instants
    unix_minus_perf: float  # Offset that turns the instants into Unix time.
    previous_answer: float
    """Instant of the last answer before this stage (`time.perf_counter`, like `instants`)."""
    ttfts: list[float]
    itls: list[list[float]]
    input_lens: list[int]
    expected_lens: list[int]  # Tokens of the prompts by the client's own count.
    output_lens: list[int]
    requested_lens: list[int]
    repeated_tokens: int
    errors: list[str]
    cost: ClientCost
    api: contract.Api
    sampling: contract.SamplingParams
    repeated: Sequence[int] = ()
    """Tokens of each prompt that an earlier one begins with, by the dataset's plan."""
    places: Sequence[TurnPlace | None] = ()
    """Where each request that was sent stands in a session; empty: requests have no sessions."""
    beginnings: Sequence[Beginning] = ()
    """What each planned prompt begins with, those that were lost included; empty: not known."""
    lost_turns: int = 0  # Turns that were not sent because one before had failed.
    decodes: list[float] | None = None
    """Time from the first token to the last, if the gaps between them are not known; None if they
    are known."""
    answers: tuple[str, ...] = ()
    """Some of the answers; only if they must keep a schema."""
    answer_schema: str | None = None
    shared_prefix_tokens: int = 0
    datasets: tuple[contract.DatasetFacts, ...] = ()
    diagnostic: str | None = None
    servers: tuple[contract.ServerEdge, ...] = ()
    cache_reset: contract.CacheReset | None = None
    warmup: contract.WarmupOutcome | None = None
    # For a stage of a search; set once its outcome is known.
    probe: contract.Probe | None = None
    user_start: contract.UserStart | None = None
    round_trips: contract.RoundTrips | None = None
    chat_template: str | None = None
    tokenizer_commit: str | None = None


STAGE_FIELDS = (
    "run_uid",
    "plan_digest",
    "sequence",
    "stage_id",
    "load",
    "prompts_digest",
    "engine",
)
"""Fields of a record that tell which stage it is of, and what traffic: equal for all its shards."""
_COPIED = (
    *STAGE_FIELDS,
    *(
        "shared_prefix_tokens",
        "repeated_tokens",
        "datasets",
        "cache_reset",
        "warmup",
        "probe",
    ),
    *("round_trips", "chat_template", "tokenizer_commit", "servers", "user_start"),
)
"""Fields that the record takes unchanged."""


_OF_TOKENS = ("output_token", "output_throughput", "total_token_throughput", "tpot")
"""Parts of names: the load engine's figures with such names depend on its own token counts."""


def _known_scalars(raw: RawStage) -> dict[str, float | int | None]:
    """Return the load engine's figures; if it counted tokens itself, without those on tokens."""
    if not any(uncounted(raw.instants)):
        return raw.scalars
    return {
        name: value
        for name, value in raw.scalars.items()
        if not any(part in name for part in _OF_TOKENS)
    }


def record_of(raw: RawStage) -> contract.StageRecord:
    instants = raw.instants
    cost = asdict(raw.cost)
    lags = sorted(cost.pop("lags"))
    first = instants.sent[0]
    by_slice = sliced_gaps(raw)
    has_whole_answers = raw.api in contract.WHOLE_ANSWERS
    return contract.StageRecord(
        **{name: getattr(raw, name) for name in _COPIED},
        sampling=None if has_whole_answers else raw.sampling,
        whole_answers=True if has_whole_answers else None,
        scalars=_known_scalars(raw),
        first_send_unix_us=micros(first + raw.unix_minus_perf),
        last_receive_unix_us=micros(max(instants.answered) + raw.unix_minus_perf),
        idle_before_us=micros(first - raw.previous_answer),
        requests=request_columns(raw),
        gaps=gap_counts(summed(by_slice)),
        gap_slices=gap_slices(by_slice),
        expected_input_tokens=sum(
            compress(raw.expected_lens, map(and_, instants.ok, instants.ended))
        ),
        errors=error_counts(
            error
            for error, ok in zip(raw.errors, instants.ok, strict=True)
            if not ok
        ),
        diagnostic=shorten(raw.diagnostic, MAX_DIAGNOSTIC_CHARACTERS)
        if raw.diagnostic
        else None,
        answers=None
        if raw.answer_schema is None
        else checked(raw.answers, raw.answer_schema),
        connections=_connections(instants.connects),
        streams=_streams(raw),
        cached=_cached(instants),
        sessions=_sessions(raw),
        client=contract.ClientFigures(
            **cost,
            # The smallest lag that 99 % of the ticks do not exceed.
            lag_p99_us=micros(lags[math.ceil(0.99 * len(lags)) - 1])
            if lags
            else None,
            lag_thrice_us=micros(lags[max(len(lags) - 3, 0)]) if lags else None,
            lag_max_us=micros(lags[-1]) if lags else None,
        ),
    )


def _token_gaps(raw: RawStage) -> Iterable[tuple[float, Sequence[float]]]:
    """Yield, for each answer, when the first of its gaps between tokens began, and these gaps.

    Some chats begin with a chunk that only has the role, right before the first token. There are
    then more chunks than tokens, and the first gap, which is not between tokens, is left out.
    """
    columns = (
        raw.instants.sent,
        raw.ttfts,
        raw.itls,
        raw.output_lens,
        raw.instants.ok,
    )
    for sent, ttft, gaps, tokens, ok in zip(*columns, strict=True):
        skipped = 1 if raw.api == "Chat" and 0 < tokens <= len(gaps) else 0
        if ok and len(gaps) > skipped:
            yield sent + ttft + sum(gaps[:skipped]), gaps[skipped:]


def _connections(connects: Sequence[float] | None) -> contract.Connections | None:
    if connects is None:
        return None
    return contract.Connections(
        opened=len(connects),
        total_us=micros(sum(connects)),
        longest_us=micros(max(connects, default=0)),
    )


def _cached(instants: Instants) -> contract.CachedTokens | None:
    """Sum what answers tell of the tokens that were found in a cache; None if none tells it."""
    told = [each for number, each in instants.cached.items() if instants.ok[number]]
    if not told:
        return None
    return contract.CachedTokens(
        answers=len(told),
        prompt_tokens=sum(prompt for prompt, _ in told),
        cached_tokens=sum(cached for _, cached in told),
    )


def _sessions(raw: RawStage) -> contract.SessionFigures | None:
    """Tell by turn number what a cache could hold and what answers say it held."""
    if not any(place is not None for place in raw.places):
        return None
    cached = raw.instants.cached
    by_turn: dict[int, list[int]] = {}
    for number, place in enumerate(raw.places):
        if place is None or number not in cached or not raw.instants.ok[number]:
            continue
        sums = by_turn.setdefault(
            min(place.turn, contract.MAX_TOLD_TURNS), [0, 0, 0, 0]
        )
        prompt, hit = cached[number]
        for at, value in enumerate((1, prompt, raw.repeated[number], hit)):
            sums[at] += value
    return contract.SessionFigures(
        lost_turns=raw.lost_turns,
        cached=tuple(
            contract.TurnCache(
                turn=turn,
                answers=sums[0],
                prompt_tokens=sums[1],
                expected_tokens=min(sums[2], sums[1]),
                cached_tokens=min(sums[3], sums[1]),
            )
            for turn, sums in sorted(by_turn.items())
        ),
        prompts=_planned_prompts(raw),
    )


def _planned_prompts(raw: RawStage) -> contract.PlannedPrompts | None:
    order = raw.instants.order
    if not raw.beginnings or order is None:
        return None
    return contract.PlannedPrompts(
        like=tuple(each.like for each in raw.beginnings),
        tokens=tuple(each.tokens for each in raw.beginnings),
        sent=tuple(order[number] for number in _in_order_of_sending(raw.instants)),
    )


def _streams(raw: RawStage) -> contract.Streams | None:
    instants = raw.instants
    if not instants.closed:
        return None
    firsts = [
        at - sent if at else ttft
        for at, sent, ttft in zip(
            instants.first_chunks, instants.sent, raw.ttfts, strict=True
        )
    ]
    is_usual = all(
        ttft - first <= SAME_INSTANT_SECONDS
        for first, ttft, ok in zip(firsts, raw.ttfts, instants.ok, strict=True)
        if ok
    )
    all_ended = all(
        ended for ended, ok in zip(instants.ended, instants.ok, strict=True) if ok
    )
    if is_usual and all_ended and not instants.reconnected:
        return None
    order = _in_order_of_sending(instants)
    return contract.Streams(
        closed=tuple(1 if instants.closed[i] else 0 for i in order),
        first_chunk_us=() if is_usual else tuple(micros(firsts[i]) for i in order),
        uncounted=sum(uncounted(instants)),
        reconnected=instants.reconnected,
    )


def uncounted(instants: Instants) -> list[bool]:
    """Return, for each answer, whether its stream was closed without the server's count of tokens.

    The load engine then counts the answer's tokens with the client's tokenizer, which may differ
    from the server's.
    """
    if not instants.closed:
        return [False] * len(instants.sent)
    return [
        ok and closed and not ended
        for ok, closed, ended in zip(
            instants.ok, instants.closed, instants.ended, strict=True
        )
    ]


def _in_order_of_sending(instants: Instants) -> list[int]:
    return sorted(range(len(instants.sent)), key=instants.sent.__getitem__)


def micros(seconds: float) -> int:
    """Return whole microseconds; 0 instead of a negative time (a clock was set back)."""
    return max(round(seconds * 1_000_000), 0)


def request_columns(raw: RawStage) -> contract.RequestColumns:
    """Build the columns of a record, in order of sending."""
    instants = raw.instants
    first = instants.sent[0]
    decodes = raw.decodes if raw.decodes is not None else map(sum, raw.itls)
    columns: dict[str, Sequence[int]] = {
        "start_us": [micros(sent - first) for sent in instants.sent],
        "queue_us": [
            micros(sent - due)
            for sent, due in zip(instants.sent, instants.due, strict=True)
        ],
        "ttft_us": list(map(micros, raw.ttfts)),
        # vLLM's latency ends with the last token: it is the first one's time and all gaps.
        "e2el_us": [
            micros(ttft + decode)
            for ttft, decode in zip(raw.ttfts, decodes, strict=True)
        ],
        "input_tokens": raw.input_lens,
        "output_tokens": [
            0 if is_unknown else tokens
            for tokens, is_unknown in zip(
                raw.output_lens, uncounted(instants), strict=True
            )
        ],
        "asked_tokens": raw.requested_lens,
        "ended": [1 if ended else 0 for ended in instants.ended],
        "ok": [1 if ok else 0 for ok in instants.ok],
    }
    columns |= _reasoning_columns(raw) | _session_columns(raw)
    order = _in_order_of_sending(instants)
    return contract.RequestColumns.model_validate(
        {
            name: tuple([column[i] for i in order])
            for name, column in columns.items()
        }
    )


def _reasoning_columns(raw: RawStage) -> dict[str, Sequence[int]]:
    """Return the columns on reasoning; none if no answer has any."""
    instants = raw.instants
    thoughts = instants.thoughts
    if not thoughts:
        return {}
    requests = range(len(instants.sent))
    began = [0 for _ in requests]
    answered = list(map(micros, raw.ttfts))
    for number, thought in thoughts.items():
        sent, ttft = instants.sent[number], raw.ttfts[number]
        after = thought.began - sent
        # The first content by two looks at the clock is one instant.
        same = abs(after - ttft) <= SAME_INSTANT_SECONDS
        began[number] = max(micros(ttft if same else after), 1)
        answered[number] = (
            0
            if thought.answer_began is None
            else max(micros(thought.answer_began - sent), began[number])
        )
    columns: dict[str, Sequence[int]] = {
        "reasoning_us": began,
        "answer_us": answered,
    }
    counts = {n: thought.tokens for n, thought in thoughts.items()}
    if all(counts[n] is not None for n in counts if instants.ok[n]):
        columns["reasoning_tokens"] = [counts.get(n) or 0 for n in requests]
    return columns


def _session_columns(raw: RawStage) -> dict[str, Sequence[int]]:
    """Return the columns on sessions; none if the requests have none."""
    places = [place for place in raw.places if place is not None]
    if not places:
        return {}
    return {
        "session": [place.session for place in places],
        "turn": [place.turn for place in places],
    }


def _rounded(us: int, step: int) -> int:
    return (us + step // 2) // step * step


def sealed(record: contract.StageRecord) -> contract.Sealed:
    """Seal a record; a large one of sessions, or with reasoning, is made coarser until it fits.

    Of sessions, what their prompts begin with is left out. With reasoning, first gaps are rounded.
    Then the times of reasoning and answer are rounded to 1 ms. Then the tokens of reasoning are
    left out, as if they were not known. At last the times are rounded to 10 ms. Raises ValueError
    if even that does not fit.
    """
    has_prompts = (
        record.sessions is not None and record.sessions.prompts is not None
    )
    for coarser in (
        *((_without_prompts,) if has_prompts else ()),
        *(_COARSER if record.requests.reasoning_us else ()),
    ):
        try:
            return contract.seal(record)
        except ValueError:
            record = coarser(record)
    return contract.seal(record)


def _without_prompts(record: contract.StageRecord) -> contract.StageRecord:
    assert record.sessions is not None, "checked by the caller"
    sessions = record.sessions.model_copy(update={"prompts": None})
    return record.model_copy(update={"sessions": sessions})


FEW_GAP_VALUES = contract.MAX_GAP_VALUES // 10


def _fewer_gaps(record: contract.StageRecord) -> contract.StageRecord:
    counts = Counter(dict(zip(record.gaps.us, record.gaps.count, strict=True)))
    return record.model_copy(
        update={"gaps": gap_counts(counts, most=FEW_GAP_VALUES)}
    )


def _coarser_times(
    record: contract.StageRecord, *, step: int
) -> contract.StageRecord:
    def rounded(column: Sequence[int]) -> tuple[int, ...]:
        # 0 says that there is none.
        return tuple(max(_rounded(us, step), 1) if us else 0 for us in column)

    of = record.requests
    return _with_columns(
        record,
        reasoning_us=rounded(of.reasoning_us),
        answer_us=rounded(of.answer_us),
    )


def _with_columns(
    record: contract.StageRecord, **columns: tuple[int, ...]
) -> contract.StageRecord:
    return record.model_copy(
        update={"requests": record.requests.model_copy(update=columns)}
    )


_COARSER: tuple[Callable[[contract.StageRecord], contract.StageRecord], ...] = (
    _fewer_gaps,
    partial(_coarser_times, step=1_000),
    partial(_with_columns, reasoning_tokens=()),
    partial(_coarser_times, step=10_000),
)


def gap_counts(
    counts: Counter[int], *, most: int = contract.MAX_GAP_VALUES
) -> contract.GapCounts:
    """Build exact counts by microseconds.

    More than `most` distinct values are rounded, to the finest step that fits.
    """
    step = 1
    while len(counts) > most:
        step *= 10
        rounded: Counter[int] = Counter()
        for us, count in counts.items():
            rounded[_rounded(us, step)] += count
        counts = rounded
    ordered = sorted(counts.items())
    return contract.GapCounts(
        us=tuple(us for us, _ in ordered),
        count=tuple(count for _, count in ordered),
    )


def sliced_gaps(raw: RawStage) -> list[Counter[int]]:
    """Return the gaps of successful requests in microseconds, by equal slices of time.

    The slices reach from the first send to the last token.
    """
    rows = list(_token_gaps(raw))
    first = min(raw.instants.sent, default=0.0)
    tokens_at = [
        list(accumulate(gaps, initial=began - first)) for began, gaps in rows
    ]
    length = (
        max((at[-1] for at in tokens_at), default=0.0) / contract.MAX_GAP_SLICES
        or 1.0
    )
    slices = [Counter[int]() for _ in range(contract.MAX_GAP_SLICES)]
    for (_, gaps), at in zip(rows, tokens_at, strict=True):
        place = 0
        while place < len(gaps):
            number = min(
                max(int(at[place + 1] / length), 0), contract.MAX_GAP_SLICES - 1
            )
            until = (
                max(bisect_left(at, (number + 1) * length) - 1, place + 1)
                if number < contract.MAX_GAP_SLICES - 1
                else len(gaps)
            )
            slices[number].update(map(micros, gaps[place:until]))
            place = until
    return slices


def summed(slices: Sequence[Counter[int]]) -> Counter[int]:
    """Return the sums of the counts over all slices of time."""
    total: Counter[int] = Counter()
    for of_slice in slices:
        # Adding counters would copy the total for each slice.
        total.update(of_slice)
    return total


def gap_slices(slices: Sequence[Counter[int]]) -> contract.GapSlices | None:
    """Count, for each slice, the gaps above certain percentiles of all gaps; None without gaps."""
    counts = sorted(summed(slices).items())
    through = list(accumulate(count for _, count in counts))
    if not through:
        return None
    ranks = [math.ceil(through[-1] * level / 100) for level in contract.GAP_LEVELS]
    edges = [counts[bisect_left(through, rank)][0] for rank in ranks]
    above: list[int] = []
    for of_slice in slices:
        over = [0] * (len(edges) + 1)
        for us, count in of_slice.items():
            over[bisect_left(edges, us)] += count
        above += reversed(list(accumulate(reversed(over[1:]))))
    return contract.GapSlices(
        edges_us=tuple(edges),
        gaps=tuple(each.total() for each in slices),
        above=tuple(above),
    )


def error_counts(errors: Iterable[str]) -> dict[str, int]:
    """Count the most frequent error texts.

    vLLM gives a reason phrase or a whole traceback. Only its last line is kept, which says what
    happened.
    """
    lines = (
        [line.strip() for line in error.splitlines() if line.strip()]
        for error in errors
    )
    texts = Counter(
        shorten(each[-1] if each else "no error text", MAX_ERROR_CHARACTERS)
        for each in lines
    )
    return dict(texts.most_common(MAX_ERRORS))


def scalars_of(result: dict[str, Any]) -> dict[str, float | int | None]:
    """Return the engine's own figures under its own names.

    A figure that is not finite, or outside a record's bounds, is None.
    """
    scalars: dict[str, float | int | None] = {}
    for name, value in result.items():
        is_number = isinstance(value, Real | None) and not isinstance(value, bool)
        if is_number and len(name) <= 80 and len(scalars) < MAX_SCALARS:
            number = (
                int(value)
                if isinstance(value, Integral)
                else None
                if value is None
                else float(value)
            )
            scalars[name] = (
                number
                if number is not None and abs(number) <= contract.MOST
                else None
            )
    return scalars
