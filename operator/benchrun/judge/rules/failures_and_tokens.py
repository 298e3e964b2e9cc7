"""Failed or rejected requests, answers that ended early, and token counts that disagree.

Token counts are compared between client and servers.
"""

from collections.abc import Mapping
from itertools import compress
from typing import NamedTuple

from benchrun.api import Severity
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
from benchrun.measure import counters, failed_requests, rounded

MAX_ERROR_CHARS = 300


def requests_failed(stage: StageFacts) -> Found:
    """Find stages in which all requests failed, or more than the threshold allows."""
    requests = len(stage.requests.ok)
    failed = failed_requests(stage.record)
    errors = stage.record.errors
    # The server's own answer where the client kept it, else the most frequent error.
    error = stage.record.diagnostic or max(
        errors, key=errors.__getitem__, default=""
    )
    counts: Evidence = {"requests": requests, "failed": failed}
    text: Evidence = {"error": error[:MAX_ERROR_CHARS]} if error or errors else {}
    if failed == requests:
        return [
            StageFinding(
                Code.ALL_REQUESTS_FAILED,
                "Invalid",
                stage.id,
                {**counts, **text},
                weight=requests,
            )
        ]
    percent = 100 * failed / requests
    limit = stage.thresholds.max_failed_percent
    if percent <= limit:
        return []
    evidence: Evidence = {
        **counts,
        "failedPercent": rounded(percent),
        "maxFailedPercent": limit,
        **text,
    }
    return [
        StageFinding(
            Code.REQUESTS_FAILED, "Invalid", stage.id, evidence, weight=percent
        )
    ]


def no_output(stage: StageFacts) -> Found:
    """Find a stage whose answers have no tokens at all."""
    answered = sum(stage.requests.ok)
    has_output = any(compress(stage.requests.output_tokens, stage.requests.ok))
    if answered == 0 or has_output or stage.has_whole_answers:
        return []
    if not stage.counts_tokens:
        return [NotChecked(Code.NO_OUTPUT, _NO_COUNTS)]
    evidence = {"answered": answered, "outputTokens": 0}
    return [
        StageFinding(Code.NO_OUTPUT, "Invalid", stage.id, evidence, weight=answered)
    ]


# The load engine keeps only the reason phrase of a status; the last is nginx's.
TOO_MANY_REQUESTS = frozenset({"too many requests"})
SERVICE_UNAVAILABLE = frozenset(
    {"service unavailable", "service temporarily unavailable"}
)


def requests_rejected(stage: StageFacts) -> Found:
    """Find requests that the servers rejected with 429 or 503.

    A rejected request is recognised by the reason phrase of its answer, or by the servers' own
    count of rejections. If the servers have no such count, only the answers are used.
    """
    too_many, unavailable = (
        sum(
            count
            for text, count in stage.record.errors.items()
            if text.strip().lower() in phrases
        )
        for phrases in (TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE)
    )
    counted = counters.rise(
        counters.of_engine(stage.edges), counters.ADMISSION_REJECTIONS
    )
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
    return [
        StageFinding(
            Code.REQUESTS_REJECTED, "Suspect", stage.id, evidence, weight=percent
        )
    ]


# The load engine counts truncated answers as successes. It asks every server for its count of
# tokens after the last one (`usage`). Where that never came, the stream was closed by [DONE] or a
# reason why the answer ended, or it broke off.

_NO_COUNTS = "the server does not end its streams with token counts"


class _Answers(NamedTuple):
    """Expected and received tokens of a stage's answered requests."""

    answered: int
    # Answers for which the server sent no end.
    unended: int
    percent: float  # Received tokens in percent of the expected ones; 100 where none were expected.
    evidence: Evidence


