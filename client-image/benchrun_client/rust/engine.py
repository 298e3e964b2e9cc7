"""The Rust client, in the place of vLLM's own Python one."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchrun_client.cgroup import usable_cores
from benchrun_client.contract import Engine as EngineName
from benchrun_client.contract import Plan
from benchrun_client.engine import Instants, Load, Outcome
from benchrun_client.failures import RunFailure
from benchrun_client.rust import command
from benchrun_client.rust.child import run_to_end
from benchrun_client.rust.finding import Binary
from benchrun_client.rust.results import outcome_of, toll_of
from benchrun_client.target import Servers

NAME = "vllm-rs"
RESULT_BYTES_A_REQUEST, RESULT_BYTES_A_TOKEN = 16_384, 256
"""More than the result of any answer within its length takes: a server that streams on without end is not read to memory."""


def check_plan(plan: Plan) -> None:
    """Refuse what the Rust client can't be asked for.

    Raises:
        RunFailure: `InvalidPlan`. The operator refuses the same.
    """
    loads = [stage.load for stage in plan.stages]
    wrong = {
        "an engine without an API server": plan.target.offline,
        "a search": bool(plan.searches),
        "a trace's instants": any(load.trace_speed is not None for load in loads),
        "a rate under a cap": any(load.max_concurrency and load.request_rate != "inf" for load in loads),
        "several servers": plan.target.servers > 1,
    }
    if found := [what for what, is_asked in wrong.items() if is_asked]:
        raise RunFailure("InvalidPlan", f"the engine VLLMRust does not do {' or '.join(found)}; take the engine VLLM")


class RustEngine:
    """`vllm-rs bench serve`, a process for every load. It uses all cores it may."""

    def __init__(self, binary: Binary, *, model: str, percentiles: Sequence[str], ca_file: str | None) -> None:
        self._binary, self._model, self._percentiles = binary, model, percentiles
        self._environment = command.environment(os.environ, ca_file=ca_file)
        # It looks up no proxies.
        self.name = EngineName(name=NAME, version=binary.version, trust_env=False)
        self.instants: Instants | None = None
        """Of the last load; None while one is under way, and of one that was cut short."""

    async def run(
        self,
        load: Load,
        servers: Servers,
        *,
        on_send: Callable[[], None] = lambda: None,
        on_answer: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Send one load. `on_answer` is called for every request when all have ended: before that nothing is told."""
        self.instants = None
        with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as name:
            folder = Path(name)
            (folder / command.TOKENIZER_FILE).write_text(command.TOKENIZER)
            with (folder / command.PROMPTS_FILE).open("w") as file:
                file.writelines(command.prompt_lines(load.samples))
            words = command.arguments(
                load, url=servers.url, model=self._model, percentiles=self._percentiles, folder=folder
            )
            watched = await run_to_end([self._binary.path, *words], environment=self._environment, on_begin=on_send)
            told = _read(folder / command.RESULT_FILE, load)
        assert watched.began is not None
        outcome = outcome_of(told, load, began=watched.began)
        for _ in load.samples:
            on_answer()
        self.instants = instants = outcome.instants
        first, last = instants.sent[0], max(instants.answered)
        toll = toll_of(watched.readings, first=first, last=last, threads=usable_cores())
        return replace(outcome, toll=toll)


def _read(file: Path, load: Load) -> dict[str, Any]:
    tokens = sum(sample.output_tokens for sample in load.samples)
    most = RESULT_BYTES_A_REQUEST * (len(load.samples) + 1) + RESULT_BYTES_A_TOKEN * tokens
    try:
        if (size := file.stat().st_size) > most:
            raise RunFailure(
                "ClientError", f"vllm-rs wrote a result of {size} bytes, where at most {most} are plausible"
            )
        told = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise RunFailure("ClientError", f"vllm-rs left no result that can be read: {type(error).__name__}") from error
    if not isinstance(told, dict):
        raise RunFailure("ClientError", "vllm-rs left a result of another form")
    return told
