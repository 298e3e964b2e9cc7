"""Rules on the samples of the servers' metrics: are there enough, and does the client agree?"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.load import share_of_round
from benchrun.judge.rules.rule import (
    Code,
    Found,
    NotChecked,
    Sentence,
    StageFacts,
    StageFinding,
    StageRule,
)
from benchrun.measure import (
    Plateau,
    Window,
    by_server,
    mean_of,
    request_figures,
    rounded,
    variance_inflation,
)
from benchrun.names import ROLE_PREFILL


def scrape_coverage(stage: StageFacts) -> Found:
    """Find a stage with fewer samples than the scrape interval should give.

    One sample of each server may be missing, because it may lie just outside of the stage.
    """
    interval = stage.expected.scrape_interval_seconds
    threshold = stage.thresholds.scrape_coverage_note_percent
    samples = sorted(stage.samples, key=lambda sample: sample.at)
    if not samples:
        return [
            NotChecked(
                Code.SCRAPE_COVERAGE_LOW,
                "no server was sampled within the stage (measure longer)",
            )
        ]
    servers = by_server(samples).values()
    gaps = [b.at - a.at for own in servers for a, b in pairwise(own)]
    if gaps and median(gaps) >= THINNED_INTERVALS * interval:
        return [
            NotChecked(
                Code.SCRAPE_COVERAGE_LOW,
                "the run is so long that its timeline keeps only means of several "
                "samples",
            )
        ]
    expected = math.fsum(window.expected for window in stage.windows)
    percent = 100 * len(samples) / expected if expected > 0 else 100.0
    if percent >= threshold or len(samples) + len(servers) >= expected:
        return []
    evidence = {
        "samples": len(samples),
        "expected": rounded(expected),
        "coveragePercent": rounded(percent),
        "notePercent": threshold,
        "scrapeIntervalSeconds": interval,
    }
    return [
        StageFinding(
            Code.SCRAPE_COVERAGE_LOW,
            "Note",
            stage.id,
            evidence,
            weight=100 - percent,
        )
    ]


THINNED_INTERVALS = 12.0
"""Two kept samples that are this many scrape intervals apart show that they are means: a long run's
timeline keeps means of 16 samples. Missing samples do not leave such regular gaps."""


def littles_law(stage: StageFacts) -> Found:
    """Find servers with more or fewer requests than the client has in flight.

    By Little's law both means are throughput times latency, measured at the server and at the
    client. Both are taken at the same instants, so only a difference between the two counts as
    noise. A difference of the two clocks makes the noise larger, but favours neither side.

    The rule assumes that a gauge shows a request for as long as the server has it. That is not so
    for batches and for requests in step: a gauge shows no request until the step that computes all
    their prompts is over. If the servers measure the same TTFT as the client, no request waited in
    front of them.
    """
    thresholds = stage.thresholds
    held = _held(stage.windows)
    if (why := _why_gauges_are_useless(stage, samples=len(held))) is not None:
        return [NotChecked(Code.LITTLES_LAW_BROKEN, why)]
    seen = [
        stage.flight.at(round(1e6 * at) - stage.record.first_send_unix_us)
        for at, _ in held
    ]
    client = math.fsum(seen) / len(seen)
    server = math.fsum(count for _, count in held) / len(held)
    gap = abs(client - server)
    throughput = len(stage.answered) / stage.seconds if stage.seconds > 0 else 0.0
    percent = 100 * gap / max(client, server) if gap > 0 else 0.0
    per_request_ms = 1000 * gap / throughput if throughput > 0 else 0.0
    apart = [
        count - at_client for (_, count), at_client in zip(held, seen, strict=True)
    ]
    mean = mean_of(apart)
    # The error of the mean, with the correlation of neighbouring samples.
    inflation = variance_inflation(
        [[value - mean.estimate for value in apart]], fitted=1
    )
    error = math.sqrt(mean.squared_error * inflation)
    line_ms = thresholds.littles_law_floor_ms
    if client > server:
        # A gauge shows a request after two steps: the one under way when it came, and its own, a
        # long gap between others' tokens.
        long_step_ms = (
            request_figures.latencies([stage.record], "itl").percentile(99) or 0.0
        ) / 1000
        line_ms = max(line_ms, thresholds.littles_law_steps * long_step_ms)
    if (
        percent <= thresholds.littles_law_suspect_percent
        or per_request_ms <= line_ms
    ):
        return []
    by_noise = thresholds.littles_law_errors * error
    if gap <= by_noise:
        return []
    # The step that computes its prompt hides a request for its whole TTFT, and no longer.
    if client > server and per_request_ms <= (stage.mean_ttft_ms or 0.0):
        why = _why_prompts_are_hidden(stage, line_ms=line_ms)
        if why is not None:
            return [NotChecked(Code.LITTLES_LAW_BROKEN, why)]
    evidence = {
        "clientInFlight": rounded(client),
        "serversInFlight": rounded(server),
        "differencePercent": rounded(percent),
        "suspectPercent": thresholds.littles_law_suspect_percent,
        "millisecondsARequest": rounded(per_request_ms),
        "suspectMilliseconds": rounded(line_ms),
        "difference": rounded(gap),
        "explainedByNoise": rounded(by_noise),
        "samples": len(held),
    }
    return [
        StageFinding(
            Code.LITTLES_LAW_BROKEN, "Suspect", stage.id, evidence, weight=percent
        )
    ]


def _why_gauges_are_useless(stage: StageFacts, *, samples: int) -> str | None:
    """Return why no gauge can show the stage's requests in flight; None if gauges can."""
    thresholds = stage.thresholds
    if any(window.role == ROLE_PREFILL for window in stage.windows):
        return "a prefill server may compute a prompt within one step, which no gauge shows"
    if stage.expected.offline or stage.load.whole_batches:
        # The first step may be long.
        return (
            "all requests arrive at once, and gauges do not show them during the "
            "first step"
        )
    if samples < thresholds.littles_law_samples:
        return "too few samples within the stage (measure longer)"
    # vLLM sets its gauges at the end of a step, without the requests that the step completed: of an
    # answer's steps, about one a token, the last is never seen.
    if stage.has_whole_answers:
        return "an embedding takes one step, which a gauge does not show"
    if not stage.counts_tokens:
        return "the server does not count the tokens of its answers"
    tokens = sum(map(stage.requests.output_tokens.__getitem__, stage.answered))
    if 100 * len(stage.answered) > thresholds.littles_law_suspect_percent * tokens:
        return "answers are so short that a gauge may not show them (ask for longer answers)"
    return None


