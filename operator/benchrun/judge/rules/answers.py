"""Answers that ended early, and tokens whose count differs between client and server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress

from benchrun_client.contract import StageRecord

from benchrun.api import Severity
from benchrun.judge.rules.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules.rule import Found, StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.edges import GENERATION_TOKENS, answering, rise

# ---- output short -----------------------------------------------------------------------------------------------------
# Answers that ended before they should: by the model's own choice, or because the stream broke off.
#
# The load engine counts both as successes. It asks every server for its count of tokens after the last one (`usage`); where
# that never came the stream has no proven end, and the engine's count is its own guess from the text.

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.OUTPUT_TOO_SHORT: Explanation(
        meaning="Answers were shorter than asked for: less work was measured than the load point names. End-to-end latency "
        "is too low, and throughput is that of another workload.",
        remedy="Leave ignoreEOS at true, or ask for no more tokens than the model gives by itself. With ignoreEOS the "
        "context or a limit of the server cuts answers: see its max-model-len.",
    ),
    Code.STREAM_TRUNCATED: Explanation(
        meaning="Streams broke off before their last token and still count as answered: their latencies are those of "
        "unfinished answers.",
        remedy="See the server's log for errors during the stage, and the time limits of every proxy on the way.",
    ),
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


_NO_COUNTS = "the server tells no token counts, which is what ends a stream"


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the answered requests of a stage asked for and brought."""

    count: int
    asked_tokens: int
    output_tokens: int
    unended: int
    """Without the server's closing count."""

    @property
    def percent(self) -> float:
        """Output of what was asked for; nothing asked for is all delivered."""
        return 100 * self.output_tokens / self.asked_tokens if self.asked_tokens else 100.0

    @property
    def are_guesses(self) -> bool:
        """Not one count is the server's."""
        return self.unended == self.count

    def evidence(self, context: StageContext) -> Evidence:
        return {
            "askedTokens": rounded(self.asked_tokens / self.count),
            "meanOutputTokens": rounded(self.output_tokens / self.count),
            "percent": rounded(self.percent),
            "ignoreEOS": "true" if context.asked.ignore_eos else "false",
        }


def output_too_short(record: StageRecord, context: StageContext) -> Found:
    """The mean output of the answered requests, against the mean of what they asked for."""
    answers, lines = _answers(record), context.thresholds
    if answers.count == 0 or answers.percent >= lines.output_suspect_percent:
        return []
    severity: Severity = "Invalid" if answers.percent < lines.output_invalid_percent else "Suspect"
    if answers.are_guesses and severity == "Suspect":
        # Text that is tokenised again comes out some percent shorter: only a large lack is certain.
        return [NotChecked(Code.OUTPUT_TOO_SHORT, _NO_COUNTS)]
    evidence = {
        **answers.evidence(context),
        "suspectPercent": lines.output_suspect_percent,
        "invalidPercent": lines.output_invalid_percent,
    }
    weight = 100 - answers.percent
    return [StageFinding(Code.OUTPUT_TOO_SHORT, severity, record.stage_id, evidence, weight=weight)]


def stream_truncated(record: StageRecord, context: StageContext) -> Found:
    """Answers without an end. Where none has one, the server is a silent one, unless its answers are too short as well."""
    answers, lines = _answers(record), context.thresholds
    if answers.count == 0:
        return []
    too_short = context.asked.ignore_eos and answers.percent < lines.output_invalid_percent
    if answers.are_guesses and not too_short:
        return [NotChecked(Code.STREAM_TRUNCATED, _NO_COUNTS)]
    percent = 100 * answers.unended / answers.count
    if percent <= lines.truncated_invalid_percent:
        return []
    evidence = {
        "answered": answers.count,
        "truncated": answers.unended,
        "truncatedPercent": rounded(percent),
        "invalidPercent": lines.truncated_invalid_percent,
        **answers.evidence(context),
    }
    return [StageFinding(Code.STREAM_TRUNCATED, "Invalid", record.stage_id, evidence, weight=percent)]


def _answers(record: StageRecord) -> _Answers:
    columns = record.requests
    count = sum(columns.ok)
    return _Answers(
        count=count,
        asked_tokens=sum(compress(columns.asked_tokens, columns.ok)),
        output_tokens=sum(compress(columns.output_tokens, columns.ok)),
        unended=count - sum(compress(columns.ended, columns.ok)),
    )


# ---- token counts -----------------------------------------------------------------------------------------------------
# Tokens as the client counted them: against the servers' own count, and against the chunks they came in.
#
# Prompt tokens are not compared here: the load engine takes them over from the server's answer, so they agree by
# construction. More of them than were asked for is foreign traffic, another rule's matter.


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
