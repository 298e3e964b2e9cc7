"""Causes of failure named by libraries that engines share: the hub's client, torch, argparse."""

import re
from collections.abc import Mapping

from benchrun_client.engines.engine import LogCause

_HUB = "huggingface_hub 2.4"
_OLD_HUB = "huggingface_hub 0.36"
_TRANSFORMERS = "transformers 5.19"
_URLLIB3 = "urllib3 2.8"
_HTTPX = "httpx 0.28"
_TORCH = "torch 2.13"
_PYTHON = "Python 3.12"

USAGE = {": error: ": _PYTHON}
"""Phrases of argparse, which exits with code 2."""
OUT_OF_GPU_MEMORY = {
    "out of memory. tried to allocate": _TORCH,
    "outofmemoryerror": _TORCH,
    "cuda out of memory": _TORCH,
    "hip out of memory": _TORCH,
}

_GATED_CAUSE = (
    "ModelGated",
    "The hub refuses this model",
    "Accept the model's conditions on the hub, put a token of that account into a Secret, "
    "and name it in spec.model.source.hub.tokenSecretRef.",
)
_GATED = {
    "cannot access gated repo": _HUB,
    "you are trying to access a gated repo": _TRANSFORMERS,
    "is a gated repository": _TRANSFORMERS,
    "is restricted and you are not in the authorized list": _HUB,
    "is restricted. you must have access to it": _HUB,
    "gatedrepoerror": _HUB,
}
_REFUSED = {
    "401 client error": _HUB,
    "403 client error": _HUB,
    "401 unauthorized": _HTTPX,
    "403 forbidden": _HTTPX,
}
_NOT_FOUND = {
    "is not a local folder and is not a valid model identifier": _TRANSFORMERS,
    "repository not found for url": _HUB,
    "revision not found for url": _HUB,
    "is not a valid git identifier": _TRANSFORMERS,
    "repo id must be in the form": _HUB,
    "does not appear to have a file named": _TRANSFORMERS,
    "cannot find an appropriate cached snapshot folder": _HUB,
}
_NOT_REACHED = {
    "we couldn't connect to 'http": _TRANSFORMERS,
    "couldn't reach the hub": _OLD_HUB,
    "trying to locate the file on the hub": _HUB,
    "nameresolutionerror": _URLLIB3,
    "max retries exceeded with url": _URLLIB3,
    "proxyerror": _URLLIB3,
    "tunnel connection failed": _PYTHON,
    "407 proxy authentication required": _HTTPX,
    "502 bad gateway": _HTTPX,
    "503 service unavailable": _HTTPX,
    "504 gateway time": _HTTPX,
    "407 client error": _OLD_HUB,
    "502 server error": _OLD_HUB,
    "503 server error": _OLD_HUB,
    "504 server error": _OLD_HUB,
}

_OF_THE_HUB = re.compile(
    r"hugging_?face|\bhf\.co|\bthe hub\b|couldn't connect to|/resolve/|/api/models"
)
"""Hosts and paths of the hub and of its mirrors. A server also asks others, such as a collector of
traces, a store of vocabularies, or Ray."""

NOT_REACHED = LogCause(
    "ModelNotFound",
    "The model could not be downloaded",
    "Let the pod reach the hub (its proxy, if there is one, must let it through), or take the "
    "model from spec.model.source.pvc, imageVolume or path.",
    _NOT_REACHED,
    tries=3,  # networks may recover
    address=_OF_THE_HUB,
)
GATED = LogCause(*_GATED_CAUSE, _GATED)
REFUSED = LogCause(  # the hub also answers 401 for a missing model
    *_GATED_CAUSE,
    _REFUSED,
    unless="repository not found for url",
    address=_OF_THE_HUB,
)


def not_found(by_engine: Mapping[str, str]) -> LogCause:
    """Return the cause "model not found", with an engine's own phrases for it."""
    return LogCause(
        "ModelNotFound",
        "The model was not found",
        "Check spec.model: name, revision, and that the source holds config.json and weights; a "
        "private model also needs "
        "spec.model.source.hub.tokenSecretRef.",
        {**_NOT_FOUND, **by_engine},
    )
