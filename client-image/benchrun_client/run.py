"""One run from plan to exit: the main thread of shard 0 or of the only process.

read plan -> fill the claim with the model -> load tokenizer -> find data -> ready
                                               (here the variables of the preparation end)
import the load engine, write the prompts          | meanwhile, in the background: wait for the
                                                   | servers, send them a first request
warm up -> stage, stage, stage                     | meanwhile: serve records, make records
wait until all is acknowledged
"""

import asyncio
import contextlib
import gc
import json
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError

from benchrun_client.access import Access, access_to
from benchrun_client.contract import (
    PLAN_SCHEMA,
    PROFILE_STAGE,
    Plan,
    Stage,
    Target,
    other_schema,
    printable,
    seal,
)
from benchrun_client.failures import (
    RunFailure,
    as_failure,
    first_line,
    report_failure,
)
from benchrun_client.http_session import BackgroundLoop, open_session
from benchrun_client.load.vllm_benchmark import LoadEngine, VllmEngine
from benchrun_client.measuring import Measuring
from benchrun_client.model_cache import target_on_claim
from benchrun_client.offline.engine_client import OfflineEngine
from benchrun_client.preparation import Preparation
from benchrun_client.processes import end_process
from benchrun_client.profiling import Profiling
from benchrun_client.record_process import RecordProcess, packed
from benchrun_client.record_server import RecordServer
from benchrun_client.run_progress import RunProgress, own_release
from benchrun_client.search.prompt_writer import PromptWriter, SearchPrompts
from benchrun_client.server.readiness import FIRST_REQUEST_SECONDS, wait_for_servers
from benchrun_client.shards.first_shard import FirstShard, ShardSetup, run_sibling
from benchrun_client.shards.gate_server import GateServer
from benchrun_client.stage_record import RawStage
from benchrun_client.tokenizer import TokenCounter, load_tokenizer, longest_context
from benchrun_client.traffic import (
    Material,
    check_lengths,
    find_material,
    is_written_late,
    write_traffic,
)

# A ConfigMap holds 1 MiB; anything larger is not a plan.
MAX_PLAN_BYTES = 4 * 1024 * 1024
SHOWN_ERRORS = 5
# Seconds in which a client that failed still serves its records.
LAST_READ_SECONDS = 10.0

log = logging.getLogger(__name__)
T = TypeVar("T")


def read_plan(path: Path) -> Plan:
    """Read and check the plan.

    Raises RunFailure `InvalidPlan`, which names the fields that are wrong but not their values, or
    `ContractMismatch` for a plan of another version of the contract.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise RunFailure(
            "InvalidPlan", f"cannot read {path}: {error.strerror}"
        ) from error
    if len(text) > MAX_PLAN_BYTES:
        raise RunFailure(
            "InvalidPlan", f"{path} is larger than {MAX_PLAN_BYTES} bytes"
        )
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        shown = [
            f"{'.'.join(map(str, p['loc'])) or 'plan'}: {first_line(p['msg'])}"
            for p in problems[:SHOWN_ERRORS]
        ]
        more = len(problems) - SHOWN_ERRORS
        message = "; ".join(shown) + (f"; and {more} more" if more > 0 else "")
        theirs = other_schema(_parsed(text), PLAN_SCHEMA)
        if theirs is None and any(p["type"] in _NOT_KNOWN for p in problems):
            theirs = f"{PLAN_SCHEMA} of another release ({message})"
        if theirs is None:
            raise RunFailure("InvalidPlan", f"{path}: {message}") from error
        raise RunFailure(
            "ContractMismatch",
            f"the plan is {printable(theirs)}, this client{_of_release()} reads {PLAN_SCHEMA}: use "
            "the client image of the operator's release (spec.client.image, or clientImage of the "
            "chart)",
        ) from error


_NOT_KNOWN = frozenset({"extra_forbidden", "union_tag_invalid"})
"""Errors about a field, or a kind of load or data, that only another release knows."""


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _of_release() -> str:
    release = own_release()
    return "" if release is None else f" of release {release}"


def peek_run_uid(path: Path) -> str:
    """Return the run's uid even if the rest of the plan is not valid; '' if it cannot be found.

    With the uid, the operator knows to which run the failure belongs.
    """
    try:
        with path.open("rb") as file:
            uid = json.loads(file.read(MAX_PLAN_BYTES))["run_uid"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return uid if isinstance(uid, str) and len(uid) <= 64 else ""


class BaseRun(ABC):
    """The steps from plan to exit that all shards share."""

    _record_process: RecordProcess

    def __init__(
        self,
        *,
        plan_path: Path,
        address: str,
        port: int,
        setup: ShardSetup,
        preparation: Preparation,
    ) -> None:
        self._plan_path = plan_path
        self._setup = setup
        self._preparation = preparation
        self._address = address
        self._port = port
        self._state = RunProgress()
        self._background = BackgroundLoop()
        self._server = RecordServer(self._state)
        self._recording: list[Future[None]] = []

    def to_the_end(self) -> NoReturn:
        """Measure, then end the process, whether that succeeded or failed."""
        try:
            port = self._background.run(
                self._server.start(address=self._address, port=self._port)
            )
            log.info("serving records on port %d", port)
            self._measure()
        except Exception as error:
            self._background.run(self._end_failed(error))
        end_process(0)

    @abstractmethod
    def _measure(self) -> None: ...

    def _finish_recording(self) -> None:
        for record in self._recording:
            record.result()
        self._background.run(self._record_process.stop())

    def _watched(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work whose failure ends the run at once, even while other threads are busy."""

        async def watched() -> T:
            try:
                return await work
            except Exception as error:
                await self._end_failed(error)

        return self._background.start(watched())

    async def _end_failed(self, error: Exception) -> NoReturn:
        """Report a failure and end the process; only the first failure counts."""
        failure = as_failure(error)
        if not self._state.fail(failure.to_message()):
            await asyncio.Event().wait()
        report_failure(failure, cause=error)
        await self._before_end(failure)
        end_process(failure.exit_code)

    @abstractmethod
    async def _before_end(self, failure: RunFailure) -> None:
        """Do what other processes still need, before this failed process ends."""


