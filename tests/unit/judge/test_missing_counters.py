"""A rule that compares counters needs them of every server at both ends of the stage; otherwise it is NotChecked."""

import pytest
from benchrun.judge.rules.failures_and_tokens import token_counts_disagree
from benchrun.judge.rules.kv_cache import preempted, prefix_cache
from benchrun.judge.rules.rule import Code, NotChecked, StageRule
from benchrun.judge.rules.server_identity import foreign_traffic
from benchrun_client.contract import START_TIME, ServerEdge
from unit.judge.stages import context
from unit.measure.records import ZERO, edge, record


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param((), id="no metrics endpoint could be read"),
        pytest.param((ServerEdge(address="a", before=None, after=ZERO),), id="the opening edge is missing"),
        pytest.param((ServerEdge(address="a", before=ZERO, after=None),), id="the closing edge is missing"),
        pytest.param((edge(), ServerEdge(address="b", before=ZERO, after=None)), id="of one of two servers"),
        pytest.param((ServerEdge(address="a", before={}, after={}),), id="a server without these counters"),
        pytest.param(
            (ServerEdge(address="a", before={"request_success_total": 0}, after={"request_success_total": 9}),),
            id="a server that counts only requests",
        ),
        pytest.param((edge(after={START_TIME: 5.0}),), id="the server restarted"),
    ],
)
@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (Code.FOREIGN_TRAFFIC, foreign_traffic),
        (Code.PREFIX_CACHE_CONTAMINATED, prefix_cache),
        (Code.PREEMPTED, preempted),
        (Code.TOKEN_COUNTS_DISAGREE, token_counts_disagree),
    ],
)
def test_a_rule_without_its_counters_is_not_checked(
    code: Code, rule: StageRule, servers: tuple[ServerEdge, ...]
) -> None:
    (missed,) = rule(context()(record(servers=servers)))
    assert isinstance(missed, NotChecked)
    assert missed.code is code
