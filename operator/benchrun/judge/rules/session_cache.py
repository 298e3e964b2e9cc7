"""Rules on the cache hits of sessions: those of an endless cache, and those that came.

What an endless cache of one server finds is known from the prompts alone. Where answers tell that
less was found, the cause is looked for in what a cache of the servers' size would have kept; where
that is not known, in how many tokens the stage had written, and how many the cache holds.
"""

from collections.abc import Mapping
from typing import NamedTuple

from benchrun.api import ServerStatus
from benchrun.judge.cache_hits import has_several_engines, hits_told, of_answered
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
from benchrun.names import PREFILLING_ROLES

LEAST_EXPECTED_PERCENT = 5.0
"""Least share of the prompt tokens that must be expected: of fewer, the rounding to whole blocks
hides as many."""
MISSING_NOTE_PERCENT = 25.0
"""Share of the expected hits that must be missing for a Note. Hits are of whole blocks, which loses
up to a block of every prompt."""


def hits_missing(stage: StageFacts) -> Found:
    """Find hits that an endless cache would have had and that did not come, and say why.

    Hits that a cache of the servers' size would not have had either were evicted. The others were
    never the same text for the server, or were in another one.
    """
    hits = _hits(stage)
    if hits is None or 100 * hits.endless < LEAST_EXPECTED_PERCENT * hits.prompts:
        return []
    missing = 100 * (1 - min(hits.came / hits.endless, 1.0))
    if missing <= MISSING_NOTE_PERCENT:
        return []
    written = hits.prompts - hits.came + sum(stage.requests.output_tokens)
    cause = (
        _cause_by_size(stage, written=written)
        if hits.kept is None
        else _cause(
            stage, evicted=hits.endless - hits.kept, other=hits.kept - hits.came
        )
    )
    if isinstance(cause, NotChecked):
        return [cause]
    evidence: Evidence = {
        "expectedTokens": hits.endless,
        **({} if hits.kept is None else {"keptTokens": hits.kept}),
        "cachedTokens": hits.came,
        "missingPercent": rounded(missing),
        "writtenTokens": written,
        "cacheTokens": _each_holds(stage),
        "servers": _servers(stage),
        "notePercent": MISSING_NOTE_PERCENT,
    }
    return [StageFinding(cause, "Note", stage.id, evidence, weight=missing)]


class _Hits(NamedTuple):
    """Prompt tokens of a stage, those to be found, and those that were."""

    prompts: int
    endless: int
    kept: int | None  # By a cache of the servers' size; None: not known.
    came: int


def _hits(stage: StageFacts) -> _Hits | None:
    """Return what is known of the hits; None if they were not told, or the cache is off."""
    sessions = stage.record.sessions
    if sessions is None or not _is_on(stage):
        return None
    hits, came = stage.cache_hits, hits_told(stage.record)
    if hits is not None and came is not None:
        prompts, endless = (
            of_answered(tokens, stage.record)
            for tokens in (stage.requests.input_tokens, hits.endless)
        )
        kept = None if hits.kept is None else of_answered(hits.kept, stage.record)
        return _Hits(prompts, endless, kept, came) if endless else None
    prompts, endless, found = (
        sum(getattr(each, name) for each in sessions.cached)
        for name in ("prompt_tokens", "expected_tokens", "cached_tokens")
    )
    return _Hits(prompts, endless, None, found) if endless else None


def _cause(stage: StageFacts, *, evicted: int, other: int) -> Code:
    if evicted >= other:
        return Code.CACHE_TOO_SMALL
    return Code.ROUTED_AWAY if _servers(stage) > 1 else Code.PREFIX_BROKEN


def _cause_by_size(stage: StageFacts, *, written: int) -> Code | NotChecked:
    """Return why hits are missing where it is not known which prompts begin alike.

    An LRU cache forgets nothing of the stage while fewer tokens were written than it holds.
    """
    holds = _each_holds(stage)
    if holds is None:
        why = "how many tokens the server's KV cache holds is not known"
        return NotChecked(Code.CACHE_TOO_SMALL, why)
    if any(map(has_several_engines, _computing(stage))):
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


def _computing(stage: StageFacts) -> list[ServerStatus]:
    return [each for each in stage.servers if each.role in PREFILLING_ROLES]


def _each_holds(stage: StageFacts) -> int | None:
    """Return the tokens that each server's KV cache holds; None if it is not known."""
    held = [server.kv_cache_tokens for server in _computing(stage)]
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
        "{cacheTokens}[, which keeps {keptTokens} of the expected]."
    ),
    Code.ROUTED_AWAY: (
        f"{_FOUND}, although each of {{servers}} servers holds {{cacheTokens}} tokens and "
        "{writtenTokens} were written[, and they keep {keptTokens} of the expected]: turns went to "
        "servers that did not have them."
    ),
    Code.PREFIX_BROKEN: (
        f"{_FOUND}, although the cache holds {{cacheTokens}} tokens and {{writtenTokens}} were "
        "written[, and it keeps {keptTokens} of the expected]: to the server they did not begin "
        "alike."
    ),
}
NEEDS: Mapping[Code, Needs] = dict.fromkeys(
    (Code.CACHE_TOO_SMALL, Code.ROUTED_AWAY, Code.PREFIX_BROKEN),
    needs(
        Input.SERVER_COUNTERS, Input.PLAN, Input.OUTPUT_TOKENS, also=(Input.TIMES,)
    ),
)
