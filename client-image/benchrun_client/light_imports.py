"""Import transformers and vLLM's benchmark without torch.

This takes 3 s of CPU and 160 MB instead of 14 s and 970 MB (vLLM 0.32). Both import torch, and the
benchmark imports much of a server, only for names in annotations and base classes. During the
import, placeholders replace the modules that are not used. Calling a placeholder raises an error;
if a version does so during the import, it is imported again with the real modules.
"""

import logging
import os
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

log = logging.getLogger(__name__)

BENCHMARK = "vllm.benchmarks.serve"
UNUSED = (
    "datasets",
    "torch",
    "vllm.env_override",
    "vllm.lora",
    "vllm.multimodal",
    "vllm.tokenizers",
)
"""Modules that are replaced, with all their submodules. The client's own code loads data and
tokenizers."""


def transformers() -> Any:
    """Import transformers with working tokenizers and templates; its other parts do not work.

    May raise ImportError.
    """
    if "torch" in sys.modules or "transformers" in sys.modules:
        return import_module("transformers")
    # "PyTorch was not found"
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    sys.modules["torch"] = None  # type: ignore[assignment]  # for Python: there is none
    try:
        found = import_module("transformers")
        _ = found.AutoTokenizer  # imported when it is first asked for
        return found
    finally:
        del sys.modules["torch"]


def vllm_benchmark() -> Any:
    """Import `vllm.benchmarks.serve`; may raise ImportError."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        return import_module(BENCHMARK)
    except (
        Exception
    ) as error:  # Another version may do anything with a placeholder.
        log.info(
            "importing vLLM's benchmark without torch failed (%s: %s); importing it with torch",
            type(error).__name__,
            error,
        )
    finally:
        sys.meta_path.remove(finder)
        for name, module in list(
            sys.modules.items()
        ):  # Other threads may import at the same time.
            if type(module) is _PlaceholderModule:
                del sys.modules[name]
    # Transformers remember that there was no torch.
    for name in [
        n
        for n in list(sys.modules)
        if n.partition(".")[0] in ("transformers", "vllm")
    ]:
        del sys.modules[name]
    return import_module(BENCHMARK)


def _any_name(_: object, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Placeholder


class _Anything(type):
    """The metaclass of placeholders.

    Placeholders can be subscripted, inherited from and joined with `|`, but not called.
    """

    __getattr__ = _any_name

    def __getitem__(cls, _: object) -> Any:
        return cls

    __or__ = __ror__ = __getitem__

    def __call__(cls, *_: object, **__: object) -> Any:
        raise TypeError(
            "called a placeholder of benchrun_client.light_imports, which replaces a "
            "module that the client does not use"
        )


class _Placeholder(metaclass=_Anything):
    pass


class _PlaceholderModule(ModuleType):
    __getattr__ = _any_name


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        unused = any(f"{fullname}.".startswith(f"{name}.") for name in UNUSED)
        return ModuleSpec(fullname, self, is_package=True) if unused else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _PlaceholderModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a placeholder module already has every name."""
