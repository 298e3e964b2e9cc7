"""Result documents as the cluster stores them, packed: the operator never opens them."""

import logging

from benchrun.effects.errors import NotFound
from benchrun.effects.kubernetes_api import KubernetesApi
from benchrun.observe import child_of, untrusted_json as raw
from benchrun.plan import stored_result

logger = logging.getLogger(__name__)


async def stored_document(
    cluster: KubernetesApi, namespace: str, uid: str, ref: raw.Object
) -> bytes | None:
    """Return the packed result document of the run with this uid.

    `ref` is the reference in the run's status. Return None if there is no reference, or if its
    document is gone or was replaced by another one.
    """
    if not (name := raw.text(ref.get("configMap"))):
        return None
    try:
        body = await cluster.get("ConfigMap", namespace=namespace, name=name)
    except NotFound:
        return None
    if child_of("ConfigMap", body).owner_uid != uid:
        return None
    try:
        return stored_result(body, digest=raw.text(ref.get("sha256")))
    except ValueError as error:
        logger.warning("%s/%s: %s", namespace, name, error)
        return None
