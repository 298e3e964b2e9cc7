"""What stands between the client and the servers of an endpoint adds to the time to first token."""

import math
from collections.abc import Sequence

from benchrun.api import RoleFigures
from benchrun.judge.stage_facts import StageFacts
from benchrun.measure import rounded
from benchrun.names import ROLE_GATEWAY


def gateway_role(stages: Sequence[StageFacts]) -> list[RoleFigures]:
    """Return what is known of the gateway over these stages; empty if there is none.

    What it adds is the mean TTFT at the client, less the time to open connections, less the mean
    TTFT of the servers' own histograms, over all replicas. So the network on both sides of the
    gateway is in it. It is unknown if the servers counted other requests than the client.
    """
    if not stages or not all(each.expected.through_gateway for each in stages):
        return []
    gaps = [(len(each.answered), _added_ms(each)) for each in stages]
    answered = sum(count for count, _ in gaps)
    known = [count * gap for count, gap in gaps if gap is not None]
    added_ms = (
        math.fsum(known) / answered
        if answered and len(known) == len(gaps)
        else None
    )
    return [RoleFigures(role=ROLE_GATEWAY, added_mean_ms=rounded(added_ms))]


def _added_ms(stage: StageFacts) -> float | None:
    gap_ms = stage.ttft_gap_ms
    made = stage.record.connections
    if gap_ms is None or made is None:
        return gap_ms
    return gap_ms - made.total_us / 1000 / len(stage.requests.ok)
