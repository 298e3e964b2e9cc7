"""What went over the wire between operator and client of each release is still read, and nothing of
it is lost without a new version.

`samples` has a message of every kind with something in every field, as its release wrote it: never
change one, add one with a version. `shapes.json` has all fields and values that the messages of this
release may have; `UPDATE_GOLDEN=1` adds new ones to it, and takes none away.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import (
    CONTRACT_VERSION,
    SPOKEN,
    Acknowledgement,
    ClientProgress,
    ContractMismatch,
    Delivery,
    Envelope,
    Failure,
    Message,
    Plan,
    StageRecord,
    as_asked,
    open_record,
    pack_delivery,
    unpack_delivery,
)
from benchrun_client.contract.record import packed_record
from benchrun_client.failures import RunFailure
from benchrun_client.run import read_plan
from unit.golden_messages import UPDATES

HERE = Path(__file__).parent
SAMPLES = HERE / "samples"
SHAPES = HERE / "shapes.json"
MESSAGES: dict[str, type[Message]] = {
    "plan": Plan,
    "record": StageRecord,
    "delivery": Delivery,
    "envelope": Envelope,
    "acknowledgement": Acknowledgement,
    "failure": Failure,
}
Json = dict[str, Any]


def sample(name: str) -> Json:
    found: Json = json.loads((SAMPLES / f"{name}.json").read_text())
    return found


def written(message: Message) -> Json:
    """As the message goes over the wire."""
    if isinstance(message, Plan):
        text: str | bytes = message.to_json()
    elif isinstance(message, StageRecord):
        text = gzip.decompress(packed_record(message))
    else:
        text = message.model_dump_json()
    found: Json = json.loads(text)
    return found


# ---- samples
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.iterdir()))
def test_what_a_release_wrote_is_read_and_written_as_it_was(name: str) -> None:
    """A field that came since is left out: the other release would refuse it."""
    kind = MESSAGES[name.partition("-")[0]]
    assert written(kind.model_validate(sample(name))) == sample(name)


def test_there_is_a_sample_of_every_message_and_of_every_version_spoken() -> None:
    names = {path.stem for path in SAMPLES.iterdir()}
    assert {name.partition("-")[0] for name in names} == MESSAGES.keys()
    assert {f"delivery-{version}" for version in SPOKEN} <= names
    assert {"plan-2", "record-1"} <= names


@pytest.mark.parametrize("version", SPOKEN)
def test_a_delivery_of_this_version_and_the_one_before_is_taken(
    version: int,
) -> None:
    head = sample(f"delivery-{version}")
    bodies = [b"x" * envelope["size"] for envelope in head["records"]]
    packed = json.dumps(head).encode() + b"\n" + b"".join(bodies)
    found, taken = unpack_delivery(packed)
    assert (found.contract, list(taken)) == (version, bodies)


def test_two_versions_are_spoken_and_follow_each_other() -> None:
    assert SPOKEN == (CONTRACT_VERSION - 1, CONTRACT_VERSION)


@pytest.mark.parametrize("version", [SPOKEN[0] - 1, SPOKEN[-1] + 1, 99])
def test_any_other_is_refused_naming_both_sides(version: int) -> None:
    head = sample(f"delivery-{CONTRACT_VERSION}") | {"contract": version}
    with pytest.raises(ContractMismatch) as refused:
        unpack_delivery(json.dumps(head).encode() + b"\n")
    assert refused.value.theirs == version
    for named in (version, *SPOKEN):
        assert str(named) in str(refused.value)


# ---- what is asked for
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "answered"),
    [(None, 2), (1, 2), (2, 2), (3, 3), (4, 3), (10**30, 3), (-1, 2)],
)
def test_a_client_answers_in_the_newest_version_that_both_know(
    asked: int | None, answered: int
) -> None:
    """An operator that does not ask is of contract 2; one of a later contract is told of this."""
    progress = ClientProgress(version=1, phase="Waiting", release="0.2.0")
    told = as_asked(Delivery(run_uid="run-1", progress=progress), asked)
    assert told.contract == answered
    head, _, _ = pack_delivery(told, ()).partition(b"\n")
    assert ("release" in json.loads(head)["progress"]) == (answered >= 3)
    assert unpack_delivery(pack_delivery(told, ()))[0] == told


# ---- plans of another release
# -------------------------------------------------------------------------------------------------


def refused_plan(folder: Path, plan: Json) -> RunFailure:
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    with pytest.raises(RunFailure) as refused:
        read_plan(path)
    return refused.value


@pytest.mark.parametrize("schema", ["benchrun.plan/1", "benchrun.plan/3"])
def test_a_plan_of_another_schema_ends_the_run_naming_both(
    schema: str, tmp_path: Path
) -> None:
    failure = refused_plan(tmp_path, sample("plan-2") | {"schema": schema})
    assert (failure.reason, failure.exit_code) == ("ContractMismatch", 2)
    for named in (schema, "benchrun.plan/2", "spec.client.image"):
        assert named in failure.message


def test_a_plan_with_a_field_of_a_later_release_is_no_wrong_plan(
    tmp_path: Path,
) -> None:
    later = sample("plan-2")
    later["target"]["sharding"] = {"axis": 2}
    failure = refused_plan(tmp_path, later)
    assert (failure.reason, "sharding" in failure.message) == (
        "ContractMismatch",
        True,
    )
    newer_load = sample("plan-2")
    newer_load["stages"][0]["load"]["kind"] = "Tides"
    assert refused_plan(tmp_path, newer_load).reason == "ContractMismatch"


def test_a_plan_that_is_wrong_is_wrong(tmp_path: Path) -> None:
    wrong = sample("plan-2") | {"health_deadline_seconds": -1}
    assert refused_plan(tmp_path, wrong).reason == "InvalidPlan"


def test_a_record_of_another_schema_is_refused_naming_both() -> None:
    record = sample("record-1") | {"schema": "benchrun.record/2"}
    with pytest.raises(ValueError, match=r"benchrun\.record/2.*benchrun\.record/1"):
        open_record(gzip.compress(json.dumps(record).encode()))


# ---- shapes
# -------------------------------------------------------------------------------------------------

NOT_ON_THE_WIRE = {"title", "description", "default"}


def shape(node: Any) -> Any:
    """A JSON schema without what is said for people only; what has no order is sorted."""
    if isinstance(node, dict):
        return {
            name: (
                {field: shape(child) for field, child in value.items()}
                if name == "properties"
                else shape(value)
            )
            for name, value in sorted(node.items())
            if name not in NOT_ON_THE_WIRE
        }
    if isinstance(node, list):
        return sorted(map(shape, node), key=lambda each: json.dumps(each))
    return node


def shapes() -> Json:
    """Every model of the messages, by its name."""
    found: Json = {}
    for model in MESSAGES.values():
        schema = model.model_json_schema(by_alias=True)
        found |= schema.pop("$defs", {})
        found[model.__name__] = schema
    return {name: shape(found[name]) for name in sorted(found)}


def lost(old: Any, new: Any, place: str) -> list[str]:
    """Where something that was there before is missing or another, or is required now."""
    if isinstance(old, dict) and isinstance(new, dict):
        more = set(new.get("required", ())) - set(old.get("required", ()))
        return [
            *(f"{place}: {name} is required" for name in sorted(more)),
            *(f"{place}.{name} is gone" for name in old.keys() - new.keys()),
            *(
                each
                for name in old.keys() & new.keys()
                if name != "required"
                for each in lost(old[name], new[name], f"{place}.{name}")
            ),
        ]
    if isinstance(old, list) and isinstance(new, list):
        return [f"{place}: {each} is gone" for each in old if each not in new]
    return [] if old == new else [f"{place}: was {old}, is {new}"]


def test_no_field_or_value_is_lost_without_a_new_version() -> None:
    """Raise CONTRACT_VERSION, or the schema of plan or record, and keep reading the one before."""
    kept = json.loads(SHAPES.read_text())
    assert lost(kept, shapes(), "") == []
    if UPDATES:
        SHAPES.write_text(json.dumps(shapes(), indent=1) + "\n")
    assert json.loads(SHAPES.read_text()) == shapes(), "UPDATE_GOLDEN=1 adds them"


def test_what_is_lost_is_found() -> None:
    old = {"A": {"required": ["x"], "properties": {"x": {"enum": [1, 2]}}}}
    assert lost(old, {"A": {**old["A"], "properties": {}}}, "") == [
        ".A.properties.x is gone"
    ]
    assert len(lost(old, {}, "")) == 1
    assert len(lost(old, {"A": {**old["A"], "required": ["x", "y"]}}, "")) == 1
    fewer = {"A": {"required": ["x"], "properties": {"x": {"enum": [1]}}}}
    assert len(lost(old, fewer, "")) == 1
    more = {
        "A": {"required": ["x"], "properties": {"x": {"enum": [1, 2, 3]}}},
        "B": {},
    }
    assert lost(old, more, "") == []
