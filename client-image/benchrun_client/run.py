"""The story of one run, told from the main thread."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import ssl
import sys
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError

from benchrun_client.contract import Plan, Sealed
from benchrun_client.engine import Engine, LoadEngine
from benchrun_client.failures import RunFailure, as_failure, first_line, tell
from benchrun_client.http_session import BackgroundLoop, open_session, tls_context
from benchrun_client.ledger import Ledger
from benchrun_client.measuring import Measuring, digests_of
from benchrun_client.offline.asking import OfflineEngine
from benchrun_client.record_server import RecordServer
from benchrun_client.recorder import Recorder, packed
from benchrun_client.records import RawStage
from benchrun_client.search.probes import Upcoming
from benchrun_client.search.scribe import Desk, Scribe
from benchrun_client.shards.first import Company, FirstShard, run_sibling
from benchrun_client.shards.gate import Gate
from benchrun_client.target import FIRST_REQUEST_SECONDS, look_out
from benchrun_client.tokenizer import TokenCounter, load_tokenizer, longest_context
from benchrun_client.traffic import Material, Traffic, check_lengths, find_material, is_written_late, write_traffic

# ---- plan file --------------------------------------------------------------------------------------------------------
# The plan as the operator mounted it.

MAX_PLAN_BYTES = 4 * 1024 * 1024
"""A ConfigMap holds 1 MiB; anything larger is not a plan."""
SHOWN_ERRORS = 5


def read_plan(path: Path) -> Plan:
    """Read and check the plan.

    Raises:
        RunFailure: `InvalidPlan`, naming the fields that are wrong.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise RunFailure("InvalidPlan", f"cannot read {path}: {error.strerror}") from error
    if len(text) > MAX_PLAN_BYTES:
        raise RunFailure("InvalidPlan", f"{path} is larger than {MAX_PLAN_BYTES} bytes")
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        raise RunFailure("InvalidPlan", f"{path}: {_told(error)}") from error


