"""What a gateway adds, told apart from what its servers took."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun.judge.gateway import gateway_role
from benchrun_client.contract import Connections, RequestColumns, ServerEdge
from unit.judge.stages import OPEN_LOOP, context
from unit.measure.records import edge, record, requests

BEHIND = replace(OPEN_LOOP, through_gateway=True)
TTFT = "time_to_first_token_seconds"


def replica(address: str, count: float, seconds: float) -> ServerEdge:
    rises = {f"{TTFT}_count": count, f"{TTFT}_sum": seconds}
    return edge(address, before=dict.fromkeys(rises, 7.0), rises=rises)


def answered(*ttft_us: int) -> RequestColumns:
    each = len(ttft_us)
    return requests(
        ttft_us=ttft_us, e2el_us=(200_000,) * each, output_tokens=(11,) * each
    )


def added_ms(*servers: ServerEdge, **changes: Any) -> float | None:
    columns = answered(100_000, 140_000, 120_000, 120_000)
    stage = context(load=BEHIND)(
        record(requests=columns, servers=servers, **changes)
    )
    (role,) = gateway_role([stage])
    assert role.role == "gateway"
    return role.added_mean_ms


def test_it_is_the_clients_ttft_less_that_of_all_replicas() -> None:
    assert added_ms(replica("a", 3, 0.27), replica("b", 1, 0.05)) == pytest.approx(
        40
    )


def test_opening_connections_is_not_the_gateways() -> None:
    made = Connections(opened=1, total_us=20_000, longest_us=20_000)
    assert added_ms(replica("a", 4, 0.32), connections=made) == pytest.approx(35)


def test_it_is_unknown_where_the_servers_counted_other_requests() -> None:
    assert added_ms(replica("a", 3, 0.27)) is None


def test_stages_count_by_their_answers_and_without_a_gateway_there_is_none() -> (
    None
):
    short, long = (
        context(load=BEHIND)(
            record(
                requests=answered(*[100_000] * count),
                servers=(replica("a", count, count * seconds),),
            )
        )
        for count, seconds in ((2, 0.1), (6, 0.06))
    )
    (role,) = gateway_role([short, long])
    assert role.added_mean_ms == pytest.approx(30)
    assert gateway_role([replace(short, expected=OPEN_LOOP), long]) == []
    assert gateway_role([]) == []
