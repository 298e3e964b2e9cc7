"""The process as a whole, as far as it goes without vLLM: it tells why it ends, and ends at once
when told to."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import benchrun_client
import pytest
from benchrun_client.contract import Delivery, Failure, unpack_delivery
from benchrun_client.failures import TERMINATION_LOG_VARIABLE
from kit.local_servers import free_port
from kit.polling import polling
from unit.client.plans import TOKEN, plan

SOURCE_ROOT = Path(benchrun_client.__file__).parent.parent


class Client:
    """A running client process."""

    def __init__(
        self, process: subprocess.Popen[str], port: int, termination_log: Path
    ) -> None:
        self.process = process
        self._port = port
        self._termination_log = termination_log

    def failure(self) -> Delivery:
        """The delivery that tells of the failure."""
        deliveries: list[Delivery] = []
        for _ in polling("a failure is told", seconds=30):
            with contextlib.suppress(OSError):
                deliveries.append(self._delivery())
            if deliveries and deliveries[-1].progress.failure is not None:
                break
        return deliveries[-1]

    def termination_message(self) -> Failure:
        return Failure.model_validate_json(self._termination_log.read_bytes())

    def _delivery(self) -> Delivery:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/records",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        with urllib.request.urlopen(request) as response:
            return unpack_delivery(response.read())[0]


@contextmanager
def client(tmp_path: Path, plan_json: str) -> Iterator[Client]:
    """Run the client on a plan."""
    file = tmp_path / "plan.json"
    termination_log = tmp_path / "termination-log"
    port = free_port()
    file.write_text(plan_json)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "benchrun_client",
            "--plan",
            str(file),
            "--port",
            str(port),
            "--address",
            "127.0.0.1",
        ],
        env={
            **os.environ,
            "PYTHONPATH": str(SOURCE_ROOT),
            TERMINATION_LOG_VARIABLE: str(termination_log),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Client(process, port, termination_log)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("reason", "plan_json"),
    [
        pytest.param("InvalidPlan", '{"run_uid": "run-1"}', id="broken-plan"),
        pytest.param(
            "TokenizerNotFound",
            plan(target={"tokenizer": "/no/such/model"}).to_json(),
            id="no-tokenizer",
        ),
    ],
)
def test_bad_input_is_reported_everywhere_and_exits_2(
    tmp_path: Path, reason: str, plan_json: str
) -> None:
    with client(tmp_path, plan_json) as running:
        delivery = running.failure()
        _, log = running.process.communicate(timeout=30)
    assert running.process.returncode == 2
    assert (delivery.run_uid, delivery.progress.phase) == ("run-1", "Failed")
    assert delivery.progress.failure is not None
    assert delivery.progress.failure.reason == reason
    assert running.termination_message() == delivery.progress.failure
    assert json.loads(log.splitlines()[-1])["reason"] == reason
    assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_at_once_even_while_it_waits_to_be_read(
    tmp_path: Path, number: signal.Signals
) -> None:
    with client(tmp_path, "{") as running:
        assert running.process.stderr is not None
        # The failure is on stderr, and nobody reads the records: it would wait for its reader.
        for line in running.process.stderr:
            if "InvalidPlan" in line:
                break
        running.process.send_signal(number)
        # Had it waited for its reader to the end, the code would be that of the failure.
        assert running.process.wait(timeout=30) == 128 + number
