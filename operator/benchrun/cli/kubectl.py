"""Runs as kubectl gives them. kubectl knows every way to log in to a cluster; the command needs none of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchrun.api import names
from benchrun.api.base import GROUP, PLURAL
from benchrun.cli.errors import CommandError

RUN = f"{PLURAL}.{GROUP}"


class KubectlError(CommandError):
    """kubectl said no; the text is its own."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the caller's namespace and context."""

    namespace: str | None = None
    context: str | None = None

    def get(self, name: str) -> dict[str, Any]:
        """One run, as it is now. Raises KubectlError."""
        return self._json(self._command(RUN, name))

    def stored(self, run_uid: str) -> list[dict[str, Any]]:
        """ConfigMaps that keep what was measured for a run; not its plan, whose nonce is nobody's business.

        Raises KubectlError.
        """
        selector = f"{names.LABEL_RUN_UID}={run_uid},{names.LABEL_ROLE} in ({names.ROLE_STAGE},{names.ROLE_TIMELINE})"
        found: list[dict[str, Any]] = self._json(self._command("configmaps", f"--selector={selector}"))["items"]
        return found

    def watch(self, name: str) -> Iterator[dict[str, Any]]:
        """The run now and after every change, until the caller stops listening. Raises KubectlError when it ends by itself."""
        command = [*self._command(RUN, name), "--watch"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                if process.stdout is not None:
                    yield from _objects(iter(process.stdout.readline, ""))
                said = process.stderr.read().strip() if process.stderr is not None else ""
                raise KubectlError(said or "the watch ended")
            finally:
                process.terminate()

    def _json(self, command: list[str]) -> dict[str, Any]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KubectlError(done.stderr.strip() or f"kubectl ended with {done.returncode}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def _command(self, *what: str) -> list[str]:
        if shutil.which("kubectl") is None:
            raise KubectlError(
                "kubectl was not found on PATH; install it, it is how this command logs in to the cluster"
            )
        scope = [f"--namespace={self.namespace}"] if self.namespace else []
        scope += [f"--context={self.context}"] if self.context else []
        return ["kubectl", "get", *what, "--output=json", *scope]


def _objects(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """JSON objects out of a stream of pretty-printed ones: each ends with a brace in the first column."""
    collected: list[str] = []
    for line in lines:
        collected.append(line)
        if line.startswith("}"):
            yield json.loads("".join(collected))
            collected = []
