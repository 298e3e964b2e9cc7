"""A record is stored in the pass it comes in, and only then the client is told."""

from __future__ import annotations

import base64

import pytest
from benchrun.measure.timeline import decode
from benchrun_client.contract import open_record
from unit.decide.saying import applied
from unit.decide.scenes import Scene

MEASURING = Scene().measuring()


@pytest.mark.parametrize(
    ("stored", "acknowledged", "scene"),
    [
        pytest.param([], None, MEASURING, id="nothing came"),
        pytest.param(["ConfigMap stage 0"], 1, MEASURING.arrived(0), id="the first"),
        pytest.param(["ConfigMap stage 1"], None, MEASURING.arrived(1), id="the second, but not the first"),
        pytest.param([], 1, MEASURING.arrived(0).stored(0).arrived(0), id="one comes again: the client did not hear"),
        pytest.param([], 1, MEASURING.stored(0), id="it is said again: the runtime knows what was heard"),
    ],
)
def test_stored_and_acknowledged(stored: list[str], acknowledged: int | None, scene: Scene) -> None:
    decision = scene.decide()
    assert (applied(decision), decision.acknowledge) == (stored, acknowledged)


def test_what_is_stored_is_the_record_byte_for_byte() -> None:
    scene = MEASURING.arrived(0)
    (manifest,) = scene.decide().apply
    (came,) = scene.collected.arrivals.values()
    data = base64.b64decode(manifest["binaryData"]["record.json.gz"])
    assert data == came.data
    assert open_record(data) == scene.measured[0]
    assert manifest["metadata"]["annotations"]["benchrun.dev/record-digest"] == came.digest


def test_a_client_that_has_left_is_told_nothing() -> None:
    assert MEASURING.arrived(0).pod("client", phase="Failed").decide().acknowledge is None


def test_the_timeline_goes_with_the_first_record_of_a_pass() -> None:
    first, second = Scene().with_spec(repeats=2).measuring().arrived(0, 1).sampled(71, 72).decide().apply
    timeline = decode(base64.b64decode(first["binaryData"]["timeline.json.gz"]))
    assert [s.running for s in timeline.samples] == [4.0, 4.0]
    assert "timeline.json.gz" not in second["binaryData"]


def test_a_stage_is_told_with_the_record_of_the_one_before() -> None:
    """Two writes a stage, once: the client names the next one a moment before its record comes."""
    first = Scene().measuring().settled()
    ahead = first.says(stage="chat/rate=4/r1").settled()
    progress = [scene.decide().status.progress for scene in (first, ahead, ahead.arrived(0))]
    assert [(p.stages_done, p.stage) for p in progress if p is not None] == [
        (0, "chat/rate=1/r1"),
        (0, "chat/rate=1/r1"),
        (1, "chat/rate=4/r1"),
    ]


@pytest.mark.parametrize(
    ("stored", "now"),
    [pytest.param([], 319, id="239 s old"), pytest.param(["ConfigMap timeline"], 320, id="240 s old")],
)
def test_the_timeline_of_a_long_stage_is_stored_every_four_minutes(stored: list[str], now: int) -> None:
    assert applied(MEASURING.sampled(80, 100, 120).at(now).decide()) == stored


def test_timeline_chunks_are_numbered_on() -> None:
    three = MEASURING.having(*[("ConfigMap", "timeline")] * 3)
    (manifest,) = three.sampled(80).at(320).decide().apply
    assert manifest["metadata"]["name"] == "br-qwen-6316e01c-chunk-003"


def test_the_client_is_asked_for_what_is_not_stored() -> None:
    followed = [scene.decide().pull for scene in (MEASURING, MEASURING.stored(0))]
    assert [target.from_sequence if target is not None else None for target in followed] == [0, 1]
