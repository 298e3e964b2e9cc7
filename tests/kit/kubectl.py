"""kubectl for tests: apply, read, and wait until a condition holds, watched and not polled."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
RUN = "benchmarkruns.benchrun.dev"
SWEEP = "benchmarksweeps.benchrun.dev"
LONGEST_WATCH_SECONDS = 30.0


class CommandFailed(AssertionError):
    """kubectl (or helm) failed."""


def command(
    *arguments: str, stdin: str | None = None, timeout_seconds: float = 120
) -> str:
    """Run a command and return what it printed. Raises CommandFailed with its error output."""
    done = subprocess.run(
        arguments,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    if done.returncode != 0:
        raise CommandFailed(
            f"{' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace of the cluster under test."""

    name: str

    def kubectl(
        self,
        *arguments: str,
        stdin: str | None = None,
        timeout_seconds: float = 120,
    ) -> str:
        """Run kubectl in this namespace."""
        return command(
            "kubectl",
            f"--namespace={self.name}",
            *arguments,
            stdin=stdin,
            timeout_seconds=timeout_seconds,
        )

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Apply objects."""
        text = "\n---\n".join(json.dumps(m) for m in manifests)
        self.kubectl("apply", "--filename=-", stdin=text)

    def get(self, kind: str, name: str) -> Object:
        """Return one object."""
        found: Object = json.loads(self.kubectl("get", kind, name, "--output=json"))
        return found

    def list(self, kind: str, *, selector: str = "") -> list[Object]:
        """Return all objects of a kind, by label."""
        found = json.loads(
            self.kubectl("get", kind, f"--selector={selector}", "--output=json")
        )
        items: list[Object] = found["items"]
        return items

    def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> None:
        """Merge-patch an object."""
        extra = [f"--subresource={subresource}"] if subresource else []
        self.kubectl(
            "patch",
            kind,
            name,
            "--type=merge",
            f"--patch={json.dumps(patch)}",
            *extra,
        )

    def delete(self, kind: str, name: str) -> None:
        """Request the deletion of an object without waiting for it."""
        self.kubectl("delete", kind, name, "--wait=false", "--ignore-not-found")

    def wait_gone(self, kind: str, *, selector: str, timeout_seconds: int) -> None:
        """Wait until no object of that kind and label is left.

        Raises CommandFailed when it takes too long.
        """
        if self.list(kind, selector=selector):
            wait = [
                "wait",
                kind,
                f"--selector={selector}",
                "--for=delete",
                f"--timeout={timeout_seconds}s",
            ]
            self.kubectl(*wait, timeout_seconds=timeout_seconds + 30)

    def watch(
        self, kind: str, name: str, *, timeout_seconds: float
    ) -> Iterator[Object]:
        """Yield the object now and after every change; end when the time is over."""
        arguments = [
            "kubectl",
            f"--namespace={self.name}",
            "get",
            kind,
            name,
            "--watch",
            "--output=json",
        ]
        with subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            timer = threading.Timer(timeout_seconds, process.kill)
            timer.start()
            try:
                lines: list[str] = []
                for line in process.stdout or ():
                    lines.append(line)
                    if line.startswith("}"):
                        yield json.loads("".join(lines))
                        lines = []
            finally:
                timer.cancel()
                process.kill()

    def wait_for(
        self,
        kind: str,
        name: str,
        holds: Callable[[Object], bool],
        *,
        timeout_seconds: float,
        what: str,
    ) -> Object:
        """Wait until the condition holds, and return the object.

        Only time ends the wait; a watch that is silent is begun anew. Raises AssertionError when
        time is up.
        """
        ends_at = time.monotonic() + timeout_seconds
        while (left := ends_at - time.monotonic()) > 0:
            # fails if it is missing: a watch would end at once, again and again
            self.get(kind, name)
            for found in self.watch(
                kind, name, timeout_seconds=min(left, LONGEST_WATCH_SECONDS)
            ):
                if holds(found):
                    return found
        last = self.get(kind, name)
        status = json.dumps(last.get("status", {}))[-3000:]
        problem = f"{kind} {name}: not {what} within {timeout_seconds:.0f} s; status now: {status}"
        raise AssertionError(f"{problem}\n{self._what_happened(name)}")

    def _what_happened(self, name: str) -> str:
        """Return the namespace's pods, and the events about this object and its children."""
        pods = self.kubectl("get", "pods", "--output=wide", "--no-headers")
        events = self.kubectl(
            "get", "events", "--sort-by=.lastTimestamp", "--no-headers"
        )
        return "\n".join(
            [pods, *(line for line in events.splitlines() if name in line)]
        )[-6000:]
