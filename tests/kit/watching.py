"""A watch of all objects of some kinds in a namespace, beside a test.

It records which objects were ever created, and every change.
"""

import json
import queue
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Self

from kit.kubectl import Namespace, Object

STOP_SECONDS = 10.0


class Watch:
    """A context that watches while it is open."""

    def __init__(self, namespace: Namespace, *kinds: str) -> None:
        self.uids: dict[tuple[str, str], set[str]] = defaultdict(set)
        """Kind and name -> uids of every object that was ever seen. A name with two uids was
        created twice."""
        self.heard: list[tuple[float, Object]] = []
        """Every object after each change, and the instant of the change (`time.monotonic()`)."""
        self._namespace = namespace.name
        self._news: queue.Queue[Object] = queue.Queue()
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._threads = [
            threading.Thread(target=self._follow, args=(kind,), daemon=True)
            for kind in kinds
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        for process in list(self._processes.values()):
            process.kill()
        for thread in self._threads:
            thread.join(timeout=STOP_SECONDS)

    def news(self, *, seconds: float) -> Iterator[Object]:
        """Yield objects as they change, each in its state at that time.

        Raises AssertionError when time is up.
        """
        ends_at = time.monotonic() + seconds
        while True:
            try:
                yield self._news.get(timeout=max(0.0, ends_at - time.monotonic()))
            except queue.Empty:
                raise AssertionError(
                    f"what was waited for did not come within {seconds:.0f} s"
                ) from None

    def first(self, holds: Callable[[Object], bool], *, seconds: float) -> float:
        """Return the instant of the first change after which an object `holds`.

        A watch hears of a change after it can be read: so it is waited for. Raises AssertionError
        when time is up.
        """
        with self._changed:
            found = self._changed.wait_for(
                lambda: next((at for at, each in self.heard if holds(each)), None),
                timeout=seconds,
            )
        assert found is not None, f"no object came to hold within {seconds:.0f} s"
        return found

    def _follow(self, kind: str) -> None:
        # A watch ends now and then; the next one begins with all existing objects.
        while not self._closed.is_set():
            watch = [
                "kubectl",
                f"--namespace={self._namespace}",
                "get",
                kind,
                "--watch",
                "--output=json",
            ]
            with subprocess.Popen(
                watch, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as process:
                self._processes[kind] = process
                if self._closed.is_set():
                    process.kill()
                lines: list[str] = []
                for line in process.stdout or ():
                    lines.append(line)
                    if line.startswith("}"):
                        self._note(json.loads("".join(lines)))
                        lines = []

    def _note(self, found: Object) -> None:
        self.uids[found["kind"], found["metadata"]["name"]].add(
            found["metadata"]["uid"]
        )
        with self._changed:
            self.heard.append((time.monotonic(), found))
            self._changed.notify_all()
        self._news.put(found)
