"""The real client on a plan, against a simulated server that nothing else uses."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchrun.api import BenchmarkRunSpec
from benchrun.plan import Owner, plan_of_client
from benchrun_client.contract import ClientProgress, Plan, StageRecord, Target
from client.processes import TINY_MODEL, Client, client, free_port, simulator
from unit.client.plans import TOKEN_DIGEST


@contextmanager
def against_simulator(
    folder: Path,
    plan: Plan,
    *flags: str,
    shards: int = 1,
    development_mode: bool = False,
) -> Iterator[Client]:
    """Run the client on a plan while a simulated server with these flags runs.

    The plan's target gets the address and the tokenizer of this server.
    """
    port = free_port()
    target = plan.target.model_copy(
        update={
            "base_url": f"http://127.0.0.1:{port}",
            "tokenizer": str(TINY_MODEL),
        }
    )
    whole = plan.model_copy(update={"target": target})
    with (
        simulator(*flags, port=port, development_mode=development_mode),
        client(folder, whole, shards=shards) as running,
    ):
        yield running


@dataclass(frozen=True)
class SpecRun:
    """What the client gave on the plan that the operator makes from a spec."""

    plan: Plan
    records: list[StageRecord]
    progress: ClientProgress
    exit_code: int

    @classmethod
    def of_spec(cls, spec: BenchmarkRunSpec, folder: Path, *flags: str) -> Self:
        """Measure a simulated server with these flags as the spec of an endpoint asks."""
        made = plan_of_client(
            Owner(namespace="lab", name="run", uid="uid-1"),
            spec,
            token_digest=TOKEN_DIGEST,
        )
        target = Target(
            base_url="http://replaced",
            servers=1,
            served_model="tiny",
            tokenizer="replaced",
            engine="VLLM",
        )
        plan = made.model_copy(update={"target": target})
        with against_simulator(folder, plan, *flags) as running:
            records, progress = running.pull_all()
            return cls(plan, records, progress, running.process.wait())
