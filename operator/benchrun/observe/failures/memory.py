"""Too little memory: on the GPU for weights, on the GPU for the KV cache, in the container."""

from __future__ import annotations

from benchrun.api.conditions import Reason
from benchrun.observe.failures.check import Evidence, sentence
from benchrun.observe.views import Diagnosis

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
