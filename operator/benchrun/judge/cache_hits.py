"""The hits to expect of a stage of sessions: of an endless cache, and of the servers' own."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress

from benchrun_client.contract import ServerEdge, StageRecord
from benchrun_client.engines import ENGINES, EngineSetting

from benchrun.api import ServerStatus
from benchrun.measure import counters
from benchrun.measure.finite_cache import CacheSize, hits_of_cache
from benchrun.measure.server_pressure import server_limits
from benchrun.names import PREFILLING_ROLES


@dataclass(frozen=True, slots=True)
class CacheHits:
    """Prompt tokens of each request, in order of sending, that a cache finds."""

    endless: Sequence[int]
    kept: Sequence[int] | None
    """Those that a cache of the servers' size keeps until then; None if the size is not known."""


def cache_hits(
    record: StageRecord, servers: Sequence[ServerStatus]
) -> CacheHits | None:
    """Return the hits to expect; None for a stage without sessions, or if blocks are not known."""
    if record.sessions is None or record.sessions.prompts is None:
        return None
    computing = [each for each in servers if each.role in PREFILLING_ROLES]
    block_tokens = max(map(_block_tokens, computing), default=None)
    if block_tokens is None:
        return None
    hits = partial(
        hits_of_cache,
        record.requests,
        record.sessions.prompts,
        shared_prefix_tokens=record.shared_prefix_tokens,
    )
    blocks = blocks_held(servers, record.servers)
    return CacheHits(
        hits(CacheSize(None, block_tokens)),
        None
        if blocks is None
        else hits(
            CacheSize(blocks, block_tokens, _most_running(computing, record))
        ),
    )


def blocks_held(
    servers: Sequence[ServerStatus], edges: Sequence[ServerEdge]
) -> int | None:
    """Return how many blocks all servers' caches hold together; None if it is not known.

    Together they hold as much as one of that size only if each turn goes where the one before went.
    """
    computing = [each for each in servers if each.role in PREFILLING_ROLES]
    if not computing or any(
        each.kv_cache_tokens is None
        or not ENGINES[each.engine].evicts_blocks
        or has_several_engines(each)
        for each in computing
    ):
        return None
    each_holds = min(
        (each.kv_cache_tokens or 0) // _block_tokens(each) for each in computing
    )
    # vLLM keeps one block for nothing.
    return max(each_holds - 1, 1) * max(len(counters.prefilling(edges)), 1)


def has_several_engines(server: ServerStatus) -> bool:
    """Return whether the requests to one server are divided between several caches."""
    engine = ENGINES[server.engine]
    return server_limits(server.args, engine, server.reported).engines > 1


def hits_told(record: StageRecord) -> int | None:
    """Return the prompt tokens that servers found of a stage of sessions; None if not known.

    Answers tell it, if all of them do, else the servers' counters.
    """
    if record.sessions is None:
        return None
    cached = record.sessions.cached
    if cached and sum(each.answers for each in cached) == sum(record.requests.ok):
        return sum(each.cached_tokens for each in cached)
    lookups = counters.prefix_lookups(counters.prefilling(record.servers))
    return None if lookups is None or not lookups[0] else round(lookups[1])


def of_answered(tokens: Sequence[int], record: StageRecord) -> int:
    """Return the sum over the requests that were answered."""
    return sum(compress(tokens, record.requests.ok))


def _block_tokens(server: ServerStatus) -> int:
    engine = ENGINES[server.engine]
    said = engine.reported(EngineSetting.BLOCK_TOKENS, server.reported)
    limits = server_limits(server.args, engine, server.reported)
    known = int(said) if said and said.isdecimal() and len(said) < 8 else None
    return known or limits.block_tokens or engine.default_block_tokens


def _most_running(
    servers: Sequence[ServerStatus], record: StageRecord
) -> int | None:
    """Return the most requests that all servers run at once; None if it is not known."""
    limits = [
        server_limits(each.args, ENGINES[each.engine], each.reported).sequences
        for each in servers
    ]
    known = [most for most in limits if most is not None]
    if len(known) < len(limits):
        return None
    return min(known) * max(len(counters.prefilling(record.servers)), 1)
