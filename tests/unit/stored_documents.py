"""Result documents as the cluster holds them: a ConfigMap, and the reference in the status."""

from typing import Any

from benchrun.api import ResultDocument, ResultDocumentRef, packed_json, result_json
from benchrun.plan import Owner, PackedResult, result_config_map


def stored_document(
    document: ResultDocument, owner: Owner
) -> tuple[ResultDocumentRef, dict[str, Any]]:
    """Return the reference to the document and its ConfigMap."""
    packed = PackedResult.of(packed_json(result_json(document)))
    config_map = result_config_map(owner, packed)
    ref = ResultDocumentRef(
        config_map=config_map["metadata"]["name"],
        sha256=packed.digest,
        bytes=len(packed.data),
    )
    return ref, config_map
