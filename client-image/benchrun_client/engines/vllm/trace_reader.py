"""A summary of a trace of torch's profiler, and an HTTP server for it in the server's pod.

It uses only the standard library: the operator hands the text of this file to Python in the
server's image, which has no other part of benchrun. A trace may have hundreds of MB and is not
trusted: it is read as a stream, with bounds on bytes, events and names.

    python trace_reader.py DIRECTORY PORT

    GET /    a `contract.TraceSummary` as JSON; 404 with a sentence if there is none
"""

import gzip
import json
import re
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, TypeGuard

CHUNK_BYTES = 1024 * 1024
# Largest unpacked trace: it takes half a minute to read.
MAX_BYTES = 1024 * 1024 * 1024
MAX_EVENTS = 2_000_000  # Most events kept of a trace; they take about 400 MB.
MAX_NAMES = 20_000
MAX_NAME_CHARACTERS = 160
MAX_KERNELS = 12
# Largest instant in a trace; Unix time is about 2e15 microseconds.
MAX_MICROSECONDS = 1e16
_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
# vLLM's name of a step, with the tokens of its prompts and of its answers
# (`Worker.annotate_profile`, vLLM 0.32).
_STEP = re.compile(
    r"execute_(?:\d{1,9}_)?context_\d{1,9}\((?:sq)?(\d{1,9})[^)]*\)"
    r"_generation_\d{1,9}\((?:sq)?(\d{1,9})"
)


def unpacked(path: Path) -> Iterator[str]:
    """Yield the text of a trace in pieces.

    Raises ValueError if it is too large, or cannot be unpacked.
    """
    total = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                total += len(chunk)
                if total > MAX_BYTES:
                    raise ValueError(
                        f"the trace has more than {MAX_BYTES} bytes; profile fewer seconds"
                    )
                yield chunk.decode(errors="replace")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"the trace can't be unpacked: {error}") from error


def events(pieces: Iterable[str]) -> Iterator[Any]:
    """Yield the entries of `traceEvents`, one by one.

    Raises ValueError if the text is not a trace, or is cut short.
    """
    decode = json.JSONDecoder().raw_decode
    text = ""
    at = 0
    begun = False
    for piece in pieces:
        text = text[at:] + piece
        at = 0
        if not begun:
            found = _BEGIN.search(text)
            at, begun = (
                (found.end(), True) if found else (max(0, len(text) - 100), False)
            )
        while begun:
            # It matches nothing, too.
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            if text.startswith("]", at):
                return
            try:
                event, at = decode(text, at)
            except ValueError:
                if len(text) - at > CHUNK_BYTES:
                    raise ValueError(
                        "the trace has an entry that is not an event"
                    ) from None
                break  # The rest of the event is in the next piece.
            yield event
    raise ValueError(
        "the trace is cut short" if begun else "not a trace: it has no traceEvents"
    )


class KeptTrace:
    """The events of a trace that the summary needs.

    A span is (start, negative length, name): the length is negative so that of two spans with the
    same start the outer one sorts first.
    """

    def __init__(self) -> None:
        self.on_gpu: list[tuple[float, float, str]] = []
        self.threads: dict[str, list[tuple[float, float, str]]] = {}
        self.steps: dict[str, list[tuple[int, float]]] = {
            "gpu_user_annotation": [],
            "user_annotation": [],
        }
        self._names: dict[str, str] = {}
        self._kept = 0

    def take(self, event: Any) -> None:
        """Keep an event if the summary needs it; raise ValueError if there are too many."""
        if not isinstance(event, dict):
            return
        kind = event.get("cat")
        name = event.get("name")
        start = event.get("ts")
        length = event.get("dur")
        if not (
            isinstance(kind, str)
            and isinstance(name, str)
            and _is_time(start)
            and _is_time(length)
        ):
            return
        if kind in self.steps and (step := _STEP.match(name)) is not None:
            self.steps[kind].append((int(step[1]) + int(step[2]), length))
        elif kind in ("kernel", "gpu_memcpy", "gpu_memset", "cpu_op"):
            thread = f"{event.get('pid')}/{event.get('tid')}"[:80]
            spans = (
                self.threads.setdefault(thread, [])
                if kind == "cpu_op"
                else self.on_gpu
            )
            known = (
                name[:MAX_NAME_CHARACTERS]
                if len(self._names) < MAX_NAMES
                else "(other)"
            )
            spans.append((start, -length, self._names.setdefault(known, known)))
        self._kept += 1
        if self._kept > MAX_EVENTS:
            raise ValueError(
                f"the trace has more than {MAX_EVENTS} events; profile fewer seconds"
            )

    def summary(self) -> dict[str, Any]:
        """Sum the time of each kernel, and return the summary.

        A GPU kernel counts with its whole time, a CPU operator without the operators that it calls.
        """
        lists = [self.on_gpu] if self.on_gpu else list(self.threads.values())
        counts = Counter[str]()
        times = defaultdict[str, float](float)
        for spans in map(sorted, lists):
            open_: list[tuple[float, str]] = []
            for start, length, name in spans:
                while open_ and open_[-1][0] <= start:
                    open_.pop()
                if open_ and not self.on_gpu:
                    times[open_[-1][1]] += length
                times[name] -= length
                counts[name] += 1
                open_.append((start - length, name))
        begin = end = busy = 0.0
        for start, length, _ in sorted(chain.from_iterable(lists)):
            begin, end = (begin, end) if end else (start, start)
            busy += max(0.0, start - length - max(start, end))
            end = max(end, start - length)
        steps = sorted(next(filter(None, self.steps.values()), []))
        half = sum(length for _, length in steps) / 2
        passed = accumulate(length for _, length in steps)
        return {
            "device": "GPU" if self.on_gpu else "CPU",
            "window_us": round(end - begin),
            "busy_us": round(busy),
            "kernels_us": max(0, round(sum(times.values()))),
            "kernels": [
                {
                    "name": name,
                    "total_us": max(0, round(time)),
                    "count": counts[name],
                }
                for name, time in sorted(times.items(), key=lambda of: -of[1])[
                    :MAX_KERNELS
                ]
            ],
            "steps": len(steps),
            "step_tokens": next(
                (
                    of[0]
                    for of, so_far in zip(steps, passed, strict=True)
                    if so_far >= half
                ),
                None,
            ),
        }


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and 0 <= value <= MAX_MICROSECONDS


def summary_of(path: Path) -> dict[str, Any]:
    """Return the summary of a trace file; raise ValueError if it is not a trace or too large."""
    trace = KeptTrace()
    try:
        for event in events(unpacked(path)):
            trace.take(event)
    except RecursionError:
        raise ValueError("the trace is nested too deeply") from None
    return {
        "trace": path.name[-200:],
        "trace_bytes": path.stat().st_size,
        **trace.summary(),
    }


class Reader(BaseHTTPRequestHandler):
    """A handler that reads the trace only on request, so that it sleeps during measurements."""

    def do_GET(self) -> None:
        """Answer with the summary of the first worker's trace.

        The API server's trace is skipped: it has no kernels.
        """
        try:
            paths = sorted(
                p
                for p in Path(sys.argv[1]).glob("*.pt.trace.json*")
                if "async_llm" not in p.name
            )
            found = (
                summary_of(paths[0])
                if paths
                else {"problem": f"no trace in {sys.argv[1]}"}
            )
        except (OSError, ValueError, MemoryError) as error:
            found = {"problem": f"{type(error).__name__}: {error}"[:200]}
        body = json.dumps(found).encode()
        self.send_response(404 if "problem" in found else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    HTTPServer(("", int(sys.argv[2])), Reader).serve_forever()
