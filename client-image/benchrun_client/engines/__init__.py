"""Server engines: all that benchrun knows of a particular one.

Another engine is one more folder here, whose package has `ENGINE`. Operator and client both import
from here; the folders import nothing but the standard library.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from benchrun_client.engines.engine import Engine, LogCause, ServedFiles, StartupPhases

__all__ = ["ENGINE", "ENGINES", "Engine", "LogCause", "ServedFiles", "StartupPhases"]

ENGINES: Mapping[str, Engine] = {
    folder.name: import_module(f"{__name__}.{folder.name}").ENGINE
    for folder in iter_modules(__path__)
    if folder.ispkg
}
ENGINE = ENGINES["vllm"]  # The engine of every run: a spec cannot name another one yet.
