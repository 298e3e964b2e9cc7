"""Requests that failed or were rejected, answers that ended early, and tokens that client and servers count differently."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress

from benchrun.api import Severity
from benchrun.judge.rules.rule import Code, Evidence, Explanation, Found, NotChecked, Rules, StageFinding, StageProfile
from benchrun.measure.cells import failed_requests, rounded
from benchrun.measure.counters import ADMISSION_REJECTIONS, GENERATION_TOKENS, answering, of_vllm, rise

MAX_ERROR_CHARS = 300


def requests_failed(stage: StageProfile) -> Found:
    """All failed, or more than the threshold."""
    requests, failed = len(stage.requests.ok), failed_requests(stage.record)
    if failed == requests:
        evidence = {"requests": requests, "failed": failed, **_first_error(stage)}
        return [StageFinding(Code.ALL_REQUESTS_FAILED, "Invalid", stage.id, evidence, weight=requests)]
    percent, limit = 100 * failed / requests, stage.thresholds.max_failed_percent
    if percent <= limit:
        return []
    evidence = {
        "requests": requests,
        "failed": failed,
        "failedPercent": rounded(percent),
        "maxFailedPercent": limit,
        **_first_error(stage),
    }
    return [StageFinding(Code.REQUESTS_FAILED, "Invalid", stage.id, evidence, weight=percent)]


def no_output(stage: StageProfile) -> Found:
    """Answers there were, tokens there were none."""
    answered = sum(stage.requests.ok)
    if answered == 0 or any(compress(stage.requests.output_tokens, stage.requests.ok)):
        return []
    evidence = {"answered": answered, "outputTokens": 0}
    return [StageFinding(Code.NO_OUTPUT, "Invalid", stage.id, evidence, weight=answered)]


def _first_error(stage: StageProfile) -> Evidence:
    """The server's own answer where the client asked for it, else the most frequent error."""
    if stage.record.diagnostic:
        return {"error": stage.record.diagnostic[:MAX_ERROR_CHARS]}
    if not stage.record.errors:
        return {}
    return {"error": max(stage.record.errors, key=lambda text: stage.record.errors[text])[:MAX_ERROR_CHARS]}


TOO_MANY_REQUESTS = frozenset({"too many requests"})
SERVICE_UNAVAILABLE = frozenset({"service unavailable", "service temporarily unavailable"})
"""The load engine keeps of a status only its reason phrase; the second is what nginx says."""


def requests_rejected(stage: StageProfile) -> Found:
    """Answers 429 and 503 by their words, or the servers' own count. A server without that count has no such limit."""
    too_many, unavailable = _times(stage, TOO_MANY_REQUESTS), _times(stage, SERVICE_UNAVAILABLE)
    counted = rise(of_vllm(stage.edges), ADMISSION_REJECTIONS)
    rejected = max(too_many + unavailable, counted or 0)
    if rejected == 0:
        return []
    requests = len(stage.requests.ok)
    percent = 100 * rejected / requests
    evidence = {
        "requests": requests,
        "tooManyRequests": too_many,
        "serviceUnavailable": unavailable,
        "rejectedByServers": counted,
        "rejectedPercent": rounded(percent),
    }
    return [StageFinding(Code.REQUESTS_REJECTED, "Suspect", stage.id, evidence, weight=percent)]


def _times(stage: StageProfile, phrases: frozenset[str]) -> int:
    return sum(count for text, count in stage.record.errors.items() if text.strip().lower() in phrases)


# The load engine counts both as successes. It asks every server for its count of tokens after the last one (`usage`); where
# that never came the stream has no proven end, and the engine's count is its own guess from the text.


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

    def evidence(self, stage: StageProfile) -> Evidence:
        return {
            "askedTokens": rounded(self.asked_tokens / self.count),
            "meanOutputTokens": rounded(self.output_tokens / self.count),
            "percent": rounded(self.percent),
            "ignoreEOS": "true" if stage.expected.ignore_eos else "false",
        }


