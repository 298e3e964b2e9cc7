"""The played client of one run: the real client's ledger and record server, with made-up records.

It says what a real client says, in the same order: waiting, healthy, warming up, a stage, and the
record of each stage a moment after the next has begun.
"""

import asyncio
import random
import time
from functools import cache
from itertools import chain

from _records import columns, gap_counts, stage_record
from benchrun_client.contract import (
    RECORD_PORT,
    ClientFigures,
    GapCounts,
    Plan,
    RequestColumns,
    Sealed,
    ServerEdge,
    Stage,
    StageRecord,
    seal,
)
from benchrun_client.contract.datasets import RandomData
from benchrun_client.record_server import RecordServer
from benchrun_client.run_progress import RunProgress

from runs_kit.metrics_page import Server, Work

RECORDING_SECONDS = 0.2
"""Time from the start of the next stage until the record of the previous one, made beside it,
arrives."""
TTFT_US = 90_000
GAP_US = 11_000
JITTER_US = 1_500


class PlayedClient:
    """The played client of one run."""

    def __init__(self, address: str, *, clock_ahead_seconds: float = 0.0) -> None:
        self._address = address
        self._ahead_us = int(clock_ahead_seconds * 1e6)
        self._ledger = RunProgress()
        self._listener = RecordServer(self._ledger)
        self._last_record: Sealed | None = None
        self.digests: list[str] = []
        """Digests of the stages that it has measured, in order."""

    async def start(self, plan: Plan) -> None:
        """Take over the plan, answer on port 8090, and become ready."""
        self._plan = plan
        self._digest = plan.digest()
        self._ledger.begin(run_uid=plan.run_uid, token_digest=plan.token_digest)
        await self._listener.start(address=self._address, port=RECORD_PORT)
        self._ledger.enter("Waiting")
        self._ledger.ready = True

    async def stop(self) -> None:
        """Stop answering."""
        await self._listener.stop()

    async def measure(
        self,
        server: Server,
        *,
        ends: list[float],
        server_address: str | None = None,
    ) -> None:
        """Play all stages; stage n ends at `ends[n]` (`time.monotonic`).

        The last record is made and held back until `finish`. The server is at the client's own
        address, unless another is given.
        """
        self._ledger.note("healthy_unix_us", self._now_us())
        self._ledger.enter("WarmingUp")
        self._ledger.note("warmup_us", 100_000)
        before = server.counters()
        made = None
        for sequence, (stage, end) in enumerate(
            zip(self._plan.stages, ends, strict=True)
        ):
            self._ledger.enter("Measuring", stage=stage.id)
            if made is None:
                self._ledger.note("first_request_unix_us", self._now_us())
            else:
                await asyncio.sleep(RECORDING_SECONDS)
                self._ledger.add(made)
            began = self._now_us()
            seconds = max(0.0, end - time.monotonic())
            data = _random(stage)
            now = time.time()
            until = now + seconds
            server.begin(
                Work(
                    stage.requests,
                    data.input.mean,
                    data.output.mean,
                    began=now,
                    ends=until,
                )
            )
            await asyncio.sleep(max(0.0, end - time.monotonic()))
            after = server.counters()
            at = server_address or self._address
            edge = ServerEdge(address=f"{at}:8000", before=before, after=after)
            made = seal(self._record(sequence, edge, began_us=began))
            self.digests.append(made[0].digest)
            before = after
        self._last_record = made

    def finish(self) -> None:
        """Publish the last record."""
        assert self._last_record is not None
        self._ledger.enter("Done")
        self._ledger.add(self._last_record)

    async def told(self, *, seconds: float) -> bool:
        """Return whether the operator acknowledges every record within `seconds`.

        A real client would exit then.
        """
        try:
            await asyncio.wait_for(self._listener.wait_until_delivered(), seconds)
        except TimeoutError:
            return False
        return True

    def _now_us(self) -> int:
        """Return the time of the client's node clock, in Unix microseconds."""
        return int(time.time() * 1e6) + self._ahead_us

    def _record(
        self, sequence: int, edge: ServerEdge, *, began_us: int
    ) -> StageRecord:
        stage = self._plan.stages[sequence]
        requests, gaps = _latencies(stage.requests, _random(stage).output.mean)
        return stage_record(
            stage.id,
            sequence,
            requests,
            gaps,
            edge,
            load=stage.load,
            began_us=began_us,
            ended_us=max(self._now_us(), began_us + 1),
            client=ClientFigures(cpu_seconds=1.0, wall_seconds=2.0),
            run_uid=self._plan.run_uid,
            plan_digest=self._digest,
            idle_before_us=5_000,
        )


def _random(stage: Stage) -> RandomData:
    assert isinstance(stage.data, RandomData), (
        "the played runs ask for nothing else"
    )
    return stage.data


@cache
def _latencies(
    requests: int, output_tokens: int
) -> tuple[RequestColumns, GapCounts]:
    """Build request columns and gap counts as wide as real ones, with thousands of different gaps.

    Records are as large as real ones then. They are made once and used by every stage.
    """
    draw = random.Random(1)
    gaps = [
        [
            max(1, int(draw.gauss(GAP_US, JITTER_US)))
            for _ in range(output_tokens - 1)
        ]
        for _ in range(requests)
    ]
    ttfts = [max(1, int(draw.gauss(TTFT_US, TTFT_US / 5))) for _ in range(requests)]
    requests_columns = columns(
        [n * 150_000 + draw.randrange(50_000) for n in range(requests)],
        ttfts,
        [ttft + sum(row) for ttft, row in zip(ttfts, gaps, strict=True)],
        tokens=(1024, output_tokens),
    )
    return requests_columns, gap_counts(chain.from_iterable(gaps))
