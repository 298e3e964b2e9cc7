"""What keeps the status small: texts and lists that others wrote, cut to their share of its 100 kB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchrun.api.names import ROLE_PROXY
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import ServerStatus, Truncated
from benchrun.api.text import sentence as sentence
from benchrun.plan.roles import started_args

LOG_TAIL_BYTES = 4096
ARGS_BYTES = 4000
REPORTED_BYTES = 4000


def log_tail(text: str | None) -> str | None:
    """The end of a log, in at most 4 KiB; None if there is none."""
    return text.encode()[-LOG_TAIL_BYTES:].decode(errors="ignore") if text else None


def args(given: Iterable[str]) -> list[str]:
    """The first arguments, 4 kB of them."""
    kept, used = [], 0
    for argument in given:
        used += len(argument.encode())
        if used > ARGS_BYTES:
            break
        kept.append(argument)
    return kept


def reported(given: Mapping[str, str]) -> dict[str, str]:
    """What a server says of itself, 4 kB of it: four times what vLLM says."""
    kept, used = {}, 0
    for name, value in given.items():
        used += len(name.encode()) + len(value.encode())
        if used > REPORTED_BYTES:
            break
        kept[name] = value
    return kept


def truncations(spec: BenchmarkRunSpec, servers: Iterable[ServerStatus]) -> list[Truncated]:
    """What is missing of the servers' lists. The spec says how long they would be."""
    lists = [(len(started_args(spec, s.role)), len(s.args)) for s in servers if s.args and s.role != ROLE_PROXY]
    total, included = max(lists, key=lambda pair: pair[0] - pair[1], default=(0, 0))
    return [Truncated(field="servers[].args", total=total, included=included)] if included < total else []
