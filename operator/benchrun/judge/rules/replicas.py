"""Rules on several servers that share a load, and on the proxy in front of them.

They check that the servers are alike, that each got its share, and what the proxy added.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from benchrun_client.contract import ServerEdge

from benchrun.api import Sample
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
    times,
)
from benchrun.measure import by_server, counters, is_busy, rounded
from benchrun.measure.request_figures import risen
from benchrun.names import PREFILLING_ROLES

MAX_NAMES_CHARS = 200
# Fewest samples of a role: fewer say little about how often it is idle.
MIN_SAMPLES = 5


def replicas_unequal(stage: StageFacts) -> Found:
    """Find servers of one role that differ in what they report, or that come and go.

    Servers come and go if one was read at only one end of the stage, or if no known server counted
    some of the answers.
    """
    if not stage.edges:
        return [
            NotChecked(
                Code.REPLICAS_UNEQUAL, "no server's metrics endpoint was read"
            )
        ]
    by_role = counters.by_role(counters.of_engine(stage.edges))
    return [
        found for servers in by_role.values() for found in _unequal(servers, stage)
    ]


def _unequal(servers: Sequence[ServerEdge], stage: StageFacts) -> Found:
    halves = [
        edge for edge in servers if (edge.before is None) != (edge.after is None)
    ]
    # No server read at one end: the cause is the client or the network.
    partly_there = len(halves) if len(halves) < len(servers) else 0
    reported = {
        name: {v for edge in servers if (v := of(edge)) is not None}
        for name, of in _REPORTED.items()
    }
    different = sum(len(values) > 1 for values in reported.values())
    # Percentage of answers that no known server counted; 0 where that is not known.
    unknown_percent = 0.0
    answered = sum(stage.requests.ok)
    finished = counters.rise(
        counters.answering(stage.edges), counters.REQUESTS_FINISHED
    )
    expected = stage.expected
    all_listed = expected.through_service or expected.through_gateway
    if all_listed and answered and finished is not None:
        unknown_percent = 100 * max(answered - finished, 0) / answered
    threshold = stage.thresholds.unknown_servers_invalid_percent
    if different or partly_there or unknown_percent > threshold:
        evidence: Evidence = {
            "servers": len(servers),
            **{name: len(values) for name, values in reported.items()},
            "readAtOneEndOnly": partly_there,
            **({"server": halves[0].address} if partly_there else {}),
            **{
                f"{name}Named": _named(reported[name])
                for name in _NAMED
                if len(reported[name]) > 1
            },
            "byUnknownServersPercent": rounded(unknown_percent),
            "invalidPercent": threshold,
        }
        weight = partly_there + different + unknown_percent / 100
        return [
            StageFinding(
                Code.REPLICAS_UNEQUAL, "Invalid", stage.id, evidence, weight=weight
            )
        ]
    silent = {
        name: [of(edge) is None for edge in servers]
        for name, of in _REPORTED.items()
    }
    # Models are missing from some gateways and from older records: missing at all of them is no
    # difference.
    unknown = any(
        any(each) and not (name == "models" and all(each))
        for name, each in silent.items()
    )
    if len(servers) > 1 and (halves or unknown):
        return [
            NotChecked(
                Code.REPLICAS_UNEQUAL,
                "a server's metrics were not read before and after the stage, "
                "or lack figures that others have",
            )
        ]
    return []


_REPORTED: Mapping[str, Callable[[ServerEdge], str | None]] = {
    "versions": lambda edge: edge.version,
    "settings": lambda edge: edge.settings,
    "models": lambda edge: edge.models,
}
_NAMED = ("versions", "models")  # Settings are a digest, which names nothing.


def _named(values: set[str]) -> str:
    return "; ".join(
        value[: MAX_NAMES_CHARS // len(values)] for value in sorted(values)
    )


def load_uneven(stage: StageFacts) -> Found:
    """Find a server that finished far more or fewer requests than an equal share.

    Shares are compared within a role. Nothing is found if chance explains the difference.
    """
    if not stage.edges:
        return [
            NotChecked(Code.LOAD_UNEVEN, "no server's metrics endpoint was read")
        ]
    by_role = counters.by_role(counters.of_engine(stage.edges))
    return [
        found for servers in by_role.values() for found in _uneven(servers, stage)
    ]


def _uneven(servers: Sequence[ServerEdge], stage: StageFacts) -> Found:
    thresholds = stage.thresholds
    finished = counters.rise(servers, counters.REQUESTS_FINISHED)
    if len(servers) == 1 or finished == 0:
        return []
    if finished is None:
        return [
            NotChecked(
                Code.LOAD_UNEVEN,
                "a server's requests were not read before and after the stage",
            )
        ]
    answered = [
        counters.rise_at(edge, counters.REQUESTS_FINISHED) or 0.0
        for edge in servers
    ]
    equal = finished / len(servers)
    farthest = max(answered, key=lambda count: abs(count - equal))
    off_percent = 100 * abs(farthest - equal) / equal
    if off_percent <= thresholds.uneven_suspect_percent:
        return []
    chance = _chance(farthest, requests=finished, servers=len(servers))
    if chance > thresholds.uneven_chance:
        return []
    evidence = {
        "servers": len(servers),
        "requests": finished,
        "smallestSharePercent": rounded(100 * min(answered) / finished),
        "largestSharePercent": rounded(100 * max(answered) / finished),
        "offPercent": rounded(off_percent),
        "suspectPercent": thresholds.uneven_suspect_percent,
        "chance": rounded(chance),
        "suspectChance": thresholds.uneven_chance,
        "server": servers[answered.index(farthest)].address,
    }
    return [
        StageFinding(
            Code.LOAD_UNEVEN, "Suspect", stage.id, evidence, weight=off_percent
        )
    ]


def _chance(answered: float, *, requests: float, servers: int) -> float:
    """Return an upper bound of the probability that chance moves any server so far from its share.

    `answered` is the number of requests of the server that is farthest from an equal share. Each
    request is assumed to pick a server at random. The bound is Chernoff's for a binomial, which
    holds for any number of requests, times two for both directions, times the number of servers.
    """
    share = answered / requests
    equal = 1 / servers
    parts = ((share, equal), (1 - share, 1 - equal))
    divergence = math.fsum(
        part * math.log(part / fair) for part, fair in parts if part > 0
    )
    return min(1.0, 2 * servers * math.exp(-requests * divergence))


def role_idle(stage: StageFacts) -> Found:
    """Find a role that is idle while requests queue at another role.

    The role that has a queue in most samples is compared with the idlest of the other roles. A
    gauge may miss work that is done within one step, such as the prefill of a prompt. So a sample
    of servers that prefill counts as idle only if their token counters have not moved either.
    """
    idle_percents = {}
    queued_percents = {}
    for window in stage.windows:
        if samples := window.samples:
            idle = _idle(samples, in_steps=window.role in PREFILLING_ROLES)
            idle_percents[window.role] = 100 * idle / len(samples)
            queued_percents[window.role] = (
                100
                * sum((sample.waiting or 0) > 0 for sample in samples)
                / len(samples)
            )
    if len(idle_percents) < 2:
        return []
    if any(len(window.samples) < MIN_SAMPLES for window in stage.windows):
        why = f"fewer than {MIN_SAMPLES} samples of a role within the stage (measure longer)"
        return [NotChecked(Code.ROLE_IDLE, why)]
    threshold = stage.thresholds.idle_samples_percent
    queued = max(queued_percents, key=queued_percents.__getitem__)
    idlest = max(
        (role for role in idle_percents if role != queued),
        key=idle_percents.__getitem__,
    )
    idle_percent = idle_percents[idlest]
    queued_percent = queued_percents[queued]
    if min(idle_percent, queued_percent) <= threshold:
        return []
    evidence: Evidence = {
        "idleRole": idlest,
        "idlePercent": rounded(idle_percent),
        "queueRole": queued,
        "queuedPercent": rounded(queued_percent),
        "notePercent": threshold,
    }
    return [
        StageFinding(
            Code.ROLE_IDLE, "Note", stage.id, evidence, weight=idle_percent
        )
    ]


def _idle(samples: Sequence[Sample], *, in_steps: bool) -> int:
    """Return how many samples show a server without work.

    Such a sample has no running or waiting requests. With `in_steps`, gauges may miss work between
    two samples, so the server must also have computed no token since the sample before.
    """
    found = 0
    for own in by_server(samples).values():
        found += not is_busy(own[0])
        found += sum(
            not is_busy(after) and not (in_steps and _worked(before, after))
            for before, after in pairwise(own)
        )
    return found


def _worked(before: Sample, after: Sample) -> bool:
    """Return whether a token was computed between two samples of a server."""
    return any(
        (risen(getattr(before, name), getattr(after, name)) or 0) > 0
        for name in ("prompt_tokens", "generation_tokens")
    )


def proxy_saturated(stage: StageFacts) -> Found:
    """Find a proxy that adds much to TTFT, or that is busy.

    The signs are the mean time that it added, how long it held requests back, and how many CPU
    cores it used.
    """
    found = counters.proxy_figures([stage.record])
    if found is None:
        return []
    if found.added_mean_ms is None or found.cores is None:
        return [
            NotChecked(
                Code.PROXY_SATURATED,
                "the proxy's metrics do not tell how much time the proxy adds",
            )
        ]
    thresholds = stage.thresholds
    ttft_ms = stage.mean_ttft_ms
    limit_ms = max(
        thresholds.proxy_added_suspect_ms,
        thresholds.proxy_added_suspect_percent / 100 * (ttft_ms or 0.0),
    )
    late_ms = max(found.added_mean_ms, found.queued_mean_ms or 0.0)
    weight = max(
        times(late_ms, limit_ms), times(found.cores, thresholds.proxy_cores_suspect)
    )
    if weight <= 1:
        return []
    evidence: Evidence = {
        "addedMeanMs": rounded(found.added_mean_ms),
        "queuedMeanMs": rounded(found.queued_mean_ms),
        "suspectMs": rounded(limit_ms),
        "cores": rounded(found.cores),
        "suspectCores": thresholds.proxy_cores_suspect,
        "meanTtftMs": rounded(ttft_ms),
    }
    return [
        StageFinding(
            Code.PROXY_SATURATED, "Suspect", stage.id, evidence, weight=weight
        )
    ]


STAGE_RULES: tuple[StageRule, ...] = (
    replicas_unequal,
    load_uneven,
    proxy_saturated,
    role_idle,
)
SENTENCES: Mapping[Code, Sentence] = {
    Code.PROXY_SATURATED: (
        "The proxy added {addedMeanMs} ms to the mean TTFT[ and held requests "
        "back for {queuedMeanMs} ms] (threshold {suspectMs} ms), and used {cores} "
        "cores (threshold {suspectCores})."
    ),
    Code.REPLICAS_UNEQUAL: (
        "{servers} servers of one role have {versions} versions[ "
        "({versionsNamed})], {settings} sets of settings and {models} models[ "
        "({modelsNamed})], where 1 of each is expected[; {server} was read at one "
        "end of the stage only]; {byUnknownServersPercent} % of the answers came "
        "from unknown servers (threshold {invalidPercent} %)."
    ),
    Code.LOAD_UNEVEN: (
        "Each of {servers} servers answered between {smallestSharePercent} % and "
        "{largestSharePercent} % of {requests} requests: {server} is {offPercent} % "
        "off an equal share (threshold {suspectPercent} %)."
    ),
    Code.ROLE_IDLE: (
        "The {idleRole} servers were idle in {idlePercent} % of the samples, while "
        "requests queued at the {queueRole} servers in {queuedPercent} % (threshold "
        "{notePercent} % for both)."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.REPLICAS_UNEQUAL: needs(Input.SERVER_IDENTITY, Input.SERVER_COUNTERS),
    Code.LOAD_UNEVEN: needs(Input.SERVER_COUNTERS),
    Code.ROLE_IDLE: needs(Input.SERVER_SAMPLES),
    Code.PROXY_SATURATED: needs(Input.SERVER_COUNTERS, Input.TIMES),
}
