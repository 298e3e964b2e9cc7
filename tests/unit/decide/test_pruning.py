"""A finished run keeps less than 1 MiB: which records stay, what is said of it, and that a crash changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchrun import names
from benchrun.decide.storing import PLAN_BYTES, RESULT_BYTES, Stored, kept
from benchrun.observe.views import Child
from hypothesis import given
from hypothesis import strategies as st
from unit.decide.saying import deleted
from unit.decide.scenes import Scene
from unit.plan.specs import OWNER, rates, spec_body, workload

KIB = 1024
RATES = [str(rate) for rate in range(1, 7)]
SIX_STAGES = spec_body(workloads=[workload("chat", load=rates(*RATES))])


def stage(number: int, size: int) -> Stored:
    return Stored(names.stage_name("qwen", OWNER.uid, number), names.ROLE_STAGE, size)


def chunk(number: int, size: int) -> Stored:
    return Stored(names.timeline_name("qwen", OWNER.uid, number), names.ROLE_TIMELINE, size)


@pytest.mark.parametrize(
    ("expected", "stored"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([0, 1], [stage(0, 400 * KIB), stage(1, 400 * KIB)], id="all fit"),
        pytest.param([0, 1], [stage(n, 400 * KIB) for n in (2, 1, 0)], id="the first that fit, in plan order"),
        pytest.param([0], [stage(0, 10), stage(1, 900 * KIB), stage(2, 10)], id="up to the first that does not"),
        pytest.param([], [stage(0, 1000 * KIB)], id="the first does not"),
        pytest.param([0], [stage(0, RESULT_BYTES)], id="exactly"),
        pytest.param([], [stage(0, RESULT_BYTES + 1)], id="a byte too many"),
        pytest.param([0], [chunk(0, 200 * KIB), stage(0, 400 * KIB), stage(1, 400 * KIB)], id="after the timeline"),
    ],
)
def test_records_that_stay(expected: list[int], stored: list[Stored]) -> None:
    stay = [s for s in kept(stored) if s.role == names.ROLE_STAGE]
    assert [s.name for s in stay] == [names.stage_name("qwen", OWNER.uid, number) for number in expected]


def test_a_long_timeline_leaves_half_of_the_room_to_the_records() -> None:
    stay = kept([*(chunk(n, 10 * KIB) for n in range(1200)), *(stage(n, 100 * KIB) for n in range(9))])
    assert [s.name for s in stay if s.role == names.ROLE_TIMELINE] == [
        names.timeline_name("qwen", OWNER.uid, n) for n in range(44)
    ]
    assert len([s for s in stay if s.role == names.ROLE_STAGE]) == 4


@given(st.lists(st.integers(0, 300 * KIB), max_size=20), st.lists(st.integers(0, 100 * KIB), max_size=20))
def test_what_stays_fits_and_stays(stages: list[int], chunks: list[int]) -> None:
    stored = [*(stage(n, size) for n, size in enumerate(stages)), *(chunk(n, size) for n, size in enumerate(chunks))]
    stay = kept(stored)
    assert sum(s.size_bytes for s in stay) + PLAN_BYTES <= 1024 * KIB
    assert kept(stay) == stay
    # Cut off anywhere while it deletes, from the end: the next one keeps the same.
    gone = sorted(set(stored) - set(stay), key=lambda s: (len(s.name), s.name))
    for left in range(len(gone)):
        assert kept([*stay, *gone[:left]]) == stay


# ---- in a run --------------------------------------------------------------------------------------------------------


def sized(scene: Scene, size: int) -> Scene:
    """Its records take so much each."""
    return replace(scene, objects=tuple(_sized(child, size) for child in scene.objects))


def _sized(child: Child, size: int) -> Child:
    return replace(child, stored_bytes=size) if child.role == names.ROLE_STAGE else child


ALL_STORED = sized(Scene(spec=SIX_STAGES).measuring().stored(*range(6)).at(300), 300 * KIB)
CLEAN = ALL_STORED.answered().settled().without("Deployment", "server").without("Job", "client")


def notes(scene: Scene) -> list[tuple[str, int, int]]:
    return [(t.field, t.total, t.included) for t in scene.ended().status.truncated]


def test_it_is_judged_by_all_and_says_which_are_kept() -> None:
    status = ALL_STORED.ended().status
    assert (status.phase, len(status.results), status.verdict) == ("Completed", 6, "Valid")
    assert notes(ALL_STORED) == [("records", 6, 2)]


def test_nothing_is_thrown_away_before_the_status_says_so() -> None:
    assert "ConfigMap" not in deleted(ALL_STORED.ended())


def test_then_the_others_go_from_the_end() -> None:
    assert [ref.name for ref in CLEAN.ended().delete] == [names.stage_name("qwen", OWNER.uid, n) for n in (5, 4, 3, 2)]
    assert CLEAN.ended().delete == CLEAN.operator_restarted().at(10_000).ended().delete


def test_what_is_left_stays() -> None:
    left = replace(CLEAN, objects=tuple(c for c in CLEAN.objects if (c.sequence or 0) < 2))
    assert left.ended().delete == ()


def test_what_is_on_its_way_out_is_not_deleted_again() -> None:
    leaving = tuple(replace(c, deleting=(c.sequence or 0) > 2) for c in CLEAN.objects)
    assert [ref.name for ref in replace(CLEAN, objects=leaving).ended().delete] == [
        names.stage_name("qwen", OWNER.uid, 2)
    ]


def test_records_stored_with_the_end_count_too() -> None:
    five = sized(Scene(spec=SIX_STAGES).measuring().stored(*range(5)).at(300), RESULT_BYTES // 5)
    assert notes(five.arrived(5)) == [("records", 6, 5)]


def test_a_small_run_keeps_all_and_says_nothing() -> None:
    small = Scene().measuring().arrived(0, 1)
    assert notes(small) == []
