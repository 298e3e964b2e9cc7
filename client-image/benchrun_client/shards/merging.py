"""Merging the shards' parts of a stage into its record. Pure, and exact.

The parts' requests and gaps are put together, and every figure is computed from them; nothing is
averaged. Names and definitions are those of vLLM's `calculate_metrics`. Figures that can't be
computed from a record are left out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from benchrun_client import contract
from benchrun_client.stage_record import MAX_ERRORS, STAGE_FIELDS, gap_counts

Scalars = dict[str, float | int | None]
SETTINGS = ("request_rate", "burstiness", "label")
"""Scalars that repeat what was requested: equal in all shards."""
_LATENCY = re.compile(
    r"^(?:mean|median|std|p(?P<percent>[0-9.]+))_(?P<of>[a-z0-9_]+)_ms$"
)


def figures_of(
    columns: contract.RequestColumns,
    gaps: contract.GapCounts,
    *,
    duration_seconds: float,
    max_concurrency: int | None,
    wanted: Mapping[str, float | int | None],
) -> Scalars:
    """Compute the figures of a whole stage.

    `wanted` holds the figures of one shard: their names are computed, their settings copied.
    """
    ok = [i for i, succeeded in enumerate(columns.ok) if succeeded]
    tokens_in, tokens_out = (
        sum(column[i] for i in ok)
        for column in (columns.input_tokens, columns.output_tokens)
    )
    totals: Scalars = {
        "duration": duration_seconds,
        "completed": len(ok),
        "failed": len(columns.ok) - len(ok),
        "total_input_tokens": tokens_in,
        "total_output_tokens": tokens_out,
        "request_throughput": len(ok) / duration_seconds,
        "request_goodput": None,
        "output_throughput": tokens_out / duration_seconds,
        "total_token_throughput": (tokens_in + tokens_out) / duration_seconds,
        "max_concurrent_requests": _busiest_second(columns, ok),
        "num_prompts": len(columns.ok),
        "max_concurrency": max_concurrency,
        **{name: wanted[name] for name in SETTINGS if name in wanted},
    }
    samples = _samples(columns, gaps, ok)
    latencies = {
        name: figure
        for name in wanted
        if (figure := _figure(name, samples)) is not None
    }
    return {
        name: value for name, value in totals.items() if name in wanted
    } | latencies


def _samples(
    columns: contract.RequestColumns, gaps: contract.GapCounts, ok: Sequence[int]
) -> dict[str, contract.Distribution]:
    """Return the values of each latency in milliseconds, by its name."""
    ttft = columns.ttft_us
    e2el = columns.e2el_us
    queue = columns.queue_us
    out = columns.output_tokens
    micros: dict[str, Iterable[float]] = {
        "ttft": (ttft[i] for i in ok),
        "tpot": ((e2el[i] - ttft[i]) / (out[i] - 1) for i in ok if out[i] > 1),
        "e2el": (e2el[i] for i in ok),
        "client_queue_time": (queue[i] for i in ok),
        "e2el_including_client_queue": (e2el[i] + queue[i] for i in ok),
    }
    itl = contract.Distribution.of_counts(
        (us / 1000, count) for us, count in zip(gaps.us, gaps.count, strict=True)
    )
    return {
        "itl": itl,
        **{
            name: contract.Distribution.of(us / 1000 for us in each)
            for name, each in micros.items()
        },
    }


def _figure(
    name: str, samples: Mapping[str, contract.Distribution]
) -> float | None:
    """Compute a latency figure by its name; None if the name is not that of a latency.

    A latency without values gives 0, as in vLLM.
    """
    if (found := _LATENCY.match(name)) is None or found["of"] not in samples:
        return None
    sample = samples[found["of"]]
    if name.startswith("median") and sample.count:
        return (
            sample.at_rank((sample.count + 1) // 2)
            + sample.at_rank(sample.count // 2 + 1)
        ) / 2
    if found["percent"] is not None:
        return sample.percentile(float(found["percent"])) or 0.0
    return (sample.deviation() if name.startswith("std") else sample.mean()) or 0.0


def _busiest_second(columns: contract.RequestColumns, ok: Sequence[int]) -> int:
    """Return the most requests in flight in one second, counted from the first successful send."""
    if not ok:
        return 0
    first = min(columns.start_us[i] for i in ok)
    changes: Counter[int] = Counter()
    for i in ok:
        sent = columns.start_us[i] - first
        changes[sent // 1_000_000] += 1
        changes[(sent + columns.e2el_us[i]) // 1_000_000 + 1] -= 1
    return max(accumulate(change for _, change in sorted(changes.items())))


@dataclass(frozen=True, slots=True)
class ShardedStage:
    """How the shards sent a stage together."""

    shards: contract.Shards
    began_unix_us: int  # The agreed instant of the start.


def merged(
    parts: Sequence[contract.StageRecord], sharded: ShardedStage
) -> contract.StageRecord:
    """Merge the parts of a stage, one measured by each shard, into one record.

    The first part must be that of shard 0: no other shard reads the servers' counters. Raises
    ValueError for parts of different stages.
    """
    first = parts[0]
    # Each shard's prompts digest covers the whole stage: equal digests mean that all shards sent
    # parts of the same traffic.
    for name in STAGE_FIELDS:
        if any(getattr(part, name) != getattr(first, name) for part in parts):
            raise ValueError(
                f"shards do not agree on {name}: "
                f"{sorted({str(getattr(part, name)) for part in parts})}"
            )
    began = min(part.first_send_unix_us for part in parts)
    ended = max(part.last_receive_unix_us for part in parts)
    places = _in_order(parts)
    columns = _columns(places, began)
    counts = Counter[int]()
    errors = Counter[str]()
    for part in parts:
        counts.update(dict(zip(part.gaps.us, part.gaps.count, strict=True)))
        errors.update(part.errors)
    gaps = gap_counts(counts)
    counted = [part.expected_input_tokens for part in parts]
    slices = [part.gap_slices for part in parts if part.gap_slices is not None]
    return first.model_copy(
        update={
            "first_send_unix_us": began,
            "last_receive_unix_us": ended,
            "idle_before_us": max(
                first.idle_before_us - (first.first_send_unix_us - began), 0
            ),
            "requests": columns,
            "gaps": gaps,
            "gap_slices": _summed(slices) if slices else None,
            "scalars": figures_of(
                columns,
                gaps,
                duration_seconds=max(ended - sharded.began_unix_us, 1) / 1e6,
                max_concurrency=first.load.cap,
                wanted=first.scalars,
            ),
            "expected_input_tokens": sum(counted) if None not in counted else None,
            "repeated_tokens": sum(part.repeated_tokens for part in parts),
            "errors": dict(errors.most_common(MAX_ERRORS)),
            "client": _client([part.client for part in parts]),
            "streams": _streams(places),
            "cached": _cached([part.cached for part in parts]),
            "answers": _answers([part.answers for part in parts]),
            "connections": _connections([part.connections for part in parts]),
            "shards": sharded.shards,
        }
    )


def _summed(parts: Sequence[contract.GapSlices]) -> contract.GapSlices:
    """Sum the gaps of all parts by slice.

    The edges of all parts are nearly equal, because the same servers answered, so the edges of the
    first part are used for all.
    """
    gaps, above = (
        tuple(map(sum, zip(*each, strict=True)))
        for each in ([p.gaps for p in parts], [p.above for p in parts])
    )
    return parts[0].model_copy(update={"gaps": gaps, "above": above})


_Place = tuple[contract.StageRecord, int]
"""A request: the part that contains it, and its position there."""


def _in_order(parts: Iterable[contract.StageRecord]) -> list[_Place]:
    """Return the requests of all parts in order of sending."""
    places = [
        (part, position)
        for part in parts
        for position in range(len(part.requests.ok))
    ]
    return sorted(
        places,
        key=lambda place: (
            place[0].first_send_unix_us + place[0].requests.start_us[place[1]]
        ),
    )


def _columns(places: Sequence[_Place], began: int) -> contract.RequestColumns:
    names = contract.RequestColumns.model_fields.keys() - {
        "start_us",
        *contract.MAY_BE_EMPTY,
    }
    columns = {
        name: tuple(
            getattr(part.requests, name)[position] for part, position in places
        )
        for name in names
    } | _reasoning(places)
    starts = tuple(
        part.first_send_unix_us - began + part.requests.start_us[position]
        for part, position in places
    )
    return contract.RequestColumns(start_us=starts, **columns)


def _reasoning(places: Sequence[_Place]) -> dict[str, tuple[int, ...]]:
    """Put the columns on reasoning together; none if no part has them.

    A part without them has answers without reasoning, which begin with the first token.
    """
    parts = {id(part): part.requests for part, _ in places}.values()
    having = [part for part in parts if part.reasoning_us]
    if not having:
        return {}
    requests = [(part.requests, position) for part, position in places]
    found = {
        "reasoning_us": tuple(
            of.reasoning_us[at] if of.reasoning_us else 0 for of, at in requests
        ),
        "answer_us": tuple((of.answer_us or of.ttft_us)[at] for of, at in requests),
    }
    if all(part.reasoning_tokens for part in having):
        found["reasoning_tokens"] = tuple(
            of.reasoning_tokens[at] if of.reasoning_tokens else 0
            for of, at in requests
        )
    return found


def _streams(places: Sequence[_Place]) -> contract.Streams | None:
    parts = {id(part): part for part, _ in places}.values()
    known = [part.streams for part in parts if part.streams is not None]
    if not known:
        return None
    has_chunks = any(streams.first_chunk_us for streams in known)
    return contract.Streams(
        closed=tuple(_closed(part, position) for part, position in places),
        first_chunk_us=tuple(
            _first_chunk_us(part, position) for part, position in places
        )
        if has_chunks
        else (),
        uncounted=sum(streams.uncounted for streams in known),
        reconnected=sum(streams.reconnected for streams in known),
    )


def _cached(
    each: Sequence[contract.CachedTokens | None],
) -> contract.CachedTokens | None:
    """Sum the cached tokens that answers report, over all processes; None if no answer does."""
    known = [cached for cached in each if cached is not None]
    if not known:
        return None
    return contract.CachedTokens(
        answers=sum(cached.answers for cached in known),
        prompt_tokens=sum(cached.prompt_tokens for cached in known),
        cached_tokens=sum(cached.cached_tokens for cached in known),
    )


def _closed(part: contract.StageRecord, position: int) -> Literal[0, 1]:
    return (part.requests.ended if part.streams is None else part.streams.closed)[
        position
    ]


def _first_chunk_us(part: contract.StageRecord, position: int) -> int:
    own = part.streams.first_chunk_us if part.streams is not None else ()
    return (own or part.requests.ttft_us)[position]


def _connections(
    each: Sequence[contract.Connections | None],
) -> contract.Connections | None:
    """Sum the connections of all processes; None if they are not known for a process."""
    known = [connections for connections in each if connections is not None]
    if len(known) < len(each):
        return None
    return contract.Connections(
        opened=sum(connections.opened for connections in known),
        total_us=sum(connections.total_us for connections in known),
        longest_us=max(connections.longest_us for connections in known),
    )


def _answers(
    each: Sequence[contract.AnswerCheck | None],
) -> contract.AnswerCheck | None:
    """Sum what was checked; None if nothing was."""
    known = [answers for answers in each if answers is not None]
    if not known:
        return None
    return contract.AnswerCheck(
        checked=sum(answers.checked for answers in known),
        broken=sum(answers.broken for answers in known),
        where=next((answers.where for answers in known if answers.where), None),
    )


def _client(each: Sequence[contract.ClientFigures]) -> contract.ClientFigures:
    """Combine the client figures of all processes.

    CPU time is summed. For lateness and other hindrances the worst value of any process is taken,
    for nodes the one from which most CPU time was stolen.
    """
    node = max(each, key=lambda figures: figures.stolen_seconds or 0.0)
    worst: dict[str, int | None] = {}
    # Counters, too: processes of one pod read the same ones.
    for name in (
        "throttled_periods",
        "lost_segments",
        "lag_p99_us",
        "lag_thrice_us",
        "lag_max_us",
    ):
        known = [
            value
            for figures in each
            if (value := getattr(figures, name)) is not None
        ]
        worst[name] = max(known, default=None)
    return contract.ClientFigures(
        cpu_seconds=sum(figures.cpu_seconds for figures in each),
        wall_seconds=max(figures.wall_seconds for figures in each),
        processes=sum(figures.processes for figures in each),
        node_cpu_seconds=node.node_cpu_seconds,
        stolen_seconds=node.stolen_seconds,
        **worst,
    )