def output_too_short(stage: StageProfile) -> Found:
    """The mean output of the answered requests, against the mean of what they asked for."""
    answers, thresholds = _answers(stage), stage.thresholds
    if answers.count == 0 or answers.percent >= thresholds.output_suspect_percent:
        return []
    severity: Severity = "Invalid" if answers.percent < thresholds.output_invalid_percent else "Suspect"
    if answers.are_guesses and severity == "Suspect":
        # Text that is tokenised again comes out some percent shorter: only a large lack is certain.
        return [NotChecked(Code.OUTPUT_TOO_SHORT, _NO_COUNTS)]
    evidence = {
        **answers.evidence(stage),
        "suspectPercent": thresholds.output_suspect_percent,
        "invalidPercent": thresholds.output_invalid_percent,
    }
    weight = 100 - answers.percent
    return [StageFinding(Code.OUTPUT_TOO_SHORT, severity, stage.id, evidence, weight=weight)]


def stream_truncated(stage: StageProfile) -> Found:
    """Answers without an end. Where none has one, the server is a silent one, unless its answers are too short as well."""
    answers, thresholds = _answers(stage), stage.thresholds
    if answers.count == 0:
        return []
    too_short = stage.expected.ignore_eos and answers.percent < thresholds.output_invalid_percent
    if answers.are_guesses and not too_short:
        return [NotChecked(Code.STREAM_TRUNCATED, _NO_COUNTS)]
    percent = 100 * answers.unended / answers.count
    if percent <= thresholds.truncated_invalid_percent:
        return []
    evidence = {
        "answered": answers.count,
        "truncated": answers.unended,
        "truncatedPercent": rounded(percent),
        "invalidPercent": thresholds.truncated_invalid_percent,
        **answers.evidence(stage),
    }
    return [StageFinding(Code.STREAM_TRUNCATED, "Invalid", stage.id, evidence, weight=percent)]


def _answers(stage: StageProfile) -> _Answers:
    columns = stage.requests
    count = sum(columns.ok)
    return _Answers(
        count=count,
        asked_tokens=sum(compress(columns.asked_tokens, columns.ok)),
        output_tokens=sum(compress(columns.output_tokens, columns.ok)),
        unended=count - sum(compress(columns.ended, columns.ok)),
    )


# Prompt tokens are not compared here: the load engine takes them over from the server's answer, so they agree by
# construction. More of them than were asked for is foreign traffic, another rule's matter.


def token_counts_disagree(stage: StageProfile) -> Found:
    """How far the servers' rise lies outside of what the client's answers explain.

    A failed request may have cost the servers anything between nothing and all it asked for.
    """
    columns = stage.requests
    counted = sum(compress(columns.output_tokens, columns.ok))
    if counted == 0:
        return []
    served = rise(answering(stage.edges), GENERATION_TOKENS)
    if served is None:
        return [NotChecked(Code.TOKEN_COUNTS_DISAGREE, "a server's generated tokens were not read at both ends")]
    of_failed = sum(compress(columns.asked_tokens, [not ok for ok in columns.ok]))
    percent = 100 * max(counted - served, served - counted - of_failed, 0) / counted
    threshold = stage.thresholds.token_difference_suspect_percent
    if percent <= threshold:
        return []
    evidence = {
        "clientTokens": counted,
        "serverTokens": served,
        "failedRequestsTokens": of_failed,
        "differencePercent": rounded(percent),
        "suspectPercent": threshold,
    }
    return [StageFinding(Code.TOKEN_COUNTS_DISAGREE, "Suspect", stage.id, evidence, weight=percent)]


def chunks_are_not_tokens(stage: StageProfile) -> Found:
    """Chunks (the first of each answer, and one after each gap) for each output token."""
    tokens = sum(compress(stage.requests.output_tokens, stage.requests.ok))
    if tokens == 0 or stage.expected.offline:
        return []
    chunks = sum(stage.record.gaps.count) + sum(stage.requests.ok)
    threshold = stage.thresholds.chunks_a_token_note
    if chunks / tokens >= threshold:
        return []
    evidence = {
        "chunks": chunks,
        "outputTokens": tokens,
        "chunksPerToken": rounded(chunks / tokens),
        "noteBelow": threshold,
    }
    return [StageFinding(Code.CHUNKS_ARE_NOT_TOKENS, "Note", stage.id, evidence, weight=1 - chunks / tokens)]


