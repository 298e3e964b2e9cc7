"""What was generated: answers that the server broke off, prompts of another length, speculation on random text, users in step."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from benchrun.api import Severity
from benchrun.judge.rules.rule import Code, Evidence, Found, NotChecked, Rules, StageFacts, StageFinding
from benchrun.measure import Plateau, counters, failed_requests, rounded

MIN_USERS = 8  # Fewer leave most tenths of a round empty whatever they do.
MIN_ROUNDS = 3
PARTS_A_ROUND = 10


def requests_aborted(stage: StageFacts) -> Found:
    """Requests that the servers ended as aborted or with an error, beyond those that failed at the client."""
    if stage.expected.offline or not stage.answered:
        return []
    broken = counters.finished(counters.answering(stage.edges), "abort", "error")
    if broken is None:
        return [NotChecked(Code.REQUESTS_ABORTED, "no server reports why requests finished")]
    requests, failed = len(stage.requests.ok), failed_requests(stage.record)
    percent, threshold = 100 * (broken - failed) / requests, stage.thresholds.aborted_suspect_percent
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
    return [StageFinding(Code.REQUESTS_ABORTED, severity, stage.id, evidence, weight=percent)]


def prompt_tokens_disagree(stage: StageFacts) -> Found:
    """The servers' counts of prompts, less the client's: off by a whole number a prompt, or by much on average. A constant
    difference is a special token or a chat template that one side adds and the other does not (a second token that begins the
    sequence is 1); another tokenizer's mean is no whole number."""
    columns, expected = stage.requests, stage.record.expected_input_tokens
    counted = [i for i in stage.answered if columns.ended[i]]
    if stage.expected.offline or not counted:
        return []
    if expected is None:
        return [NotChecked(Code.PROMPT_TOKENS_DISAGREE, "the record lacks the client's own count of prompt tokens")]
    served = sum(map(columns.input_tokens.__getitem__, counted))
    off, percent = served - expected, 100 * abs(served - expected) / max(1, expected)
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
    return [StageFinding(Code.PROMPT_TOKENS_DISAGREE, severity, stage.id, evidence, weight=percent)]


def speculation_on_random_text(stage: StageFacts) -> Found:
    """Draft tokens that the servers proposed while prompts were random words. A server without speculation counts none."""
    drafted = counters.rise(counters.answering(stage.edges), counters.SPECULATED)
    if not stage.expected.random_text or not drafted:
        return []
    accepted = counters.rise(counters.answering(stage.edges), counters.SPECULATED_ACCEPTED)
    accepted_percent = None if accepted is None else rounded(100 * accepted / drafted)
    evidence = {"draftTokens": drafted, "acceptedPercent": accepted_percent}
    return [StageFinding(Code.SPECULATION_ON_RANDOM_TEXT, "Suspect", stage.id, evidence, weight=drafted)]


def users_in_step(stage: StageFacts) -> Found:
    """Users of a closed loop who send in bursts, so that the prompts of a burst wait for each other. Both must hold on the
    plateau: requests begin within a small share of a round (a round is the mean E2EL), and TTFT differs among them by a factor,
    as it does between the first and the last prompt of a burst."""
    where, users, thresholds = stage.plateau, stage.expected.concurrency or 0, stage.thresholds
    if not stage.expected.closed_loop or users < MIN_USERS or not isinstance(where, Plateau):
        return []
    columns = stage.requests
    started = [i for i in where.started if columns.ok[i]]
    share = share_of_round(stage, where, started)
    if share is None:
        return [NotChecked(Code.USERS_IN_STEP, f"fewer than {MIN_ROUNDS} rounds of the users")]
    ttft_ms = sorted(columns.ttft_us[i] / 1000 for i in started)
    early, late = ttft_ms[len(ttft_ms) // 10], ttft_ms[-1 - len(ttft_ms) // 10]
    share_limit, factor = thresholds.in_step_note_percent, thresholds.in_step_ttft_factor
    if 100 * share >= share_limit or late <= factor * early:
        return []
    evidence: Evidence = {
        "users": users,
        "shareOfRoundPercent": rounded(100 * share),
        "notePercent": share_limit,
        "p10TtftMs": rounded(early),
        "p90TtftMs": rounded(late),
        "noteFactor": factor,
    }
    return [StageFinding(Code.USERS_IN_STEP, "Note", stage.id, evidence, weight=1 - share)]


def share_of_round(stage: StageFacts, where: Plateau, started: Sequence[int]) -> float | None:
    """In which share of a round requests begin: 1 where they begin independently or in turns, 1 / `PARTS_A_ROUND` where all begin
    together. None: too short to tell. Counts in short equal parts of the plateau have a squared coefficient of variation of 1 / mean
    where arrivals are independent (Poisson), and of 1 / share - 1 more where they are bunched evenly into a share of the time."""
    round_us = fmean(stage.requests.e2el_us[i] for i in started) if started else 0.0
    rounds = where.length_us / round_us if round_us else 0.0
    if rounds < MIN_ROUNDS:
        return None
    parts = int(PARTS_A_ROUND * rounds)
    width = where.length_us / parts
    counts = Counter(min(parts - 1, int((stage.requests.start_us[i] - where.start_us) / width)) for i in started)
    mean = len(started) / parts
    squares = sum(count * count for count in counts.values()) / parts
    return 1 / max(1.0, squares / mean**2 - 1 / mean)


RULES = Rules(
    of_stages={112: requests_aborted, 155: prompt_tokens_disagree, 165: speculation_on_random_text, 315: users_in_step},
    sentences={
        (145, Code.REQUESTS_ABORTED): "Of {requests} requests the servers aborted or failed {aborted}, but only "
        "{failed} failed at the client: they differ by {percent} % of the requests (threshold {suspectPercent} %).",
        (315, Code.PROMPT_TOKENS_DISAGREE): "The server counts {serverTokens} prompt tokens, the client "
        "{clientTokens}: {offsetTokens} a prompt, {percent} % (threshold {suspectPercent} %).",
        (345, Code.SPECULATION_ON_RANDOM_TEXT): "The servers drafted {draftTokens} tokens for random text[ and "
        "accepted {acceptedPercent} % of them].",
        (365, Code.USERS_IN_STEP): "The {users} users begin their requests within {shareOfRoundPercent} % of a round "
        "(threshold {notePercent} %); TTFT is {p10TtftMs} ms (p10) to {p90TtftMs} ms (p90).",
    },
)
