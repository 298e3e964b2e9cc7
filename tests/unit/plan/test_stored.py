"""ConfigMaps of what was measured: what is put in comes out, and what else is in there is an error and no record."""

from __future__ import annotations

import base64
import json

import pytest
from benchrun.plan.metadata import Manifest
from benchrun.plan.stored import (
    COMPILATIONS_KEY,
    RECORD_KEY,
    TIMELINE_KEY,
    log_config_map,
    stage_config_map,
    stored_compilations,
    stored_part,
    stored_record,
    timeline_config_map,
)
from benchrun_client.contract import Envelope
from hypothesis import given
from hypothesis import strategies as st
from unit.measure.records import record
from unit.plan.specs import OWNER

BYTES = "benchrun.dev/stored-bytes"


def stage(*, packed: bytes = b"record", timeline: bytes | None = None, ends_search: str | None = None) -> Manifest:
    return stage_config_map(OWNER, sequence=7, digest="d", record=packed, timeline=timeline, ends_search=ends_search)


@given(st.binary(max_size=50), st.none() | st.binary(max_size=50))
def test_what_is_put_in_comes_out_and_its_size_stands_beside_it(packed: bytes, timeline: bytes | None) -> None:
    found = stage(packed=packed, timeline=timeline)
    assert stored_part(found, RECORD_KEY) == packed
    assert stored_part(found, TIMELINE_KEY) == timeline
    assert found["metadata"]["annotations"][BYTES] == str(len(packed) + len(timeline or b""))


def test_a_stage_tells_number_digest_and_whether_it_ends_a_search() -> None:
    meta = stage()["metadata"]
    assert (meta["name"], meta["labels"]["benchrun.dev/sequence"]) == ("br-qwen-stage-007-a1", "7")
    assert meta["labels"]["benchrun.dev/role"] == "stage"
    assert meta["annotations"]["benchrun.dev/record-digest"] == "d"
    assert "benchrun.dev/ends-search" not in meta["annotations"]
    assert stage(ends_search="chat")["metadata"]["annotations"]["benchrun.dev/ends-search"] == "chat"


def test_none_of_them_may_ever_change() -> None:
    for found in (stage(), timeline_config_map(OWNER, chunk=2, timeline=b"t"), log_config_map(OWNER, compilations=())):
        assert (found["kind"], found["immutable"]) == ("ConfigMap", True)
        assert {"benchrun.dev/applied-hash", BYTES} <= found["metadata"]["annotations"].keys()


def test_a_chunk_and_the_log_go_with_the_timeline() -> None:
    chunk, log = timeline_config_map(OWNER, chunk=2, timeline=b"t"), log_config_map(OWNER, compilations=(1.5,))
    assert [m["metadata"]["name"] for m in (chunk, log)] == ["br-qwen-timeline-002-a1", "br-qwen-log-a1"]
    assert {m["metadata"]["labels"]["benchrun.dev/role"] for m in (chunk, log)} == {"timeline"}
    assert stored_part(chunk, TIMELINE_KEY) == b"t"


@pytest.mark.parametrize("instants", [(), (1.5,), (1700000000.25, 1700000001.0)])
def test_instants_of_the_log_come_out_as_they_went_in(instants: tuple[float, ...]) -> None:
    assert stored_compilations(log_config_map(OWNER, compilations=instants)) == instants


def holding(value: object) -> Manifest:
    return {"binaryData": {COMPILATIONS_KEY: base64.b64encode(json.dumps(value).encode()).decode()}}


@pytest.mark.parametrize("value", [{}, "now", 1, [1, "2"], [None], [[1]]])
def test_what_is_no_list_of_instants_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match=r"compilations\.json is not a list of instants"):
        stored_compilations(holding(value))


def test_whole_seconds_are_instants_too() -> None:
    assert stored_compilations(holding([1, 2.5])) == (1.0, 2.5)


@pytest.mark.parametrize("body", [{}, {"binaryData": None}, {"binaryData": []}, {"binaryData": {"other": "eA=="}}])
def test_where_nothing_is_held_nothing_is_read(body: dict[str, object]) -> None:
    assert stored_part(body, RECORD_KEY) is None
    assert stored_compilations(body) is None


def test_what_is_no_base64_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"padding|base64"):
        stored_part({"binaryData": {RECORD_KEY: "abc"}}, RECORD_KEY)


def test_a_record_is_taken_for_the_run_and_the_number_that_it_says_only() -> None:
    kept = record(sequence=3)
    packed = Envelope.seal(kept).data()
    assert stored_record(packed, run_uid=kept.run_uid, sequence=3) == kept
    for uid, sequence in ((kept.run_uid, 4), ("another", 3), (kept.run_uid, None)):
        with pytest.raises(ValueError, match=f"^holds record 3 of run {kept.run_uid}$"):
            stored_record(packed, run_uid=uid, sequence=sequence)


def test_what_is_no_record_is_an_error() -> None:
    with pytest.raises(ValueError):
        stored_record(b"not a record", run_uid="u", sequence=1)
