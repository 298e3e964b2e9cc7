"""Several servers behind one load: are they alike, did each get its share, and what did the proxy add?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from benchrun_client.contract import ServerEdge

from benchrun.judge.rules.rule import Code, Evidence, Explanation, Found, NotChecked, Rules, StageFinding, StageProfile
from benchrun.measure.cells import rounded
from benchrun.measure.counters import REQUESTS_FINISHED, answering, by_role, of_vllm, proxy_figures, rise, rise_at
from benchrun.measure.windows import Window, is_busy

MAX_NAMES_CHARS = 200


def replicas_unequal(stage: StageProfile) -> Found:
    """What servers of a role say of themselves, their presence at both ends, and answers that none of them gave."""
    if not stage.edges:
        return [NotChecked(Code.REPLICAS_UNEQUAL, "no server's pages were read")]
    return [found for servers in by_role(of_vllm(stage.edges)).values() for found in _unequal(servers, stage)]


def _unequal(servers: Sequence[ServerEdge], stage: StageProfile) -> Found:
    halves = [edge for edge in servers if (edge.before is None) != (edge.after is None)]
    # Not one page read at one end: that is the client's trouble, or the network's.
    partly_there = len(halves) if len(halves) < len(servers) else 0
    reported = {name: _reported(servers, name) for name in _REPORTED}
    different = sum(len(words) > 1 for words in reported.values())
    unknown_percent = _by_unknown_servers(stage)
    threshold = stage.thresholds.unknown_servers_invalid_percent
    if different or partly_there or unknown_percent > threshold:
        evidence: Evidence = {
            "servers": len(servers),
            **{name: len(words) for name, words in reported.items()},
            "readAtOneEndOnly": partly_there,
            **({"server": halves[0].address} if partly_there else {}),
            **{f"{name}Named": _named(reported[name]) for name in _NAMED if len(reported[name]) > 1},
            "byUnknownServersPercent": rounded(unknown_percent),
            "invalidPercent": threshold,
        }
        weight = partly_there + different + unknown_percent / 100
        return [StageFinding(Code.REPLICAS_UNEQUAL, "Invalid", stage.id, evidence, weight=weight)]
    if len(servers) > 1 and (halves or any(_is_silent(servers, name) for name in _REPORTED)):
        return [NotChecked(Code.REPLICAS_UNEQUAL, "a server did not tell what the others tell, or not at both ends")]
    return []


_REPORTED: Mapping[str, Callable[[ServerEdge], str | None]] = {
    "versions": lambda edge: edge.version,
    "settings": lambda edge: edge.settings,
    "models": lambda edge: edge.models,
}
_NAMED = ("versions", "models")
"""Settings are a digest, which names nothing."""


def _reported(servers: Sequence[ServerEdge], name: str) -> set[str]:
    """The different words of those that say something."""
    return {word for edge in servers if (word := _REPORTED[name](edge)) is not None}


def _named(words: set[str]) -> str:
    """All of them, each cut so that they have equal room."""
    room = MAX_NAMES_CHARS // len(words)
    return "; ".join(word[:room] for word in sorted(words))


def _is_silent(servers: Sequence[ServerEdge], name: str) -> bool:
    """Models are not reported by every gateway, and not in older records: silence of all of them is no difference."""
    silent = [_REPORTED[name](edge) is None for edge in servers]
    return any(silent) and not (name == "models" and all(silent))


def _by_unknown_servers(stage: StageProfile) -> float:
    """Answers that no known server counted, in percent; 0 where that can't be reported."""
    answered, finished = sum(stage.requests.ok), rise(answering(stage.edges), REQUESTS_FINISHED)
    if not stage.expected.through_service or not answered or finished is None:
        return 0.0
    return 100 * max(answered - finished, 0) / answered


def load_uneven(stage: StageProfile) -> Found:
    """The server farthest from an equal share of what its role finished, where chance doesn't put it there."""
    if not stage.edges:
        return [NotChecked(Code.LOAD_UNEVEN, "no server's pages were read")]
    return [found for servers in by_role(of_vllm(stage.edges)).values() for found in _uneven(servers, stage)]


def _uneven(servers: Sequence[ServerEdge], stage: StageProfile) -> Found:
    thresholds = stage.thresholds
    if len(servers) == 1:
        return []
    finished = rise(servers, REQUESTS_FINISHED)
    if finished is None:
        return [NotChecked(Code.LOAD_UNEVEN, "a server's requests were not read at both ends")]
    if finished == 0:
        return []
    answered = [rise_at(edge, REQUESTS_FINISHED) or 0.0 for edge in servers]
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
    return [StageFinding(Code.LOAD_UNEVEN, "Suspect", stage.id, evidence, weight=off_percent)]


def _chance(answered: float, *, requests: float, servers: int) -> float:
    """At most how likely any server is that far off when each request picks one at random.

    Chernoff's bound for a binomial, which holds for any number of requests; twice for both directions, once a server.
    """
    share, equal = answered / requests, 1 / servers
    parts = ((share, equal), (1 - share, 1 - equal))
    divergence = math.fsum(part * math.log(part / fair) for part, fair in parts if part > 0)
    return min(1.0, 2 * servers * math.exp(-requests * divergence))


