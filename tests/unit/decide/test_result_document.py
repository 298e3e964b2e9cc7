"""The result document is stored before the status that refers to it, or it is lost; the run ends."""

from dataclasses import replace
from datetime import timedelta

from benchrun import names
from benchrun.api import open_result
from benchrun.decide import Evaluation, Judging, RefusedObject
from benchrun.decide.create_and_release import RESULT_BYTES, kept
from benchrun.observe import Child, child_of
from benchrun.plan import RESULT_KEY, PackedResult, result_config_map, stored_part
from unit.decide.scenes import Scene, instant
from unit.decide.summaries import applied, deleted, standing
from unit.plan.specs import OWNER

MEASURED = Scene().measuring().stored(0, 1).at(300)
REFUSED = RefusedObject(
    "ConfigMap",
    "br-qwen-6316e01c-doc-000000",
    names.ROLE_RESULT,
    "exceeded quota",
    curable=True,
)


def document_of(scene: Scene) -> PackedResult:
    """The document that the judge has answered with."""
    values = (
        answer.value for answer in scene.answered().collected.answers.values()
    )
    (found,) = (value.document for value in values if isinstance(value, Evaluation))
    assert found is not None
    return found


def stored(result: PackedResult, size: int | None = None) -> Child:
    return Child(
        kind="ConfigMap",
        name=names.result_name(OWNER.name, OWNER.uid, result.digest),
        uid="of the document",
        role=names.ROLE_RESULT,
        owner_uid=OWNER.uid,
        deleting=False,
        result_digest=result.digest,
        stored_bytes=len(result.data) if size is None else size,
    )


def test_it_is_written_with_the_status_that_refers_to_it() -> None:
    decision = MEASURED.ended()
    (manifest,) = decision.apply
    packed = stored_part(manifest, RESULT_KEY)
    reference = decision.status.result_document
    assert packed is not None
    assert reference is not None
    assert reference.config_map == manifest["metadata"]["name"]
    assert (reference.sha256, reference.bytes) == (
        PackedResult.of(packed).digest,
        len(packed),
    )
    assert open_result(packed).results == decision.status.results
    assert decision.forget


def test_one_that_is_there_is_not_written_again() -> None:
    there = replace(
        MEASURED, objects=(*MEASURED.objects, stored(document_of(MEASURED)))
    )
    decision = there.ended()
    assert (applied(decision), decision.status) == ([], MEASURED.ended().status)


def test_a_refused_one_is_tried_again_for_ten_minutes() -> None:
    refused = MEASURED.answered().knowing(
        refused_object=REFUSED, refused_at=instant(300)
    )
    decision = refused.at(301).decide()
    assert (decision.forget, decision.apply, decision.status.phase) == (
        False,
        (),
        "Collecting",
    )
    again = refused.at(316).decide()
    assert (again.forget, applied(again)) == (False, ["ConfigMap result"])
    assert not any(isinstance(query, Judging) for query in again.lookups)


def test_a_run_whose_document_is_refused_ends_without_it() -> None:
    refused = MEASURED.answered().knowing(
        refused_object=REFUSED, refused_at=instant(300)
    )
    waiting = refused.settled()
    decision = waiting.at(300 + timedelta(minutes=11).total_seconds()).ended()
    status = decision.status
    assert (decision.apply, status.result_document) == ((), None)
    assert (status.phase, status.verdict) == ("Completed", "Valid")
    assert standing(status, "Stored") == {"Stored": "False (RecordsNotStored)"}


def test_it_stays_where_records_have_to_go() -> None:
    whole = PackedResult.of(b"whole")
    document = stored(whole, RESULT_BYTES // 2)
    records = [
        replace(child, stored_bytes=RESULT_BYTES // 3)
        for child in MEASURED.objects
        if child.role == names.ROLE_STAGE
    ]
    stay = kept([*records, document], result=document.name)
    assert [child.role for child in stay] == [names.ROLE_RESULT, names.ROLE_STAGE]
    assert [child.role for child in kept([*records, document], result=None)] == [
        "stage",
        "stage",
    ]


def test_one_that_the_status_does_not_refer_to_goes_after_the_end() -> None:
    lost = stored(PackedResult.of(b"of an operator that died"))
    mine = stored(document_of(MEASURED))
    ended = (
        replace(MEASURED, objects=(*MEASURED.objects, lost, mine))
        .answered()
        .settled()
    )
    decision = (
        ended.without("Deployment", "server").without("Job", "client").ended()
    )
    assert [ref.name for ref in decision.delete] == [lost.name]
    assert "ConfigMap" in deleted(decision)


def test_its_name_says_which_document_it_is() -> None:
    one, other = (
        result_config_map(OWNER, PackedResult.of(data))["metadata"]["name"]
        for data in (b"1", b"2")
    )
    assert one != other
    assert (
        len(names.result_name("r" * names.MAX_RUN_NAME, OWNER.uid, "f" * 64)) <= 63
    )


def test_the_one_that_was_written_is_known_by_its_digest_and_its_name() -> None:
    result = PackedResult.of(b"whole")
    manifest = result_config_map(OWNER, result)
    child = child_of("ConfigMap", manifest)
    assert (
        child.role,
        child.owner_uid,
        child.result_digest,
        child.stored_bytes,
    ) == (
        names.ROLE_RESULT,
        OWNER.uid,
        result.digest,
        5,
    )
    manifest["metadata"]["annotations"][names.ANNOTATION_RESULT_DIGEST] = "f" * 64
    assert child_of("ConfigMap", manifest).owner_uid is None
