"""Tokens as the client counted them: against the servers' own count, and against the chunks they came in.

Prompt tokens are not compared here: the load engine takes them over from the server's answer, so they agree by
construction. More of them than were asked for is foreign traffic, another rule's matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Explanation, NotChecked, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.edges import GENERATION_TOKENS, answering, rise

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.TOKEN_COUNTS_DISAGREE: Explanation(
        meaning="Client and servers counted different numbers of output tokens: throughput and time per output token are "
        "off by as much.",
        remedy="Less at the server: some server's metrics page is not read, or a proxy answers. More: other traffic, or "
        "broken streams. Without counts in its answers, check that the tokenizer is the model's.",
    ),
    Code.CHUNKS_ARE_NOT_TOKENS: Explanation(
        meaning="The server sends several tokens in one chunk, so the gaps between chunks are not those between tokens: "
        "inter-token latency is left out. Time per output token (TPOT) holds.",
        remedy="Read TPOT instead. To have ITL, leave out speculative decoding, --stream-interval and output parsers, or "
        "unload the server's frontend.",
    ),
}


def token_counts_disagree(record: StageRecord, context: StageContext) -> Found:
    """How far the servers' rise lies outside of what the client's answers explain.

    A failed request may have cost the servers anything between nothing and all it asked for.
    """
    columns = record.requests
    counted = sum(compress(columns.output_tokens, columns.ok))
    if counted == 0:
        return []
    served = rise(answering(record.servers), GENERATION_TOKENS)
    if served is None:
        return [NotChecked(Code.TOKEN_COUNTS_DISAGREE, "a server's generated tokens were not read at both ends")]
    of_failed = sum(compress(columns.asked_tokens, [not ok for ok in columns.ok]))
    percent = 100 * max(counted - served, served - counted - of_failed, 0) / counted
    line = context.thresholds.token_difference_suspect_percent
    if percent <= line:
        return []
    evidence = {
        "clientTokens": counted,
        "serverTokens": served,
        "failedRequestsTokens": of_failed,
        "differencePercent": rounded(percent),
        "suspectPercent": line,
    }
    return [StageFinding(Code.TOKEN_COUNTS_DISAGREE, "Suspect", record.stage_id, evidence, weight=percent)]


def chunks_are_not_tokens(record: StageRecord, context: StageContext) -> Found:
    """Chunks (the first of each answer, and one after each gap) for each output token."""
    tokens = sum(compress(record.requests.output_tokens, record.requests.ok))
    if tokens == 0 or context.asked.offline:
        return []
    chunks = sum(record.gaps.count) + sum(record.requests.ok)
    line = context.thresholds.chunks_a_token_note
    if chunks / tokens >= line:
        return []
    evidence = {
        "chunks": chunks,
        "outputTokens": tokens,
        "chunksPerToken": rounded(chunks / tokens),
        "noteBelow": line,
    }
    return [StageFinding(Code.CHUNKS_ARE_NOT_TOKENS, "Note", record.stage_id, evidence, weight=1 - chunks / tokens)]