def output_too_short(stage: StageFacts) -> Found:
    """Find answers that are too short on average, or that ended early against the spec.

    The mean number of output tokens of the answered requests is compared with the expected mean.
    """
    answers = _answers(stage)
    thresholds = stage.thresholds
    stopped = (
        counters.finished(counters.answering(stage.edges), "stop", "repetition")
        or 0.0
    )
    stopped_percent = (
        100 * stopped / max(1, answers.answered)
        if stage.expected.ignore_eos
        else 0.0
    )
    is_short = answers.percent < thresholds.output_suspect_percent
    if answers.answered == 0 or not (
        is_short or stopped_percent > thresholds.stopped_suspect_percent
    ):
        return []
    severity: Severity = (
        "Invalid"
        if answers.percent < thresholds.output_invalid_percent
        else "Suspect"
    )
    if not stage.counts_tokens:
        return [NotChecked(Code.OUTPUT_TOO_SHORT, _NO_COUNTS)]
    evidence = {
        **answers.evidence,
        "suspectPercent": thresholds.output_suspect_percent,
        "invalidPercent": thresholds.output_invalid_percent,
    }
    if stopped_percent:
        limit = thresholds.stopped_suspect_percent
        evidence |= {
            "stoppedPercent": rounded(stopped_percent),
            "suspectStoppedPercent": limit,
        }
    weight = max(100 - answers.percent, 0.0)
    return [
        StageFinding(
            Code.OUTPUT_TOO_SHORT, severity, stage.id, evidence, weight=weight
        )
    ]


def stream_truncated(stage: StageFacts) -> Found:
    """Find answers whose stream broke off.

    Such a stream had neither the server's token count at its end, nor anything else that ends a
    stream.
    """
    answers = _answers(stage)
    thresholds = stage.thresholds
    if answers.answered == 0:
        return []
    if stage.record.streams is None and answers.unended == answers.answered:
        return [
            NotChecked(
                Code.STREAM_TRUNCATED,
                "the client is too old to note how streams ended (update its image)",
            )
        ]
    percent = 100 * answers.unended / answers.answered
    if percent <= thresholds.truncated_invalid_percent:
        return []
    evidence = {
        "answered": answers.answered,
        "truncated": answers.unended,
        "truncatedPercent": rounded(percent),
        "invalidPercent": thresholds.truncated_invalid_percent,
        **answers.evidence,
    }
    return [
        StageFinding(
            Code.STREAM_TRUNCATED, "Invalid", stage.id, evidence, weight=percent
        )
    ]


def _answers(stage: StageFacts) -> _Answers:
    columns = stage.requests
    count = sum(columns.ok)
    expected, received = (
        sum(compress(c, columns.ok))
        for c in (columns.asked_tokens, columns.output_tokens)
    )
    percent = 100 * received / expected if expected else 100.0
    evidence: Evidence = {
        "askedTokens": rounded(expected / count) if count else None,
        "meanOutputTokens": rounded(received / count) if count else None,
        "percent": rounded(percent),
        "ignoreEOS": "true" if stage.expected.ignore_eos else "false",
    }
    closed = (
        columns.ended
        if stage.record.streams is None
        else stage.record.streams.closed
    )
    unended = sum(
        ok and not (a or b)
        for ok, a, b in zip(columns.ok, columns.ended, closed, strict=True)
    )
    return _Answers(count, unended, percent, evidence)


# Prompt tokens are not compared here: the load engine takes them over from the server's answer, so
# they agree by construction. More of them than were sent is foreign traffic, another rule's matter.


def token_counts_disagree(stage: StageFacts) -> Found:
    """Find servers whose count of output tokens differs from the client's.

    For a request that failed or was sent again, the servers may have counted anything from none to
    all of its tokens. A difference that this explains is ignored.
    """
    columns = stage.requests
    counted = sum(compress(columns.output_tokens, columns.ok))
    if not stage.counts_tokens:
        return [NotChecked(Code.TOKEN_COUNTS_DISAGREE, _NO_COUNTS)]
    if counted == 0:
        return []
    served = counters.rise(
        counters.answering(stage.edges), counters.GENERATION_TOKENS
    )
    if served is None:
        return [
            NotChecked(
                Code.TOKEN_COUNTS_DISAGREE,
                "a server's generated tokens were not read before and after the stage",
            )
        ]
    of_failed = sum(compress(columns.asked_tokens, [not ok for ok in columns.ok]))
    of_failed += stage.sent_again * max(columns.asked_tokens, default=0)
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
    return [
        StageFinding(
            Code.TOKEN_COUNTS_DISAGREE,
            "Suspect",
            stage.id,
            evidence,
            weight=percent,
        )
    ]


