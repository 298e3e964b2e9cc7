"""ConfigMaps of what was measured: what is put in comes out, and what else is in there is an error
and no record."""

import json

import pytest
from benchrun import names
from benchrun.plan import (
    RECORD_KEY,
    TIMELINE_KEY,
    Manifest,
    TimelinePart,
    stage_config_map,
    stored_part,
    stored_record,
    timeline_config_map,
)
from benchrun_client.contract import seal
from hypothesis import given, strategies as st
from unit.measure.records import record, sealed_bytes
from unit.plan.specs import OWNER

BYTES = "benchrun.dev/stored-bytes"


def stage(
    *,
    packed: bytes = b"record",
    timeline: bytes | None = None,
    ends_search: str | None = None,
) -> Manifest:
    arrival = sealed_bytes(7, packed, ends_search=ends_search)
    return stage_config_map(
        OWNER,
        arrival,
        timeline=TimelinePart(timeline, through=12.5) if timeline else None,
    )


@given(st.binary(max_size=50), st.none() | st.binary(min_size=1, max_size=50))
def test_what_is_put_in_comes_out_and_its_size_stands_beside_it(
    packed: bytes, timeline: bytes | None
) -> None:
    found = stage(packed=packed, timeline=timeline)
    assert stored_part(found, RECORD_KEY) == packed
    assert stored_part(found, TIMELINE_KEY) == timeline
    assert found["metadata"]["annotations"][BYTES] == str(
        len(packed) + len(timeline or b"")
    )


def test_a_stage_tells_what_its_envelope_said() -> None:
    meta = stage()["metadata"]
    assert (meta["name"], meta["labels"]["benchrun.dev/sequence"]) == (
        "br-qwen-6316e01c-stage-007",
        "7",
    )
    assert meta["labels"]["benchrun.dev/role"] == "stage"
    assert json.loads(meta["annotations"]["benchrun.dev/envelope"]) == {
        "sequence": 7,
        "run_uid": "uid-1",
        "stage_id": "chat/rate=4/r8",
        "plan_digest": "e" * 64,
        "size": 6,
        "digest": "d" * 64,
    }
    ended = json.loads(
        stage(ends_search="chat")["metadata"]["annotations"][
            "benchrun.dev/envelope"
        ]
    )
    assert ended["ends_search"] == "chat"


CHUNK = timeline_config_map(
    OWNER, chunk=2, timeline=TimelinePart(b"t", through=12.5)
)


@pytest.mark.parametrize("found", [stage(), CHUNK])
def test_none_of_them_may_ever_change(found: Manifest) -> None:
    assert (found["kind"], found["immutable"]) == ("ConfigMap", True)
    assert BYTES in found["metadata"]["annotations"]


@pytest.mark.parametrize("found", [stage(timeline=b"t"), CHUNK])
def test_until_when_its_timeline_goes_stands_beside_it(found: Manifest) -> None:
    assert float(found["metadata"]["annotations"][names.ANNOTATION_THROUGH]) == 12.5
    assert stored_part(found, TIMELINE_KEY) == b"t"


def test_a_chunk_goes_with_the_timeline() -> None:
    assert CHUNK["metadata"]["name"] == "br-qwen-6316e01c-chunk-002"
    assert CHUNK["metadata"]["labels"]["benchrun.dev/role"] == "timeline"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"binaryData": None},
        {"binaryData": []},
        {"binaryData": {"other": "eA=="}},
    ],
)
def test_where_nothing_is_held_nothing_is_read(body: dict[str, object]) -> None:
    assert stored_part(body, RECORD_KEY) is None
    with pytest.raises(ValueError):
        stored_record(body, run_uid="u", sequence=1)


def test_invalid_base64_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"padding|base64"):
        stored_part({"binaryData": {RECORD_KEY: "abc"}}, RECORD_KEY)


def test_a_record_is_taken_for_the_run_and_the_number_that_it_says_only() -> None:
    kept = record(sequence=3)
    body = stage(packed=seal(kept)[1])
    assert stored_record(body, run_uid=kept.run_uid, sequence=3) == kept
    for uid, sequence in ((kept.run_uid, 4), ("another", 3), (kept.run_uid, None)):
        with pytest.raises(
            ValueError,
            match=f"^the record is of another run or stage: 3 of run {kept.run_uid}$",
        ):
            stored_record(body, run_uid=uid, sequence=sequence)


def test_an_invalid_record_is_an_error() -> None:
    with pytest.raises(ValueError):
        stored_record(stage(packed=b"not a record"), run_uid="u", sequence=1)
