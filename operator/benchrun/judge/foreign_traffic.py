"""Work that the servers did and this client did not ask for.

A request of ours finishes at most once, whatever becomes of it here: failed and aborted ones finish never or once. So more
requests finished than were sent is somebody else's doing, and a single one is enough to know it. Requests that somebody
sends but that don't finish in the stage show in the prompt tokens, which are counted with the first token.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Explanation, NotChecked, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.edges import PROMPT_TOKENS, REQUESTS_FINISHED, answering, rise

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.FOREIGN_TRAFFIC: Explanation(
        meaning="The servers worked for somebody else during the stage: every latency and throughput is that of a load "
        "nobody asked for.",
        remedy="Measure a server of your own, or keep other clients, probes that send completions and other runs away "
        "from it meanwhile. If their load belongs to the question, say so in validity.severities.",
    ),
}


def foreign_traffic(record: StageRecord, context: StageContext) -> Found:
    """Requests finished and, for Completions, prompt tokens processed beyond those of this stage."""
    line = context.thresholds.foreign_invalid_percent
    sent, finished = len(record.requests.ok), rise(answering(record.servers), REQUESTS_FINISHED)
    prompted = rise(answering(record.servers), PROMPT_TOKENS)
    if finished is None or prompted is None:
        return [NotChecked(Code.FOREIGN_TRAFFIC, "a server's requests and prompt tokens were not read at both ends")]
    asked, slack = _prompt_tokens(record)
    more_requests = 100 * max(finished - sent, 0) / sent
    # A chat template adds tokens that older load engines don't count.
    comparable = context.asked.api == "Completions" and asked > 0
    more_tokens = 100 * max(prompted - asked - slack, 0) / asked if comparable else 0.0
    if max(more_requests, more_tokens) <= line:
        return []
    evidence = {
        "sentRequests": sent,
        "finishedRequests": finished,
        "moreRequestsPercent": rounded(more_requests),
        "sentPromptTokens": asked,
        "uncertainPromptTokens": slack,
        "promptTokens": prompted,
        "morePromptTokensPercent": rounded(more_tokens),
        "invalidPercent": line,
    }
    weight = max(more_requests, more_tokens)
    return [StageFinding(Code.FOREIGN_TRAFFIC, "Invalid", record.stage_id, evidence, weight=weight)]


def _prompt_tokens(record: StageRecord) -> tuple[int, int]:
    """Tokens of all prompts sent, and how many more they may be by the server's tokenizer.

    Where the server's closing count came, its prompt tokens came with it, though not to the oldest load engines: those
    know their own count, without the token that begins a sequence. Without it the prompt is the client's count alone,
    which another tokenizer may double.
    """
    columns = record.requests
    asked = sum(columns.input_tokens)
    uncertain = asked - sum(compress(columns.input_tokens, columns.ended))
    return asked, len(columns.ok) + uncertain