def chunks_are_not_tokens(stage: StageFacts) -> Found:
    """Find streams with fewer chunks than output tokens.

    Each answer has one chunk, plus one for every gap between tokens.
    """
    tokens = sum(compress(stage.requests.output_tokens, stage.requests.ok))
    if stage.expected.offline:
        return []
    if not stage.counts_tokens:
        return [NotChecked(Code.CHUNKS_ARE_NOT_TOKENS, _NO_COUNTS)]
    if tokens == 0:
        return []
    chunks = sum(stage.record.gaps.count) + sum(stage.requests.ok)
    each = chunks / tokens
    limit = stage.thresholds.chunks_a_token_note
    if each >= limit:
        return []
    evidence = {
        "chunks": chunks,
        "outputTokens": tokens,
        "chunksPerToken": rounded(each),
        "noteBelow": limit,
    }
    return [
        StageFinding(
            Code.CHUNKS_ARE_NOT_TOKENS, "Note", stage.id, evidence, weight=1 - each
        )
    ]


def requests_aborted(stage: StageFacts) -> Found:
    """Find more requests that the servers aborted or failed than the client knows of.

    The client knows of requests that failed, and of requests that broke off and were sent again.
    """
    if stage.expected.offline or not stage.answered:
        return []
    broken = counters.finished(counters.answering(stage.edges), "abort", "error")
    if broken is None:
        return [
            NotChecked(
                Code.REQUESTS_ABORTED,
                "no server reports why requests finished",
            )
        ]
    requests = len(stage.requests.ok)
    failed = failed_requests(stage.record)
    known = (failed + stage.sent_again) * stage.expected.texts
    percent = 100 * (broken - known) / requests
    threshold = stage.thresholds.aborted_suspect_percent
    if percent <= 0:
        return []
    severity: Severity = "Suspect" if percent > threshold else "Note"
    evidence: Evidence = {
        "aborted": broken,
        "failed": failed,
        "requests": requests,
        "percent": rounded(percent),
        "suspectPercent": threshold,
    }
    return [
        StageFinding(
            Code.REQUESTS_ABORTED, severity, stage.id, evidence, weight=percent
        )
    ]


def prompt_tokens_disagree(stage: StageFacts) -> Found:
    """Find prompts whose tokens the servers and the client count differently.

    The counts differ by a whole number per prompt, or by much on average. A whole number means that
    one side adds a special token or a chat template and the other does not (a second
    begin-of-sequence token gives 1). A different tokenizer gives a mean difference that is not a
    whole number.
    """
    columns = stage.requests
    expected = stage.record.expected_input_tokens
    counted = [i for i in stage.answered if columns.ended[i]]
    if stage.expected.offline or not counted:
        return []
    if expected is None:
        return [
            NotChecked(
                Code.PROMPT_TOKENS_DISAGREE,
                "the client did not count the prompt tokens itself",
            )
        ]
    served = sum(map(columns.input_tokens.__getitem__, counted))
    off = served - expected
    percent = 100 * abs(served - expected) / max(1, expected)
    threshold = stage.thresholds.prompt_tokens_suspect_percent
    if off == 0 or (percent <= threshold and off % len(counted)):
        return []
    severity: Severity = "Suspect" if percent > threshold else "Note"
    evidence: Evidence = {
        "offsetTokens": rounded(off / len(counted)),
        "serverTokens": served,
        "clientTokens": expected,
        "percent": rounded(percent),
        "suspectPercent": threshold,
    }
    return [
        StageFinding(
            Code.PROMPT_TOKENS_DISAGREE,
            severity,
            stage.id,
            evidence,
            weight=percent,
        )
    ]


def speculation_on_random_text(stage: StageFacts) -> Found:
    """Find speculative decoding in a stage whose prompts are random words.

    The sign is that the servers counted draft tokens.
    """
    drafted = counters.rise(counters.answering(stage.edges), counters.SPECULATED)
    if not stage.expected.random_text or not drafted:
        return []
    accepted = counters.rise(
        counters.answering(stage.edges), counters.SPECULATED_ACCEPTED
    )
    accepted_percent = (
        None if accepted is None else rounded(100 * accepted / drafted)
    )
    evidence = {"draftTokens": drafted, "acceptedPercent": accepted_percent}
    return [
        StageFinding(
            Code.SPECULATION_ON_RANDOM_TEXT,
            "Suspect",
            stage.id,
            evidence,
            weight=drafted,
        )
    ]


