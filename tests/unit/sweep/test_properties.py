"""What holds for every sweep, however its runs end and however often the operator dies on the
way."""

from typing import Any

from benchrun.api.sweep import BenchmarkSweepStatus
from hypothesis import given, settings, strategies as st
from unit.sweep.simulated import OperatorDied, SimulatedCluster, SimulatedOperator
from unit.sweep.sweeps import axis, sweep_body, variant

FATES = st.sampled_from(
    ["", "", "Evicted", "ServerRestarted", "ImagePull", "UsageError"]
)
SPECS = st.builds(
    lambda matrix, **changes: sweep_body(matrix=matrix, **changes),
    st.one_of(
        st.integers(1, 5).map(
            lambda n: {"variants": [variant(f"v{i}") for i in range(n)]}
        ),
        st.just({"grid": [axis("a", "1", "2"), axis("b", "1", "2")]}),
    ),
    replications=st.integers(1, 3),
    maxParallel=st.integers(1, 3),
    maxRetries=st.integers(0, 3),
    maxFailed=st.one_of(st.none(), st.integers(0, 2)),
    gpuSecondsBudget=st.one_of(st.none(), st.integers(50, 900)),
    order=st.sampled_from(["RandomisedBlocks", "AsListed"]),
)


def played(
    spec: dict[str, Any],
    fates: dict[str, str],
    deaths: list[int | None],
    *,
    cancel_at: int = -1,
) -> SimulatedCluster:
    """A sweep from its creation to its end. In each round the operator makes passes until it has
    nothing to do, or dies in the first one; then the run that was created first ends."""
    cluster = SimulatedCluster(dict(spec))
    operator = SimulatedOperator(cluster)
    for turn in range(200):
        if turn == cancel_at:
            cluster.spec["cancel"] = True
        death = deaths[turn] if turn < len(deaths) else None
        try:
            operator.make_pass(dies_after=death)
        except OperatorDied:
            operator = SimulatedOperator(cluster, seconds=float(turn))
        until_settled(operator)
        if cluster.is_over:
            return cluster
        first = next(name for name in cluster.created if name in cluster.active())
        cluster.end(first, fates.get(first, ""))
    raise AssertionError("the sweep does not end")


def until_settled(operator: SimulatedOperator) -> None:
    for _ in range(10):
        before = (dict(operator.cluster.status), dict(operator.cluster.runs))
        operator.make_pass()
        if (operator.cluster.status, operator.cluster.runs) == before:
            return
    raise AssertionError("the operator does not come to rest")


@st.composite
def fates_of(draw: st.DrawFn) -> dict[str, str]:
    attempts = ("", "-a2", "-a3", "-a4")
    names = [
        f"seqs-v{v}-r{r}{attempt}"
        for v in range(1, 6)
        for r in range(1, 4)
        for attempt in attempts
    ]
    return {name: draw(FATES) for name in names}


DEATHS = st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=20)


@settings(max_examples=10, deadline=None)
@given(spec=SPECS, fates=fates_of(), deaths=DEATHS)
def test_a_sweep_ends_the_same_however_often_the_operator_dies(
    spec: dict[str, Any], fates: dict[str, str], deaths: list[int | None]
) -> None:
    undisturbed = played(spec, fates, [])
    disturbed = played(spec, fates, deaths)
    times = {"acceptedTime", "completionTime", "conditions"}
    assert without(undisturbed.status, times) == without(disturbed.status, times)
    assert undisturbed.created == disturbed.created


@settings(max_examples=15, deadline=None)
@given(spec=SPECS, fates=fates_of(), deaths=DEATHS, cancel_at=st.integers(-1, 8))
def test_runs_are_created_once_within_the_parallelism(
    spec: dict[str, Any],
    fates: dict[str, str],
    deaths: list[int | None],
    cancel_at: int,
) -> None:
    cluster = played(spec, fates, deaths, cancel_at=cancel_at)
    assert len(set(cluster.created)) == len(cluster.created)
    assert cluster.most_at_once <= spec["maxParallel"]
    assert cluster.active() == []
    status = BenchmarkSweepStatus.model_validate(cluster.status)
    assert status.runs is not None
    assert status.estimate is not None
    counted = status.runs.completed + status.runs.failed + status.runs.cancelled
    assert counted + status.runs.lost == len(cluster.created)
    assert (
        counted + status.runs.skipped + status.runs.waiting == status.estimate.runs
    )


@settings(max_examples=8, deadline=None)
@given(spec=SPECS, fates=fates_of(), seconds=st.floats(0, 1e6))
def test_an_end_is_an_end(
    spec: dict[str, Any], fates: dict[str, str], seconds: float
) -> None:
    cluster = played(spec, fates, [])
    decision = SimulatedOperator(cluster, seconds=seconds).decide()
    assert (decision.create, decision.cancel, decision.events) == ((), (), ())
    assert decision.status == BenchmarkSweepStatus.model_validate(cluster.status)


def without(status: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if name not in names}
