"""Server engines: all that is particular to one of them.

To add an engine, add a folder here and a line in `ENGINES`. Operator and client both import from
here; the folders import only the standard library.
"""

from collections.abc import Mapping
from typing import Literal

from benchrun_client.engines.engine import (
    Engine,
    LogCause,
    Nodes,
    Profiler,
    RequestField,
    ServedFiles,
    StartupPhases,
    Transfer,
)
from benchrun_client.engines.llamacpp import LLAMACPP
from benchrun_client.engines.settings import Effect, EngineSetting
from benchrun_client.engines.sglang import SGLANG
from benchrun_client.engines.trtllm import TRTLLM
from benchrun_client.engines.vllm import VLLM

__all__ = [
    "ENGINES",
    "Effect",
    "Engine",
    "EngineName",
    "EngineSetting",
    "LogCause",
    "Nodes",
    "Profiler",
    "RequestField",
    "ServedFiles",
    "StartupPhases",
    "Transfer",
]

EngineName = Literal["LlamaCpp", "SGLang", "TensorRTLLM", "VLLM"]
"""Names of the engines in specs and plans."""
ENGINES: Mapping[EngineName, Engine] = {
    "LlamaCpp": LLAMACPP,
    "SGLang": SGLANG,
    "TensorRTLLM": TRTLLM,
    "VLLM": VLLM,
}
