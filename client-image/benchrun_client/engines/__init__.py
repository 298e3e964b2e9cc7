"""Server engines: all that benchrun knows of one in particular. Another engine is one more folder here and an entry in ENGINES.

Operator and client both import from here; the folder imports nothing but the standard library.
"""

from collections.abc import Mapping

from benchrun_client.engines.engine import Engine, LogCause, ServedFiles, StartupPhases
from benchrun_client.engines.vllm import VLLM

__all__ = ["ENGINE", "ENGINES", "Engine", "LogCause", "ServedFiles", "StartupPhases"]

ENGINES: Mapping[str, Engine] = {"vllm": VLLM}
ENGINE = ENGINES["vllm"]  # That of every run: a spec can't name another yet.
