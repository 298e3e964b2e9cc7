"""How long a pod waited for an image, as the kubelet's events tell.

Successfully pulled image "vllm/vllm-openai:v0.32.0" in 1m2.5s (1m3.25s including waiting). Image size: ...
Container image "vllm/vllm-openai:v0.32.0" already present on machine
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from benchrun.observe import raw
from benchrun.observe.raw import Object

_PULLED = re.compile(
    r"Successfully pulled image .{1,1024} in ([0-9.a-zµ]{2,40})(?: \(([0-9.a-zµ]{2,40}) including waiting\))?"
)
_PRESENT = "already present on machine"
_PARTS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,12})?)(h|ms|m|s|µs|us|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}


def image_pull_seconds(events: Iterable[Object], *, container: str) -> float | None:
    """The wait for the container's image, that for other pulls included; 0 where the node had it. None: nothing tells."""
    own = [raw.text(e.get("message"), raw.MAX_MESSAGE_CHARS) for e in events if _is_about(e, container)]
    waits = [wait for message in own if (wait := _wait(message)) is not None]
    return max(waits, default=None)  # a container that was started again found its image there


def _is_about(event: Object, container: str) -> bool:
    path = raw.text(raw.mapping(event.get("involvedObject")).get("fieldPath"))
    return event.get("reason") == "Pulled" and path == f"spec.containers{{{container}}}"


def _wait(message: str) -> float | None:
    if _PRESENT in message:
        return 0.0
    pulled = _PULLED.match(message)
    return _go_duration(pulled[2] or pulled[1]) if pulled is not None else None


def _go_duration(text: str) -> float | None:
    """Seconds of `1m2.5s`, as Go writes them."""
    parts = _PARTS.findall(text)
    if "".join(f"{number}{unit}" for number, unit in parts) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