RULES = Rules(
    of_stages={
        10: requests_failed,
        20: no_output,
        120: requests_rejected,
        100: output_too_short,
        110: stream_truncated,
        150: token_counts_disagree,
        160: chunks_are_not_tokens,
    },
    explanations={
        Code.ALL_REQUESTS_FAILED: Explanation(
            meaning="No request of the stage was answered; it has no latencies.",
            remedy="Read the error in the evidence: a wrong model name, an endpoint without this API, or a prompt longer than "
            "the model takes are the usual causes.",
            sentence="All {requests} requests failed.[ Error: {error}]",
        ),
        Code.REQUESTS_FAILED: Explanation(
            meaning="More requests failed than validity.maxFailedPercent allows. Failed requests are missing from every latency, "
            "so the figures describe only those that got through.",
            remedy="Lower the load, or remove the cause that the evidence names. Raise validity.maxFailedPercent only if failures "
            "are what you measure.",
            sentence="{failed} of {requests} requests failed ({failedPercent} %, threshold {maxFailedPercent} %).[ "
            "Error: {error}]",
        ),
        Code.NO_OUTPUT: Explanation(
            meaning="Requests were answered, but without a single token: latencies and throughput say nothing.",
            remedy="Ask the server by hand: a model that ends at once needs ignoreEOS, a proxy may drop the stream.",
            sentence="{answered} requests were answered, with {outputTokens} output tokens in all.",
        ),
        Code.REQUESTS_REJECTED: Explanation(
            meaning="The server or a gateway turned requests away. Those that were let in met less load than the load point "
            "names, so their latencies are too good for it.",
            remedy="Lower the load, or raise the limit that rejects: the server's max-num-queued-reqs and "
            "max-num-queued-tokens, or a gateway's rate limit.",
            sentence="{rejectedPercent} % of {requests} requests were rejected: {tooManyRequests} with 429, "
            "{serviceUnavailable} with 503[; the servers counted {rejectedByServers}].",
        ),
        Code.OUTPUT_TOO_SHORT: Explanation(
            meaning="Answers were shorter than asked for: less work was measured than the load point names. End-to-end latency "
            "is too low, and throughput is that of another workload.",
            remedy="Leave ignoreEOS at true, or ask for no more tokens than the model gives by itself. With ignoreEOS the "
            "context or a limit of the server cuts answers: see its max-model-len.",
            sentence="Answers have {meanOutputTokens} of {askedTokens} expected tokens on average ({percent} %; "
            "threshold {suspectPercent} %, Invalid below {invalidPercent} %).",
        ),
        Code.STREAM_TRUNCATED: Explanation(
            meaning="Streams broke off before their last token and still count as answered: their latencies are those of "
            "unfinished answers.",
            remedy="See the server's log for errors during the stage, and the time limits of every proxy on the way.",
            sentence="{truncated} of {answered} answers broke off ({truncatedPercent} %, threshold {invalidPercent} "
            "%).",
        ),
        Code.TOKEN_COUNTS_DISAGREE: Explanation(
            meaning="Client and servers counted different numbers of output tokens: throughput and time per output token are "
            "off by as much.",
            remedy="Less at the server: some server's metrics page is not read, or a proxy answers. More: other traffic, or "
            "broken streams. Without counts in its answers, check that the tokenizer is the model's.",
            sentence="The client counted {clientTokens} output tokens and the servers {serverTokens}: "
            "{differencePercent} % apart (threshold {suspectPercent} %).",
        ),
        Code.CHUNKS_ARE_NOT_TOKENS: Explanation(
            meaning="The server sends several tokens in one chunk, so the gaps between chunks are not those between tokens: "
            "inter-token latency is left out. Time per output token (TPOT) holds.",
            remedy="Read TPOT instead. To have ITL, leave out speculative decoding, --stream-interval and output parsers, or "
            "unload the server's frontend.",
            sentence="{outputTokens} output tokens came in {chunks} chunks: {chunksPerToken} chunks a token "
            "(threshold {noteBelow}).",
        ),
    },
)
