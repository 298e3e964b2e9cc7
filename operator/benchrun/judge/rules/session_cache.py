"""Rules on the cache hits of sessions: those of an endless cache, and those that came.

What an endless cache of one server finds is known from the prompts alone. Where answers tell that
less was found, the cause is looked for in what is known: how many tokens the stage had written, how
many the server's cache holds, and how many servers there are.
"""

from collections.abc import Mapping

from benchrun_client.engines import ENGINES

from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    NotChecked,
    Sentence,
    StageFacts,
    StageFinding,
    StageRule,
)
from benchrun.measure import counters, rounded
from benchrun.measure.server_pressure import server_limits
from benchrun.names import PREFILLING_ROLES

LEAST_EXPECTED_PERCENT = 5.0
"""Least share of the prompt tokens that must be expected: of fewer, the rounding to whole blocks
hides as many."""
MISSING_NOTE_PERCENT = 25.0
"""Share of the expected hits that must be missing for a Note. Hits are of whole blocks, which loses
up to a block of every prompt."""


def hits_missing(stage: StageFacts) -> Found:
    """Find hits that an endless cache would have had and that did not come, and say why.

    An LRU cache forgets nothing of the stage while fewer tokens were written than it holds; what is
    missing then was never the same text for the server, or was in another one.
    """
    sessions = stage.record.sessions
    if sessions is None or not sessions.cached or not _is_on(stage):
        return []
    prompts = sum(each.prompt_tokens for each in sessions.cached)
    expected = sum(each.expected_tokens for each in sessions.cached)
    came = sum(each.cached_tokens for each in sessions.cached)
    if not expected or 100 * expected < LEAST_EXPECTED_PERCENT * prompts:
        return []
    missing = 100 * (1 - min(came / expected, 1.0))
    if missing <= MISSING_NOTE_PERCENT:
        return []
    written = prompts - came + sum(stage.requests.output_tokens)
    cause = _cause(stage, written=written)
    if isinstance(cause, NotChecked):
        return [cause]
    evidence: Evidence = {
        "expectedTokens": expected,
        "cachedTokens": came,
        "missingPercent": rounded(missing),
        "writtenTokens": written,
        "cacheTokens": _each_holds(stage),
        "servers": _servers(stage),
        "notePercent": MISSING_NOTE_PERCENT,
    }
    return [StageFinding(cause, "Note", stage.id, evidence, weight=missing)]


def _cause(stage: StageFacts, *, written: int) -> Code | NotChecked:
    holds = _each_holds(stage)
    if holds is None:
        why = "how many tokens the server's KV cache holds is not known"
        return NotChecked(Code.CACHE_TOO_SMALL, why)
    if _has_several_engines(stage):
        why = "each of a server's data-parallel engines has a cache of its own"
        return NotChecked(Code.CACHE_TOO_SMALL, why)
    several = _servers(stage) > 1
    if written > holds:
        if several:
            why = (
                "the stage had more tokens than a server holds, and several servers"
            )
            return NotChecked(Code.CACHE_TOO_SMALL, why)
        return Code.CACHE_TOO_SMALL
    return Code.ROUTED_AWAY if several else Code.PREFIX_BROKEN


def _is_on(stage: StageFacts) -> bool:
    """Return whether the prefix cache is on: servers look up tokens only then."""
    lookups = counters.prefix_lookups(counters.prefilling(stage.edges))
    return lookups is not None and lookups[0] > 0


def _servers(stage: StageFacts) -> int:
    return len(counters.prefilling(stage.edges))


def _has_several_engines(stage: StageFacts) -> bool:
    """Return whether the requests to one server are divided between several caches."""
    return any(
        server_limits(server.args, ENGINES[server.engine], server.reported).engines
        > 1
        for server in stage.servers
        if server.role in PREFILLING_ROLES
    )


def _each_holds(stage: StageFacts) -> int | None:
    """Return the tokens that each server's KV cache holds; None if it is not known."""
    held = [
        server.kv_cache_tokens
        for server in stage.servers
        if server.role in PREFILLING_ROLES
    ]
    known = [tokens for tokens in held if tokens is not None]
    return min(known) if known and len(known) == len(held) else None


STAGE_RULES: tuple[StageRule, ...] = (hits_missing,)
_FOUND = (
    "Of {expectedTokens} prompt tokens that earlier prompts of the stage begin with, "
    "{missingPercent} % were not found in the prefix cache (threshold {notePercent} %)"
)
SENTENCES: Mapping[Code, Sentence] = {
    Code.CACHE_TOO_SMALL: (
        f"{_FOUND}: the stage had {{writtenTokens}} tokens written, and the cache holds "
        "{cacheTokens}."
    ),
    Code.ROUTED_AWAY: (
        f"{_FOUND}, although each of {{servers}} servers holds {{cacheTokens}} tokens and "
        "{writtenTokens} were written: turns went to servers that did not have them."
    ),
    Code.PREFIX_BROKEN: (
        f"{_FOUND}, although the cache holds {{cacheTokens}} tokens and {{writtenTokens}} were "
        "written: to the server they did not begin alike."
    ),
}
NEEDS: Mapping[Code, Needs] = dict.fromkeys(
    (Code.CACHE_TOO_SMALL, Code.ROUTED_AWAY, Code.PREFIX_BROKEN),
    needs(Input.SERVER_COUNTERS, Input.PLAN, Input.OUTPUT_TOKENS),
)
