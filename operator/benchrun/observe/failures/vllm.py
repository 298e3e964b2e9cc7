"""Failures of a vLLM server, by its log: memory, the model, the arguments."""

from __future__ import annotations

from benchrun.api import Reason
from benchrun.observe.failures.check import Evidence, sentence
from benchrun.observe.views import Diagnosis

# ---- memory -----------------------------------------------------------------------------------------------------------
# Too little memory: on the GPU for weights, on the GPU for the KV cache, in the container.

_KV_CACHE = (
    "no available memory for the cache blocks",
    "which is larger than the available kv cache memory",
    # 0.8 and before
    "larger than the maximum number of tokens that can be stored in kv cache",
)
_GPU = ("out of memory. tried to allocate", "outofmemoryerror", "cuda out of memory", "hip out of memory")
_GPU_TAKEN = "less than desired gpu memory utilization"


def kv_cache_too_small(evidence: Evidence) -> Diagnosis | None:
    """The weights fit, but one request of the model's full length would not."""
    if evidence.ending is None or not evidence.says(*_KV_CACHE):
        return None
    remedy = "Lower --max-model-len, raise --gpu-memory-utilization, or use a larger GPU or more of them."
    return Diagnosis(
        Reason.KV_CACHE_TOO_SMALL, sentence(f"The KV cache is too small: {evidence.words}", remedy=remedy), True
    )


def out_of_gpu_memory(evidence: Evidence) -> Diagnosis | None:
    """The GPU could not hold the weights. Memory that somebody else holds may come free: that gets a second try."""
    if evidence.ending is None:
        return None
    if evidence.says(_GPU_TAKEN):
        remedy = "Lower --gpu-memory-utilization, or make sure that nothing else uses this GPU."
        what = f"The GPU's memory is in use: {evidence.words}"
        return Diagnosis(Reason.OUT_OF_GPU_MEMORY, sentence(what, remedy=remedy), evidence.endings >= 2)
    if not evidence.says(*_GPU):
        return None
    remedy = "Use a larger GPU, more of them (--tensor-parallel-size), a smaller or quantized model, or fewer --max-num-seqs."
    what = f"The GPU ran out of memory: {evidence.words}"
    return Diagnosis(Reason.OUT_OF_GPU_MEMORY, sentence(what, remedy=remedy), True)


def out_of_memory(evidence: Evidence) -> Diagnosis | None:
    """The kernel ended the container at its memory limit."""
    if evidence.ending is None or evidence.ending.reason != "OOMKilled":
        return None
    remedy = f"Raise the memory limit in {evidence.resources_path}; a server needs about twice the size of its weights."
    return Diagnosis(Reason.OUT_OF_MEMORY, sentence("The container was ended at its memory limit", remedy=remedy), True)


# ---- model ------------------------------------------------------------------------------------------------------------
# A model that is not there, or not for everybody.

_GATED = (
    "cannot access gated repo",
    "you are trying to access a gated repo",
    "is a gated repository",
    "access to model",
    "gatedrepoerror",
)
_DENIED = ("401 client error", "403 client error", "401 unauthorized", "403 forbidden")
_NOT_FOUND = (
    "is not a local folder and is not a valid model identifier",
    "invalid repository id or local directory specified",
    "repository not found for url",
    "revision not found for url",
    "is not a valid git identifier",
    "repo id must be in the form",
    "cannot find any model weights with",
    "does not appear to have a file named",
    "cannot find an appropriate cached snapshot folder",
    "no config file found",
)
_UNREACHABLE = (
    "we couldn't connect to 'http",
    "couldn't reach the hub",
    "nameresolutionerror",
    "max retries exceeded with url",
)
_TRIES_TO_REACH_THE_HUB = 3


def model_gated(evidence: Evidence) -> Diagnosis | None:
    """The hub knows the model and refuses it. A missing model is also a 401 there, with words that mention gating."""
    if evidence.ending is None:
        return None
    denied = evidence.says(*_DENIED) and not evidence.says("repository not found for url")
    if not denied and not evidence.says(*_GATED):
        return None
    remedy = (
        "Accept the model's conditions on the hub, put a token of that account into a Secret, "
        "and name it in spec.model.source.hub.tokenSecretRef."
    )
    what = f"The hub does not give this model to us: {evidence.words}"
    return Diagnosis(Reason.MODEL_GATED, sentence(what, remedy=remedy), True)


def model_not_found(evidence: Evidence) -> Diagnosis | None:
    """No such model, revision, directory or weights."""
    if evidence.ending is None or not evidence.says(*_NOT_FOUND):
        return None
    remedy = (
        "Check spec.model: name, revision, and that the source holds config.json and weights; a private model also needs "
        "spec.model.source.hub.tokenSecretRef."
    )
    what = f"The model was not found: {evidence.words}"
    return Diagnosis(Reason.MODEL_NOT_FOUND, sentence(what, remedy=remedy), True)


def hub_unreachable(evidence: Evidence) -> Diagnosis | None:
    """The hub did not answer. Networks recover: given up only after the third try."""
    if evidence.ending is None or not evidence.says(*_UNREACHABLE):
        return None
    remedy = "Let the pod reach the hub, or take the model from spec.model.source.pvc, imageVolume or path."
    what = f"The model could not be downloaded: {evidence.words}"
    return Diagnosis(Reason.MODEL_NOT_FOUND, sentence(what, remedy=remedy), evidence.endings >= _TRIES_TO_REACH_THE_HUB)


# ---- usage ------------------------------------------------------------------------------------------------------------
# Flags the server does not know, and values it does not take. Nothing but another spec helps.

_ARGPARSE_EXIT_CODE = 2


def usage_error(evidence: Evidence) -> Diagnosis | None:
    """argparse refused the command line: exit code 2 and its `error:` line."""
    if evidence.exit_code != _ARGPARSE_EXIT_CODE or not evidence.says("error: "):
        return None
    remedy = "Correct spec.server.args for this version of vLLM (vllm serve --help=all in the image lists its flags)."
    return Diagnosis(Reason.USAGE_ERROR, sentence(f"vLLM refused its arguments: {evidence.words}", remedy=remedy), True)


def invalid_argument(evidence: Evidence) -> Diagnosis | None:
    """A value was parsed and then refused: exit code 1 and the text of pydantic or a ValueError."""
    if evidence.exit_code != 1 or evidence.is_cause_hidden:
        return None
    if not evidence.says("validation error for", "validation errors for") and not evidence.words.startswith(
        "ValueError: "
    ):
        return None
    remedy = "Correct spec.server.args or spec.model."
    return Diagnosis(Reason.INVALID_ARGUMENT, sentence(f"vLLM refused a value: {evidence.words}", remedy=remedy), True)
