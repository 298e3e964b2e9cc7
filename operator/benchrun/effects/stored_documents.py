"""Result documents as the cluster stores them, packed: the operator never opens them."""

import logging

from benchrun.effects.errors import NotFound
from benchrun.effects.kubernetes_api import KubernetesApi
from benchrun.observe import Run, child_of, untrusted_json as raw
from benchrun.plan import stored_result

logger = logging.getLogger(__name__)


async def stored_document(cluster: KubernetesApi, run: Run) -> bytes | None:
    """Return the packed result document that the status of a run refers to.

    None where it refers to none, or what it refers to is gone or another one.
    """
    ref = raw.mapping(run.status.get("resultDocument"))
    if not (name := raw.text(ref.get("configMap"))):
        return None
    try:
        body = await cluster.get("ConfigMap", namespace=run.namespace, name=name)
    except NotFound:
        return None
    if child_of("ConfigMap", body).owner_uid != run.uid:
        return None
    try:
        return stored_result(body, digest=raw.text(ref.get("sha256")))
    except ValueError:
        logger.warning(
            "%s/%s: no result document in %s", run.namespace, run.name, name
        )
        return None