STAGE_RULES: tuple[StageRule, ...] = (
    requests_failed,
    no_output,
    output_too_short,
    stream_truncated,
    requests_aborted,
    requests_rejected,
    token_counts_disagree,
    prompt_tokens_disagree,
    chunks_are_not_tokens,
    speculation_on_random_text,
)
SENTENCES: Mapping[Code, Sentence] = {
    Code.ALL_REQUESTS_FAILED: "All {requests} requests failed.[ Error: {error}]",
    Code.REQUESTS_FAILED: (
        "{failed} of {requests} requests failed ({failedPercent} %, threshold "
        "{maxFailedPercent} %).[ Error: {error}]"
    ),
    Code.NO_OUTPUT: (
        "{answered} requests were answered, with {outputTokens} output tokens in "
        "all."
    ),
    Code.OUTPUT_TOO_SHORT: (
        "Answers have {meanOutputTokens} of {askedTokens} expected tokens on "
        "average ({percent} %; Suspect below {suspectPercent} %, Invalid below "
        "{invalidPercent} %)[; {stoppedPercent} % ended at a stop token "
        "(threshold {suspectStoppedPercent} %)]."
    ),
    Code.STREAM_TRUNCATED: (
        "{truncated} of {answered} answers broke off ({truncatedPercent} %, "
        "threshold {invalidPercent} %)."
    ),
    Code.REQUESTS_ABORTED: (
        "The servers aborted or failed {aborted} of {requests} requests, but only "
        "{failed} failed at the client: the difference is {percent} % of the "
        "requests (Suspect above {suspectPercent} %)."
    ),
    Code.REQUESTS_REJECTED: (
        "{rejectedPercent} % of {requests} requests were rejected: "
        "{tooManyRequests} with 429, {serviceUnavailable} with 503[; the servers "
        "counted {rejectedByServers}]."
    ),
    Code.TOKEN_COUNTS_DISAGREE: (
        "The client counted {clientTokens} output tokens and the servers "
        "{serverTokens}: {differencePercent} % apart (threshold {suspectPercent} "
        "%)."
    ),
    Code.PROMPT_TOKENS_DISAGREE: (
        "The server counts {serverTokens} prompt tokens, the client {clientTokens}: "
        "a difference of {offsetTokens} tokens a prompt, {percent} % (Suspect above "
        "{suspectPercent} %)."
    ),
    Code.SPECULATION_ON_RANDOM_TEXT: (
        "The servers proposed {draftTokens} draft tokens for random text[ and "
        "accepted {acceptedPercent} % of them]."
    ),
    Code.CHUNKS_ARE_NOT_TOKENS: (
        "{outputTokens} output tokens came in {chunks} chunks: {chunksPerToken} "
        "chunks a token (Note below {noteBelow})."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.ALL_REQUESTS_FAILED: needs(Input.OUTCOMES),
    Code.REQUESTS_FAILED: needs(Input.OUTCOMES),
    Code.NO_OUTPUT: needs(Input.OUTCOMES, Input.OUTPUT_TOKENS),
    Code.REQUESTS_REJECTED: needs(Input.OUTCOMES, Input.ERRORS),
    Code.OUTPUT_TOO_SHORT: needs(
        Input.OUTCOMES,
        Input.OUTPUT_TOKENS,
        Input.ASKED_TOKENS,
        also=(Input.SERVER_COUNTERS,),
    ),
    Code.STREAM_TRUNCATED: needs(Input.OUTCOMES, Input.STREAM_ENDS),
    Code.TOKEN_COUNTS_DISAGREE: needs(
        Input.OUTCOMES,
        Input.OUTPUT_TOKENS,
        Input.ASKED_TOKENS,
        Input.SERVER_COUNTERS,
    ),
    Code.CHUNKS_ARE_NOT_TOKENS: needs(
        Input.OUTCOMES, Input.OUTPUT_TOKENS, Input.GAPS
    ),
    Code.REQUESTS_ABORTED: needs(Input.OUTCOMES, Input.SERVER_COUNTERS),
    Code.PROMPT_TOKENS_DISAGREE: needs(Input.OUTCOMES, Input.PROMPT_COUNTS),
    Code.SPECULATION_ON_RANDOM_TEXT: needs(Input.PROMPTS, Input.SERVER_COUNTERS),
}