def _why_prompts_are_hidden(stage: StageFacts, *, line_ms: float) -> str | None:
    """Return why gauges may lack requests whose prompts are computed; None without a sign."""
    if _in_step(stage):
        return "users send in step, and a gauge shows no request before the first token"
    if stage.ttft_gap_ms is not None and stage.ttft_gap_ms <= line_ms:
        return "the servers measured the same TTFT, so the gauge missed requests in prefill"
    return None


def _in_step(stage: StageFacts) -> bool:
    """Return whether users send within a small share of a round over the whole plateau."""
    where = stage.plateau
    if not stage.load.closed_loop or not isinstance(where, Plateau):
        return False
    share = share_of_round(
        stage, where, [i for i in where.started if stage.requests.ok[i]]
    )
    return share is not None and 100 * share < stage.thresholds.in_step_note_percent


def _held(windows: Sequence[Window]) -> list[tuple[float, float]]:
    """Return how many requests all servers together run or hold in their queues, over time.

    Each entry is an instant in Unix seconds and that number. There is one entry for each round,
    which is the next sample of every server. If a sample is missing, the samples of a round are
    further apart, which adds noise but no bias.
    """
    known = [
        s
        for window in windows
        for s in window.samples
        if s.running is not None and s.waiting is not None
    ]
    rounds = []
    in_order = sorted(known, key=lambda sample: sample.at)
    for together in zip(*by_server(in_order).values(), strict=False):
        at = math.fsum(s.at for s in together) / len(together)
        rounds.append(
            (at, math.fsum((s.running or 0) + (s.waiting or 0) for s in together))
        )
    return rounds


STAGE_RULES: tuple[StageRule, ...] = (scrape_coverage, littles_law)
SENTENCES: Mapping[Code, Sentence] = {
    Code.LITTLES_LAW_BROKEN: (
        "The client had {clientInFlight} requests in flight and the servers "
        "{serversInFlight}: {differencePercent} % apart (threshold "
        "{suspectPercent} %)."
    ),
    Code.SCRAPE_COVERAGE_LOW: (
        "{samples} of {expected} expected samples were taken ({coveragePercent} "
        "%, Note below {notePercent} %)."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.LITTLES_LAW_BROKEN: needs(
        Input.OUTCOMES, Input.TIMES, Input.OUTPUT_TOKENS, Input.SERVER_SAMPLES
    ),
    Code.SCRAPE_COVERAGE_LOW: needs(Input.SERVER_SAMPLES),
}
