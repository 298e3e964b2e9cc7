"""What the arguments of `vllm serve` say of how a model is spread over GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchrun.api.answering import answering
from benchrun.api.names import ROLE_DECODE
from benchrun.report.export.exported import ExportedRun

_SHORT = {"-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size", "-dp": "--data-parallel-size"}
Flags = Mapping[str, str | None]
"""Values by flag, dashes throughout; None for a switch. The last of several holds."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Over how many GPUs, in which way. vLLM's own default is 1."""

    tensor: int
    pipeline: int
    data: int
    expert: int


def flags_of(run: ExportedRun, role: str | None = None) -> Flags:
    """Those the servers of a role were started with, or those that write answers; none at an endpoint, whose arguments nobody
    knows."""
    said = answering(each for each in run.status.servers if role in (None, each.role))
    if said is not None and said.args:
        return parsed(said.args)
    # Of a server without roles it is all the same.
    return parsed(run.spec.started.args_of(role or ROLE_DECODE)) if run.spec.started is not None else {}


def parsed(args: Sequence[str]) -> Flags:
    """`--flag=value`, `--flag value` and `--switch`; words that belong to no flag are passed over."""
    flags: dict[str, str | None] = {}
    open_flag: str | None = None
    for word in args:
        if word.startswith("-") and not _is_number(word):
            name, equals, value = word.partition("=")
            name = _SHORT.get(name, name).replace("_", "-")
            flags[name] = value if equals else None
            open_flag = None if equals else name
        elif open_flag is not None:
            flags[open_flag], open_flag = word, None
    return flags


def parallelism_of(flags: Flags) -> Parallelism:
    """As far as the flags tell; a value that is no number counts as not given."""
    tensor, pipeline, data = (_number(flags, name) for name in _SHORT.values())
    return Parallelism(tensor, pipeline, data, expert=tensor * data if "--enable-expert-parallel" in flags else 1)


def _number(flags: Flags, name: str) -> int:
    given = flags.get(name) or ""
    return int(given) if given.isdecimal() and int(given) else 1


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
