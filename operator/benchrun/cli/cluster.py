"""Access to the cluster through kubectl.

kubectl knows every way to log in, so the command needs none of its own.
"""

import argparse
import asyncio
import codecs
import io
import json
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from benchrun import names
from benchrun.api.sweep import spec
from benchrun.cli.errors import NO_KUBECTL, KubectlError, explained, no_such

RUN = f"{names.PLURAL}.{names.GROUP}"
SWEEP = f"{spec.PLURAL}.{names.GROUP}"
RESOURCES = {names.KIND: RUN, spec.KIND: SWEEP}
"""Resources that can be followed to their end, by kind; objects of other kinds are only applied."""
END_SECONDS = 5.0  # Seconds that a kubectl has to end after SIGTERM.
CHUNK_BYTES = 65_536
Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the user's namespace and context. Every method raises KubectlError."""

    namespace: str | None = None
    context: str | None = None

    def within(self, namespace: str | None) -> Self:
        """Return a kubectl for another namespace of the same cluster; None keeps the namespace."""
        return replace(self, namespace=namespace or self.namespace)

    def get(self, name: str, resource: str = RUN) -> Body:
        """Return the current object of a run or sweep.

        If none has that name, the error lists those that exist.
        """
        try:
            return self._json("get", resource, name)
        except KubectlError as error:
            raise (
                self.missing(name, resource)
                if error.trouble == "NotFound"
                else error
            ) from None

    def find(self, name: str, *, resource: str = RUN) -> Body | None:
        """Return a run or sweep, or None if none has that name."""
        found = self._output(
            "get", resource, name, "--ignore-not-found", "--output=json"
        )
        return json_object(found) if found.strip() else None

    def deployments(self, selector: str, *, seconds: float) -> list[Body]:
        """Return the Deployments with these labels in all namespaces.

        A cluster that does not answer within `seconds` is an error, however often kubectl would
        ask it again.
        """
        words = ("--all-namespaces", f"--selector={selector}", "--output=json")
        found = self._output("get", "deployments.apps", *words, seconds=seconds)
        items: list[Body] = json_object(found)["items"]
        return items

    def missing(self, name: str, *resources: str) -> KubectlError:
        """Build the error for a name that no object of these resources has.

        It lists the objects that exist.
        """
        others: list[str] = []
        for resource in resources:
            with suppress(
                KubectlError
            ):  # A user who may read one may not be allowed to list all.
                others += [body["metadata"]["name"] for body in self.all(resource)]
        kinds = " or ".join(
            kind for kind, resource in RESOURCES.items() if resource in resources
        )
        return no_such(kinds, name, self.namespace, list(dict.fromkeys(others)))

    def sweep_instead(self, name: str, error: KubectlError) -> Body:
        """Return the sweep of that name, after looking for a run of that name raised `error`.

        If there is no such sweep, raise an error that neither a run nor a sweep has the name. Any
        other `error` is raised unchanged.
        """
        if error.trouble != "NotFound":
            raise error
        with suppress(
            KubectlError
        ):  # A user who may read runs may not be allowed to read sweeps.
            if (found := self.find(name, resource=SWEEP)) is not None:
                return found
        raise self.missing(name, RUN, SWEEP)

    def all(
        self,
        resource: str,
        *,
        all_namespaces: bool = False,
        selector: str | None = None,
    ) -> list[Body]:
        """Return all objects of a resource in the namespace, or in the whole cluster.

        With a `selector`, return only those with these labels.
        """
        scope = replace(self, namespace=None) if all_namespaces else self
        options = [
            *(["--all-namespaces"] if all_namespaces else []),
            *([f"--selector={selector}"] if selector else []),
        ]
        found: list[Body] = scope._json("get", resource, *options)["items"]
        return found

    def stored(self, run_uid: str) -> list[Body]:
        """Return the ConfigMaps with the records and the timeline of a run."""
        roles = f"{names.LABEL_ROLE} in ({names.ROLE_STAGE},{names.ROLE_TIMELINE})"
        return self.all(
            "configmaps", selector=f"{names.LABEL_RUN_UID}={run_uid},{roles}"
        )

    def config_map(self, name: str) -> Body:
        """Return a ConfigMap."""
        return self._json("get", "configmap", name)

    def apply(
        self, manifest: str, *, named: bool = True, dry_run: bool = False
    ) -> Body:
        """Create or update an object and return it.

        With `dry_run` nothing is changed, and the returned object shows what it would be. If it is
        not `named`, a new object is created from generateName.
        """
        options = ["--dry-run=server"] if dry_run else []
        return self._json(
            "apply" if named else "create", "--filename=-", *options, given=manifest
        )

    def cancel(self, name: str, *, resource: str = RUN) -> None:
        """Cancel a run or a sweep: its GPUs are freed, and what was measured is kept."""
        self._output(
            "patch",
            resource,
            name,
            "--type=merge",
            '--patch={"spec":{"cancel":true}}',
        )

    async def lines(self, *what: str) -> AsyncGenerator[str, None]:
        """Yield the lines of kubectl's output as they come; kubectl ends with the iteration."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command(*what), stdout=pipe, stderr=pipe
        )
        if process.stdout is None or process.stderr is None:
            return
        # Read meanwhile: whoever says much on stderr waits until it is read.
        errors = asyncio.create_task(process.stderr.read())
        try:
            decoder = io.IncrementalNewlineDecoder(
                codecs.getincrementaldecoder("utf-8")("replace"), translate=True
            )
            rest = ""
            data = b"more"
            while data:
                data = await process.stdout.read(CHUNK_BYTES)
                *lines, rest = (rest + decoder.decode(data, final=not data)).split(
                    "\n"
                )
                for line in lines:
                    yield line
            if rest:
                yield rest
            error = (await errors).decode("utf-8", "replace")
            if await process.wait() != 0:
                raise explained(error)
        finally:
            with suppress(ProcessLookupError):
                if process.returncode is None:
                    process.terminate()
                try:
                    await asyncio.wait_for(_drained(process, errors), END_SECONDS)
                except (TimeoutError, asyncio.CancelledError) as error:
                    process.kill()
                    errors.cancel()
                    await process.wait()
                    if isinstance(error, asyncio.CancelledError):
                        raise

    def _json(self, *what: str, given: str | None = None) -> Body:
        return json_object(self._output(*what, "--output=json", given=given))

    def _output(
        self, *what: str, given: str | None = None, seconds: float | None = None
    ) -> str:
        command = self._command(*what)
        try:
            done = subprocess.run(
                command,
                input=given,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(
                f"the cluster did not answer within {seconds:g} s", "NoCluster"
            ) from error
        if done.returncode != 0:
            raise explained(done.stderr)
        return done.stdout

    def _command(self, *what: str) -> list[str]:
        if shutil.which("kubectl") is None:
            raise NO_KUBECTL
        scope = [f"--namespace={self.namespace}"] if self.namespace else []
        return [
            "kubectl",
            *what,
            *scope,
            *([f"--context={self.context}"] if self.context else []),
        ]


async def _drained(
    process: asyncio.subprocess.Process, errors: asyncio.Task[bytes]
) -> None:
    """Read the rest of both outputs, without which the process can't end, and wait for it."""
    while process.stdout is not None and await process.stdout.read(CHUNK_BYTES):
        pass
    await errors
    await process.wait()


def json_object(text: str) -> Body:
    """Parse the JSON object that kubectl wrote.

    Raises KubectlError if it is not one: a wrapper that replaces kubectl may write anything.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise KubectlError(
            f"kubectl's output is not a JSON object: {text[:100]!r}; which kubectl shows where it "
            "is"
        )
    return found


def kubectl_of(options: argparse.Namespace) -> Kubectl:
    return Kubectl(namespace=options.namespace, context=options.context)
