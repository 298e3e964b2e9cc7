"""Find result documents in files and in the cluster, check them, and make runs of them."""

from pathlib import Path

from pydantic_core import from_json

from benchrun.api import (
    MAX_RESULT_BYTES,
    ResultDocument,
    ResultDocumentRef,
    open_result,
    read_result,
)
from benchrun.cli import errors
from benchrun.observe import untrusted_json as raw, view_builders, views
from benchrun.plan import stored_result

_GZIP = b"\x1f\x8b"  # What every gzip stream begins with.
_SCHEMA_NAME = b'"benchrun.result/'  # Of any version.


class BadDocument(errors.CommandError):
    """A file looks like a result document but is not valid."""


def document_in(path: Path) -> ResultDocument | None:
    """Return the result document in a file, packed or not; None if the file is something else.

    Raises CommandError if the file can't be read, BadDocument if the document is not valid.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_RESULT_BYTES + 1)
    except OSError as error:
        raise errors.CommandError(f"{path}: {error.strerror}") from error
    try:
        if data.startswith(_GZIP):
            return open_result(data)
        return read_result(data) if _is_meant(data) else None
    except ValueError as error:
        raise BadDocument(
            f"{path}: {error}; write the file again: benchrun export NAME --format result"
        ) from error


def _is_meant(data: bytes) -> bool:
    """Return whether the file is a result document, valid or not.

    It is one if it is a JSON object with the field schema, which Kubernetes objects lack, or the
    beginning of such an object.
    """
    if len(data) > MAX_RESULT_BYTES or not data.lstrip().startswith(b"{"):
        return False
    if _SCHEMA_NAME in data:
        return True
    try:
        body = from_json(data)
    except ValueError:
        return False
    return isinstance(body, dict) and "schema" in body


def run_of(document: ResultDocument) -> views.Run:
    """Return the run of a document, in the form in which the cluster would return it."""
    identity = document.run
    body: raw.Object = {
        "metadata": {
            "namespace": identity.namespace,
            "name": identity.name,
            "uid": identity.uid,
            "labels": identity.labels,
        },
        "spec": document.spec.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
        ),
        "status": document.status().model_dump(
            mode="json", by_alias=True, exclude_none=True
        ),
    }
    return view_builders.labelled_run_of(body)


def document_of_ref(
    body: raw.Object, ref: ResultDocumentRef, *, run_uid: str
) -> ResultDocument:
    """Return the document that a status refers to, from its ConfigMap.

    Raises ValueError if the ConfigMap has another document or none.
    """
    document = open_result(stored_result(body, digest=ref.sha256))
    if document.run.uid != run_uid:
        raise ValueError(f"is of the run with uid {document.run.uid}")
    return document