def role_idle(stage: StageProfile) -> Found:
    """The idlest role beside the one with the most queued samples."""
    windows = [window for window in stage.windows if window.samples]
    shares = {window.role: (_share(window, busy=False), _share(window, busy=True)) for window in windows}
    if len(shares) < 2:
        return []
    threshold = stage.thresholds.idle_readings_percent
    queued = max(shares, key=lambda role: shares[role][1])
    idle = max((role for role in shares if role != queued), key=lambda role: shares[role][0])
    idle_percent, queued_percent = shares[idle][0], shares[queued][1]
    if min(idle_percent, queued_percent) <= threshold:
        return []
    evidence: Evidence = {
        "idleRole": idle,
        "idlePercent": rounded(idle_percent),
        "queueRole": queued,
        "queuedPercent": rounded(queued_percent),
        "notePercent": threshold,
    }
    return [StageFinding(Code.ROLE_IDLE, "Note", stage.id, evidence, weight=idle_percent)]


def _share(window: Window, *, busy: bool) -> float:
    """Readings in percent: with a queue, or with nothing at all."""
    found = sum((sample.waiting or 0) > 0 if busy else not is_busy(sample) for sample in window.samples)
    return 100 * found / len(window.samples)


def proxy_saturated(stage: StageProfile) -> Found:
    """What it added to the time to first token, how long it held requests back, and how busy it was."""
    found = proxy_figures([stage.record])
    if found is None:
        return []
    if found.added_mean_ms is None or found.cores is None:
        return [NotChecked(Code.PROXY_SATURATED, "the proxy does not tell what it adds")]
    thresholds, ttft_ms = stage.thresholds, stage.mean_ttft_ms
    line_ms = max(thresholds.proxy_added_suspect_ms, thresholds.proxy_added_suspect_percent / 100 * (ttft_ms or 0.0))
    late_ms = max(found.added_mean_ms, found.queued_mean_ms or 0.0)
    weight = max(late_ms / line_ms, found.cores / thresholds.proxy_cores_suspect)
    if weight <= 1:
        return []
    evidence: Evidence = {
        "addedMeanMs": rounded(found.added_mean_ms),
        "queuedMeanMs": rounded(found.queued_mean_ms),
        "suspectMs": rounded(line_ms),
        "cores": rounded(found.cores),
        "suspectCores": thresholds.proxy_cores_suspect,
        "meanTtftMs": rounded(ttft_ms),
    }
    return [StageFinding(Code.PROXY_SATURATED, "Suspect", stage.id, evidence, weight=weight)]


RULES = Rules(
    of_stages={130: replicas_unequal, 140: load_uneven, 250: proxy_saturated, 260: role_idle},
    explanations={
        Code.REPLICAS_UNEQUAL: Explanation(
            meaning="The servers of the run are not alike, or one was there for a part of the stage only, or one that nobody knew "
            "of answered: the figures are a mixture that belongs to no configuration.",
            remedy="Run again with equal servers: one image by its digest, one set of arguments, one kind of GPU, and nothing "
            "that scales them meanwhile.",
            sentence="Of {servers} servers of one role: different versions {versions}[ ({versionsNamed})], settings {settings}, "
            "models {models}[ ({modelsNamed})][; {server} was there at one end of the stage only]; "
            "{byUnknownServersPercent} % of the answers came from unknown servers (threshold {invalidPercent} %).",
        ),
        Code.LOAD_UNEVEN: Explanation(
            meaning="Some servers answered many more requests than others: the busiest sets the tail and the limit, while the "
            "others idle.",
            remedy="See how traffic is spread: connections kept open behind a Service stay with one server, and a gateway may "
            "route by prefix. Servers that the run itself starts get their requests in turns.",
            sentence="{servers} servers answered between {smallestSharePercent} % and {largestSharePercent} % of "
            "{requests} requests: {server} is {offPercent} % off an equal share (threshold {suspectPercent} "
            "%).",
        ),
        Code.ROLE_IDLE: Explanation(
            meaning="Servers of one role had nothing to do for much of the time, while requests queued at those of the other: the "
            "GPUs are split in another proportion than the work is.",
            remedy="Move a server, or GPUs, from the idle role to the one that queues (replicas of prefill and decode).",
            sentence="The {idleRole} servers were idle in {idlePercent} % of the samples, while requests queued at "
            "{queueRole} in {queuedPercent} % (threshold {notePercent} %).",
        ),
        Code.PROXY_SATURATED: Explanation(
            meaning="The proxy between client and servers took a part of the time that counts: latencies and throughput are its own "
            "as well as the servers'.",
            remedy="Give the proxy a whole core (server.disaggregated.proxy.resources) and room for all requests under way "
            "(--max-in-flight), or measure fewer streams at once.",
            sentence="The proxy added {addedMeanMs} ms to the mean TTFT[ and held requests back for {queuedMeanMs} "
            "ms] (threshold {suspectMs} ms), and used {cores} cores (threshold {suspectCores}).",
        ),
    },
)