class ClientRun(BaseRun):
    """The run of shard 0 or the only process, which finds the servers and serves the records."""

    _gate: GateServer | None = None
    _shards: FirstShard | None = None

    def _measure(self) -> None:
        self._in_order = asyncio.Lock()
        # Headlines go to the log, even if stdout is redirected later.
        self._log_lines = sys.stdout
        plan = self._read_plan()
        if self._setup.shard.count > 1:
            self._gate = self._open_gate(plan)
        target = target_on_claim(plan.target, self._state.show_model)
        counter, material = find_all(plan, target)
        self._preparation.end()
        access = access_to(plan.target)
        self._state.ready = True
        log.info("ready: plan, tokenizer and data found")
        waiting = self._watched(
            wait_for_servers(plan, material, self._state, access=access)
        )
        self._record_process = self._background.run(RecordProcess.start())
        writer = self._prompt_writer(plan, target)
        offline = (
            OfflineEngine(chat_template=counter.chat_template)
            if plan.target.offline
            else None
        )
        engine: LoadEngine = offline or vllm_engine(plan, counter, access=access)
        traffic = write_traffic(plan, material, counter)
        if writer is not None:
            # Questions are answered in order: there is no need to wait for this one.
            self._watched(writer.prepare(material.words, traffic.starts))

        def write(stage: Stage, lengths: Sequence[int]) -> Future[bytes]:
            assert writer is not None
            return self._background.start(writer.write(stage, lengths))

        log.info("prompts of %d stages written", len(traffic.stages))
        freeze_heap()
        found = waiting.result()
        if self._gate is not None:
            self._background.run(self._gate.send_target(found.servers))
            self._shards = FirstShard(
                self._gate, self._background, shards=self._setup.shard.count
            )

        async def measure() -> None:
            async with open_session(
                access=access, seconds=FIRST_REQUEST_SECONDS
            ) as session:
                measuring = Measuring(
                    plan,
                    engine,
                    found,
                    self._state,
                    traffic=traffic,
                    session=session,
                    hand_over=self._hand_over,
                    prompts=SearchPrompts(
                        traffic.probes, write if writer else None
                    ),
                    shards=self._shards,
                    hide=access.hide,
                )
                await measuring.run()
                if plan.profile is not None:
                    profiling = Profiling(
                        plan.profile,
                        engine,
                        found.servers,
                        traffic.warmups[-1],
                        session,
                    )
                    await self._profile(profiling, plan)

        asyncio.run(measure())
        self._finish_recording()
        if self._gate is not None:
            self._background.run(self._gate.close())
        self._deliver()

    def _deliver(self) -> None:
        """Report that all is measured, and serve until every record is acknowledged."""
        self._state.enter("Done")
        log.info("all stages measured")
        self._background.run(self._server.wait_until_delivered())
        self._background.run(self._server.stop())

    async def _profile(self, profiling: Profiling, plan: Plan) -> None:
        """Take the profile after every record is made, so that it can't cost a record."""
        await asyncio.gather(*map(asyncio.wrap_future, self._recording))
        self._state.enter("Measuring", stage=PROFILE_STAGE)
        self._state.add(
            seal(await profiling.record(plan, sequence=len(self._recording)))
        )

    def _open_gate(self, plan: Plan) -> GateServer:
        """Open the gate (`shards.gate_server`) to the other shards, and start those of this pod.

        The run ends if a shard is lost.
        """

        async def run_other(shard: int) -> None:
            if code := await run_sibling(
                self._setup,
                shard,
                plan=self._plan_path,
                preparation=self._preparation,
            ):
                # Why it failed it reports at the gate, if it can.
                gate.lose(shard, f"the shard's process ended with code {code}")

        gate = GateServer(
            plan,
            shards=self._setup.shard.count,
            on_answers=self._state.count_elsewhere,
        )
        self._background.run(
            gate.start(address=self._setup.gate_address, port=self._setup.gate_port)
        )
        self._watched(gate.watch())
        for shard in self._setup.siblings:
            self._watched(run_other(shard))
        return gate

    def _read_plan(self) -> Plan:
        try:
            plan = read_plan(self._plan_path)
        except RunFailure:
            self._state.begin(
                run_uid=peek_run_uid(self._plan_path), token_digest=None
            )
            raise
        self._state.begin(run_uid=plan.run_uid, token_digest=plan.token_digest)
        return plan

    def _prompt_writer(self, plan: Plan, target: Target) -> PromptWriter | None:
        if not is_written_late(plan):
            return None
        # It loads the tokenizer once more, and never connects to a server.
        writer = self._background.run(
            PromptWriter.start(self._preparation.environment)
        )
        # While vLLM is imported here.
        self._watched(writer.read_tokenizer(target))
        return writer

    def _hand_over(self, raw: RawStage) -> None:
        # Copied here, where the server idles anyway; the writing goes on beside the next stage.
        self._recording.append(
            self._watched(self._record(raw.sequence, packed(raw)))
        )

    async def _record(self, sequence: int, stage: bytes) -> None:
        async with self._in_order:
            parts, sharded = (
                ((), None)
                if self._shards is None
                else await self._shards.parts(sequence)
            )
            sealed, line = await self._record_process.record(
                stage, parts=parts, sharded=sharded
            )
        self._state.add(sealed)
        print(line, file=self._log_lines, flush=True)

    async def _before_end(self, failure: RunFailure) -> None:
        """Serve the existing records for a little longer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_READ_SECONDS):
                await self._server.wait_until_delivered()
        await self._server.stop()


def vllm_engine(plan: Plan, counter: TokenCounter, *, access: Access) -> VllmEngine:
    """Import vLLM's benchmark, which takes half a minute, and return its engine."""
    target = plan.target
    engine = VllmEngine(
        tokenizer=counter.tokenizer,
        model=target.served_model,
        percentiles=plan.percentiles,
        access=access,
    )
    log.info("vLLM %s imported", engine.name.version)
    return engine


def freeze_heap() -> None:
    """Take all objects out of garbage collection.

    Before each stage vLLM runs the garbage collector, which takes 0.4 s after vLLM's import. It
    skips frozen objects.
    """
    gc.collect()
    gc.freeze()


def find_all(plan: Plan, target: Target) -> tuple[TokenCounter, Material]:
    """Find everything that can be missing, before a server is started for this run.

    `target` is the plan's, with the tokenizer where this client finds it. Returns the tokenizer,
    and the rows and words for prompts. Raises RunFailure.
    """
    counter = load_tokenizer(target)
    context = longest_context(target.tokenizer)
    bounds = (
        (context, "the model (config.json)"),
        (plan.target.context_tokens, "the server (--max-model-len)"),
    )
    known = [(tokens, whose) for tokens, whose in bounds if tokens]
    material = find_material(
        plan,
        counter,
        context_tokens=min((tokens for tokens, _ in known), default=None),
    )
    for tokens, whose in known:
        check_lengths(plan, material, context_tokens=tokens, whose=whose)
    return counter, material
