"""Several servers behind one load: are they alike, and did each get its share?"""

from __future__ import annotations

import math
from collections.abc import Mapping

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.edges import REQUESTS_FINISHED, rise, rise_at

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.REPLICAS_UNEQUAL: Explanation(
        meaning="The servers of the run are not alike, or one of them was there for a part of the stage only: its figures "
        "are a mixture that belongs to no configuration.",
        remedy="Run again with equal servers: one image by its digest, one set of arguments, one kind of GPU, and nothing "
        "that scales them meanwhile.",
    ),
    Code.LOAD_UNEVEN: Explanation(
        meaning="Some servers answered many more requests than others: the busiest sets the tail and the limit, while the "
        "others idle.",
        remedy="See how traffic is spread: connections kept open behind a Service stay with one server, and a gateway may "
        "route by prefix. Servers that the run itself starts get their requests in turns.",
    ),
}
MAX_NAMES_CHARS = 200


def replicas_unequal(record: StageRecord, context: StageContext) -> Found:
    """Versions, settings and presence of the servers; a single one is equal to itself."""
    servers = record.servers
    if len(servers) == 1:
        return []
    if not servers:
        return [NotChecked(Code.REPLICAS_UNEQUAL, "no server's pages were read")]
    versions = {edge.version for edge in servers if edge.version is not None}
    settings = {edge.settings for edge in servers if edge.settings is not None}
    halves = [edge for edge in servers if (edge.before is None) != (edge.after is None)]
    # Not one page read at one end: that is the client's trouble, or the network's.
    partly_there = len(halves) if len(halves) < len(servers) else 0
    if len(versions) > 1 or len(settings) > 1 or partly_there:
        evidence: Evidence = {
            "servers": len(servers),
            "versions": len(versions),
            "settings": len(settings),
            "readAtOneEndOnly": partly_there,
            **({"server": halves[0].address} if partly_there else {}),
            **({"versionNames": ", ".join(sorted(versions))[:MAX_NAMES_CHARS]} if len(versions) > 1 else {}),
        }
        weight = partly_there + len(versions) + len(settings)
        return [StageFinding(Code.REPLICAS_UNEQUAL, "Invalid", record.stage_id, evidence, weight=weight)]
    if halves or any(edge.version is None or edge.settings is None for edge in servers):
        return [NotChecked(Code.REPLICAS_UNEQUAL, "a server did not tell its version or its settings at both ends")]
    return []


def load_uneven(record: StageRecord, context: StageContext) -> Found:
    """The server farthest from an equal share of the finished requests, where chance doesn't put it there."""
    servers, lines = record.servers, context.thresholds
    if len(servers) == 1:
        return []
    finished = rise(servers, REQUESTS_FINISHED).value
    if finished is None:
        return [NotChecked(Code.LOAD_UNEVEN, "a server's requests were not read at both ends")]
    if finished == 0:
        return []
    answered = [rise_at(edge, REQUESTS_FINISHED) or 0.0 for edge in servers]
    equal = finished / len(servers)
    farthest = max(answered, key=lambda count: abs(count - equal))
    off_percent = 100 * abs(farthest - equal) / equal
    if off_percent <= lines.uneven_suspect_percent:
        return []
    if _chance(farthest, requests=finished, servers=len(servers)) > lines.uneven_chance:
        return []
    evidence = {
        "servers": len(servers),
        "requests": finished,
        "smallestSharePercent": rounded(100 * min(answered) / finished),
        "largestSharePercent": rounded(100 * max(answered) / finished),
        "offPercent": rounded(off_percent),
        "suspectPercent": lines.uneven_suspect_percent,
        "server": servers[answered.index(farthest)].address,
    }
    return [StageFinding(Code.LOAD_UNEVEN, "Suspect", record.stage_id, evidence, weight=off_percent)]


def _chance(answered: float, *, requests: float, servers: int) -> float:
    """At most how likely any server is that far off when each request picks one at random.

    Chernoff's bound for a binomial, which holds for any number of requests; twice for both directions, once a server.
    """
    share, equal = answered / requests, 1 / servers
    parts = ((share, equal), (1 - share, 1 - equal))
    divergence = math.fsum(part * math.log(part / fair) for part, fair in parts if part > 0)
    return min(1.0, 2 * servers * math.exp(-requests * divergence))