def peek_run_uid(path: Path) -> str:
    """The run's uid even when the plan is broken elsewhere, so that the operator knows whose failure it reads; else ''."""
    try:
        uid = json.loads(path.read_bytes()[:MAX_PLAN_BYTES])["run_uid"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return uid if isinstance(uid, str) and len(uid) <= 64 else ""


def _told(error: ValidationError) -> str:
    """The first errors as `field.path: what is wrong`; values are left out: not all of them are for a log."""
    problems = error.errors(include_input=False, include_url=False)
    told = [
        f"{'.'.join(str(part) for part in p['loc']) or 'plan'}: {first_line(p['msg'])}" for p in problems[:SHOWN_ERRORS]
    ]
    more = len(problems) - SHOWN_ERRORS
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")


# ---- run --------------------------------------------------------------------------------------------------------------
# The story of one run, told from the main thread.
#
# read plan -> load tokenizer -> find data -> ready
# import the load engine, write the prompts          | meanwhile, in the background: wait for the target, prove the path
# warm up -> stage, stage, stage                     | meanwhile: serve records, make records
# wait until all is acknowledged

log = logging.getLogger(__name__)
T = TypeVar("T")

LAST_WORDS_SECONDS = 10.0
"""How long a client that failed still serves what it has."""


class Run:
    """One run from plan to exit."""

    def __init__(self, *, plan_path: Path, address: str, port: int, company: Company) -> None:
        self._plan_path = plan_path
        self._company = company
        self._address, self._port = address, port
        self._ledger = Ledger()
        self._background = BackgroundLoop()
        self._server = RecordServer(self._ledger)
        self._recorder: Recorder | None = None
        self._recording: list[Future[None]] = []
        self._shards: FirstShard | None = None
        self._in_order = asyncio.Lock()
        # Whoever redirects stdout later, headlines go to the log.
        self._log_lines = sys.stdout

    def to_the_end(self) -> NoReturn:
        """Measure, and end the process; the only way out, in success and failure."""
        try:
            port = self._background.run(self._server.start(address=self._address, port=self._port))
            log.info("serving records on port %d", port)
            self._measure()
            self._background.run(self._server.wait_until_told())
            self._background.run(self._server.stop())
        except Exception as error:
            self._background.run(self._end_failed(error))
        end_process(0)

    def _measure(self) -> None:
        plan = self._read_plan()
        gate = self._open_gate(plan) if self._company.place.shards > 1 else None
        counter, material = find_all(plan)
        tls = tls_context(plan.target.ca_file)
        self._ledger.mark_ready()
        log.info("ready: plan, tokenizer and data found")
        looking = self._watched(look_out(plan, material, self._ledger, tls=tls))
        self._recorder = self._background.run(Recorder.start(self._on_record))
        scribe = self._scribe(plan)
        engine = _engine(plan, counter, tls=tls)
        traffic = write_traffic(plan, material, counter)
        upcoming = self._upcoming(scribe, material, traffic)
        digests = digests_of(traffic)
        log.info("prompts of %d stages written", len(traffic.stages))
        # vLLM walks the heap before each stage (0.4 s after this import); what is frozen already it passes over.
        gc.collect()
        gc.freeze()
        found = looking.result()
        if gate is not None:
            self._background.run(gate.tell_target(found.servers))
            self._shards = FirstShard(gate, self._background, shards=self._company.place.shards)

        async def measure() -> None:
            async with open_session(tls=tls, seconds=FIRST_REQUEST_SECONDS) as session:
                await Measuring(
                    plan=plan,
                    digests=digests,
                    traffic=traffic,
                    engine=engine,
                    found=found,
                    ledger=self._ledger,
                    session=session,
                    hand_over=self._hand_over,
                    upcoming=upcoming,
                    shards=self._shards,
                ).run()

        asyncio.run(measure())
        for record in self._recording:
            record.result()
        self._background.run(self._recorder.stop())
        if gate is not None:
            self._background.run(gate.close())
        self._ledger.expect(len(self._recording))
        self._ledger.enter("Done")
        log.info("all stages measured")

    def _open_gate(self, plan: Plan) -> Gate:
        """Wait for the other shards, start those of this pod, and end the run when one is lost."""
        gate = Gate(plan, shards=self._company.place.shards, on_answers=self._ledger.count_elsewhere)
        self._background.run(gate.start(address=self._company.listens_on, port=self._company.port))
        self._watched(gate.watch())
        for shard in self._company.siblings:
            self._watched(self._keep(gate, shard))
        return gate

    async def _keep(self, gate: Gate, shard: int) -> None:
        """Run another shard of this pod. How it failed it tells at the gate, if it can."""
        code = await run_sibling(self._company, shard, plan=self._plan_path)
        if code:
            gate.lose(shard, f"its process ended with code {code}")

    def _read_plan(self) -> Plan:
        try:
            plan = read_plan(self._plan_path)
        except RunFailure:
            self._ledger.begin(run_uid=peek_run_uid(self._plan_path), token_digest=None, records=0)
            raise
        records = None if plan.searches else len(plan.stages)
        self._ledger.begin(run_uid=plan.run_uid, token_digest=plan.token_digest, records=records)
        return plan

    def _scribe(self, plan: Plan) -> Scribe | None:
        """Who writes the prompts of searches that are written probe by probe; None: nobody has to. It begins with its tokenizer,
        while vLLM is imported here."""
        if not any(is_written_late(plan, search) for search in plan.searches):
            return None
        scribe = self._background.run(Scribe.start())
        self._watched(scribe.read_tokenizer(plan.target))
        return scribe

    def _upcoming(self, scribe: Scribe | None, material: Material, traffic: Traffic) -> Upcoming:
        """The prompts of searches."""
        if scribe is None:
            return Upcoming(traffic.probes, write=None)
        # Questions are answered in order: nobody needs to wait for this one.
        self._watched(scribe.sit_down(Desk(material.words, tuple(traffic.starts))))
        return Upcoming(
            traffic.probes, write=lambda stage, lengths: self._background.start(scribe.write(stage, lengths))
        )

    def _hand_over(self, raw: RawStage) -> None:
        assert self._recorder is not None
        # Copied here, where the server idles anyway; the writing goes on beside the next stage.
        self._recording.append(self._watched(self._record(raw.sequence, packed(raw))))

    async def _record(self, sequence: int, stage: bytes) -> None:
        assert self._recorder is not None
        if self._shards is None:
            await self._recorder.record(stage)
            return
        async with self._in_order:
            parts, together = await self._shards.parts(sequence)
            await self._recorder.record(stage, parts=parts, together=together)

    def _on_record(self, sealed: Sealed, line: str) -> None:
        self._ledger.add(sealed)
        print(line, file=self._log_lines, flush=True)

    def _watched(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return self._background.watch(work, end_failed=self._end_failed)

    async def _end_failed(self, error: Exception) -> NoReturn:
        """Tell why, serve what there is for a little longer, end the process. The first failure to get here counts."""
        failure = as_failure(error)
        if not self._ledger.fail(failure.to_message()):
            await asyncio.Event().wait()
        tell(failure, cause=error)
        await self._server.wait_until_told(seconds=LAST_WORDS_SECONDS)
        await self._server.stop()
        end_process(failure.exit_code)


def end_process(code: int) -> NoReturn:
    """End at once: nothing is left to tidy up, and the exit handlers of a large import take their time."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _engine(plan: Plan, counter: TokenCounter, *, tls: ssl.SSLContext | None) -> LoadEngine:
    """Who sends the load."""
    return OfflineEngine() if plan.target.offline else vllm_engine(plan, counter, tls=tls)


def vllm_engine(plan: Plan, counter: TokenCounter, *, tls: ssl.SSLContext | None) -> Engine:
    """vLLM's benchmark in this process, which takes half a minute to import."""
    engine = Engine(tokenizer=counter.tokenizer, model=plan.target.served_model, percentiles=plan.percentiles, tls=tls)
    log.info("vLLM %s imported", engine.name.version)
    return engine


def find_all(plan: Plan) -> tuple[TokenCounter, Material]:
    """Everything that can be missing, looked for before a server is started for this run."""
    counter = load_tokenizer(plan.target)
    context = longest_context(plan.target.tokenizer)
    known = [tokens for tokens in (context, plan.target.context_tokens) if tokens]
    material = find_material(plan, counter, context_tokens=min(known, default=None))
    if context:
        check_lengths(plan, material, context_tokens=context, whose="the model (config.json)")
    if plan.target.context_tokens:
        check_lengths(plan, material, context_tokens=plan.target.context_tokens, whose="the server (--max-model-len)")
    return counter, material
