"""A record is stored in the pass it comes in, and only then the client is told."""

import base64
from dataclasses import replace

import pytest
from benchrun import names
from benchrun.decide import PLAN_BYTES, RESULT_BYTES, kept
from benchrun.measure import decode
from benchrun.observe import Child, child_of
from benchrun_client.contract import open_record
from hypothesis import given, strategies as st
from unit.decide.scenes import Scene
from unit.decide.summaries import applied, deleted
from unit.plan.specs import OWNER, rates, spec_body, workload

MEASURING = Scene().measuring()


@pytest.mark.parametrize(
    ("stored", "acknowledged", "scene"),
    [
        pytest.param([], None, MEASURING, id="nothing came"),
        pytest.param(
            ["ConfigMap stage 0"], 1, MEASURING.arrived(0), id="the first"
        ),
        pytest.param(
            ["ConfigMap stage 1"],
            None,
            MEASURING.arrived(1),
            id="the second, but not the first",
        ),
        pytest.param(
            [],
            1,
            MEASURING.arrived(0).stored(0).arrived(0),
            id="one comes again: the client did not hear",
        ),
        pytest.param(
            [],
            1,
            MEASURING.stored(0),
            id="it is said again: the runtime knows what was heard",
        ),
    ],
)
def test_stored_and_acknowledged(
    stored: list[str], acknowledged: int | None, scene: Scene
) -> None:
    decision = scene.decide()
    assert (applied(decision), decision.acknowledge) == (stored, acknowledged)


def test_what_is_stored_is_the_record_byte_for_byte() -> None:
    scene = MEASURING.arrived(0)
    (manifest,) = scene.decide().apply
    (came,) = scene.collected.arrivals.values()
    data = base64.b64decode(manifest["binaryData"]["record.json.gz"])
    assert data == came.body
    assert open_record(data) == scene.measured[0]
    assert child_of("ConfigMap", manifest).envelope == came.envelope


def test_a_client_that_has_left_gets_no_delivery() -> None:
    assert (
        MEASURING.arrived(0).pod("client", phase="Failed").decide().acknowledge
        is None
    )


def test_the_timeline_goes_with_the_first_record_of_a_pass() -> None:
    first, second = (
        Scene()
        .with_spec(repeats=2)
        .measuring()
        .arrived(0, 1)
        .sampled(71, 72)
        .decide()
        .apply
    )
    timeline = decode(base64.b64decode(first["binaryData"]["timeline.json.gz"]))
    assert [s.running for s in timeline] == [4.0, 4.0]
    assert "timeline.json.gz" not in second["binaryData"]


def test_a_stage_is_reported_with_the_record_of_the_one_before() -> None:
    """Two writes a stage, once: the client names the next one a moment before its record comes."""
    first = Scene().measuring().settled()
    ahead = first.reports(stage="chat/rate=4/r1").settled()
    progress = [
        scene.decide().status.progress for scene in (first, ahead, ahead.arrived(0))
    ]
    assert [(p.stages_done, p.stage) for p in progress if p is not None] == [
        (0, "chat/rate=1/r1"),
        (0, "chat/rate=1/r1"),
        (1, "chat/rate=4/r1"),
    ]


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        pytest.param([], 319, id="239 s old"),
        pytest.param(["ConfigMap timeline"], 320, id="240 s old"),
    ],
)
def test_the_timeline_of_a_long_stage_is_stored_every_four_minutes(
    stored: list[str], now: int
) -> None:
    assert applied(MEASURING.sampled(80, 100, 120).at(now).decide()) == stored


@pytest.mark.parametrize(
    ("there", "number"),
    [
        pytest.param([], "000", id="the first"),
        pytest.param([0, 1, 2], "003", id="after the others"),
        # Counted, it would have the name of one that is there, and would never be stored.
        pytest.param([1], "002", id="after one that is left"),
    ],
)
def test_timeline_chunks_are_numbered_on(there: list[int], number: str) -> None:
    chunks = tuple(chunk(n, KIB) for n in there)
    scene = (
        replace(MEASURING, objects=(*MEASURING.objects, *chunks))
        .sampled(80)
        .at(320)
    )
    (manifest,) = scene.decide().apply
    assert manifest["metadata"]["name"] == f"br-qwen-6316e01c-chunk-{number}"


def test_the_client_is_polled_for_records_that_are_not_stored() -> None:
    followed = [scene.decide().pull for scene in (MEASURING, MEASURING.stored(0))]
    assert [
        target.from_sequence if target is not None else None for target in followed
    ] == [0, 1]


KIB = 1024
RATES = [str(rate) for rate in range(1, 7)]
SIX_STAGES = spec_body(workloads=[workload("chat", load=rates(*RATES))])


def stored(name: str, role: str, size: int) -> Child:
    return Child("ConfigMap", name, "", role, OWNER.uid, False, stored_bytes=size)


def stage(number: int, size: int) -> Child:
    return stored(
        names.stage_name("qwen", OWNER.uid, number), names.ROLE_STAGE, size
    )


def chunk(number: int, size: int) -> Child:
    return stored(
        names.timeline_name("qwen", OWNER.uid, number), names.ROLE_TIMELINE, size
    )


