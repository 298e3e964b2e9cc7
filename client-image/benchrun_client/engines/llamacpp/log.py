"""Why llama-server failed, and how long its start took, from its log.

A line begins with the time since the start and a level: `0.00.196.922 I srv  llama_server: ...` is
0 minutes, 0 seconds, 196 milliseconds and 922 microseconds.
"""

import re

from benchrun_client.engines.engine import LogCause, StartupPhases

_SEEN = "llama.cpp b10434"
_SOURCE = "llama.cpp of November 2026, its source"

_INSTANT = r"(\d{1,6})\.(\d\d)\.(\d{3})\.(\d{3})"
PREFIX = re.compile(rf"^{_INSTANT} [A-Z] ")
ERROR_LINES = re.compile(
    rf"^(?:{_INSTANT} E (?!srv +send_error: )|error: |error while handling argument "
    r"|CUDA error: |\S+:\d+: GGML_ASSERT)"
)
"""An error answered to a client (`send_error`) is none of the server."""
CAUSES = (
    LogCause(
        "UsageError",
        "llama-server refused its arguments",
        "Correct spec.server.args for this build of llama.cpp (llama-server --help in the image "
        "lists its flags). A flag and its value are two arguments.",
        {
            "error: invalid argument": _SEEN,
            "error while handling argument": _SEEN,
            "error: --model is required": _SOURCE,
        },
    ),
    LogCause(
        "OutOfGPUMemory",
        "The GPU ran out of memory",
        "Use a larger GPU or more of them, a smaller or more quantized model, or lower --ctx-size "
        "or --n-gpu-layers.",
        {
            "cudamalloc failed: out of memory": _SOURCE,
            "cuda error: out of memory": _SOURCE,
            "failed to allocate buffer for kv cache": _SOURCE,
        },
    ),
    LogCause(
        "ModelNotFound",
        "The model could not be downloaded",
        "Let the pod reach the hub (its proxy, if there is one, must let it through), or take the "
        "model from spec.model.source.pvc, imageVolume or path.",
        {
            "httplib failed": _SOURCE,
            "https is not supported": _SEEN,
            "download failed after": _SOURCE,
        },
        tries=3,  # networks may recover
    ),
    LogCause(
        "ModelGated",
        "The hub refuses this model",
        "Accept the model's conditions on the hub, put a token of that account into a Secret, "
        "and name it in spec.model.source.hub.tokenSecretRef.",
        {"get failed (401)": _SOURCE, "get failed (403)": _SOURCE},
    ),
    LogCause(
        "ModelNotFound",
        "The model was not found",
        "Check spec.model: the path of a source must be that of a GGUF file, not of its folder, "
        "and a repository of the hub must have GGUF files (--hf-file names one of them).",
        {
            "failed to open gguf file": _SEEN,
            "invalid magic characters": _SEEN,
            "no gguf files found in repository": _SOURCE,
            "not found in repository": _SOURCE,
            "get failed (404)": _SOURCE,
            "exactly one out metadata, path_model, and file must be defined": _SEEN,
        },
    ),
)

_MAX_LINE_CHARS = 300
_STEPS = {
    "begun": re.compile(rf"^{_INSTANT} I srv +load_model: loading model "),
    "made": re.compile(rf"^{_INSTANT} I srv +load_model: initializing, n_slots"),
    "ended": re.compile(rf"^{_INSTANT} I srv +llama_server: model loaded"),
}


def startup_phases(log: str) -> StartupPhases:
    """Return the phases found in a log: loading the model, and making its slots ready."""
    found: dict[str, float] = {}
    for line in log.split("\n")[:1000]:
        for name, pattern in _STEPS.items():
            if (step := pattern.match(line[:_MAX_LINE_CHARS])) is not None:
                found.setdefault(name, _seconds(step))
    return StartupPhases(
        load=_between(found.get("begun"), found.get("made")),
        warm_up=_between(found.get("made"), found.get("ended")),
    )


def _seconds(instant: re.Match[str]) -> float:
    minutes, seconds, millis, micros = map(int, instant.groups())
    return 60 * minutes + seconds + millis / 1e3 + micros / 1e6


def _between(first: float | None, last: float | None) -> float | None:
    if first is None or last is None or last < first:
        return None
    return round(last - first, 6)