@pytest.mark.parametrize(
    ("expected", "stored"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(
            [0, 1], [stage(0, 400 * KIB), stage(1, 400 * KIB)], id="all fit"
        ),
        pytest.param(
            [0, 1],
            [stage(n, 400 * KIB) for n in (2, 1, 0)],
            id="the first that fit, in plan order",
        ),
        pytest.param(
            [0],
            [stage(0, 10), stage(1, 900 * KIB), stage(2, 10)],
            id="up to the first that does not",
        ),
        pytest.param([], [stage(0, 1000 * KIB)], id="the first does not"),
        pytest.param([0], [stage(0, RESULT_BYTES)], id="exactly"),
        pytest.param([], [stage(0, RESULT_BYTES + 1)], id="a byte too many"),
        pytest.param(
            [0],
            [chunk(0, 200 * KIB), stage(0, 400 * KIB), stage(1, 400 * KIB)],
            id="after the timeline",
        ),
    ],
)
def test_records_that_stay(expected: list[int], stored: list[Child]) -> None:
    stay = [s for s in kept(stored, result=None) if s.role == names.ROLE_STAGE]
    assert [s.name for s in stay] == [
        names.stage_name("qwen", OWNER.uid, number) for number in expected
    ]


def test_a_long_timeline_leaves_half_of_the_room_to_the_records() -> None:
    stay = kept(
        [
            *(chunk(n, 10 * KIB) for n in range(1200)),
            *(stage(n, 100 * KIB) for n in range(9)),
        ],
        result=None,
    )
    assert [s.name for s in stay if s.role == names.ROLE_TIMELINE] == [
        names.timeline_name("qwen", OWNER.uid, n) for n in range(44)
    ]
    assert len([s for s in stay if s.role == names.ROLE_STAGE]) == 4


@given(
    st.lists(st.integers(0, 300 * KIB), max_size=20),
    st.lists(st.integers(0, 100 * KIB), max_size=20),
)
def test_kept_records_fit_and_stay_kept(
    stages: list[int], chunks: list[int]
) -> None:
    stored = [
        *(stage(n, size) for n, size in enumerate(stages)),
        *(chunk(n, size) for n, size in enumerate(chunks)),
    ]
    stay = kept(stored, result=None)
    assert sum(s.stored_bytes for s in stay) + PLAN_BYTES <= 1024 * KIB
    assert kept(stay, result=None) == stay
    # Cut off anywhere while it deletes, from the end: the next one keeps the same.
    gone = sorted(set(stored) - set(stay), key=lambda s: (len(s.name), s.name))
    for left in range(len(gone)):
        assert kept([*stay, *gone[:left]], result=None) == stay


def sized(scene: Scene, size: int) -> Scene:
    """Its records take so much each."""
    return replace(
        scene, objects=tuple(_sized(child, size) for child in scene.objects)
    )


def _sized(child: Child, size: int) -> Child:
    return (
        replace(child, stored_bytes=size)
        if child.role == names.ROLE_STAGE
        else child
    )


ALL_STORED = sized(
    Scene(spec=SIX_STAGES).measuring().stored(*range(6)).at(300), 300 * KIB
)
CLEAN = (
    ALL_STORED.answered()
    .settled()
    .without("Deployment", "server")
    .without("Job", "client")
)


def notes(scene: Scene) -> list[tuple[str, int, int]]:
    return [(t.field, t.total, t.included) for t in scene.ended().status.truncated]


def test_it_is_judged_by_all_and_says_which_are_kept() -> None:
    status = ALL_STORED.ended().status
    assert (status.phase, len(status.results), status.verdict) == (
        "Completed",
        6,
        "Valid",
    )
    assert notes(ALL_STORED) == [("records", 6, 2)]


def test_nothing_is_thrown_away_before_the_status_says_so() -> None:
    assert "ConfigMap" not in deleted(ALL_STORED.ended())


def test_then_the_others_go_from_the_end() -> None:
    assert [ref.name for ref in CLEAN.ended().delete] == [
        names.stage_name("qwen", OWNER.uid, n) for n in (5, 4, 3, 2)
    ]
    assert (
        CLEAN.ended().delete == CLEAN.operator_restarted().at(10_000).ended().delete
    )


def test_remaining_records_are_not_deleted() -> None:
    left = replace(
        CLEAN, objects=tuple(c for c in CLEAN.objects if (c.sequence or 0) < 2)
    )
    assert left.ended().delete == ()


def test_what_is_on_its_way_out_is_not_deleted_twice() -> None:
    leaving = tuple(
        replace(c, deleting=(c.sequence or 0) > 2) for c in CLEAN.objects
    )
    assert [ref.name for ref in replace(CLEAN, objects=leaving).ended().delete] == [
        names.stage_name("qwen", OWNER.uid, 2)
    ]


def test_records_stored_with_the_end_count_too() -> None:
    five = sized(
        Scene(spec=SIX_STAGES).measuring().stored(*range(5)).at(300),
        RESULT_BYTES // 5,
    )
    assert notes(five.arrived(5)) == [("records", 6, 4)]


def test_a_small_run_keeps_all_and_reports_nothing() -> None:
    assert notes(Scene().measuring().arrived(0, 1)) == []


def test_a_record_beyond_the_plan_that_somebody_forged_breaks_nothing() -> None:
    scene = MEASURING.stored(0, 1)
    forged = replace(
        next(c for c in scene.objects if c.sequence == 1), name="forged", sequence=2
    )
    decision = replace(scene, objects=(*scene.objects, forged)).decide()
    assert (decision.acknowledge, deleted(decision)) == (2, deleted(scene.decide()))
