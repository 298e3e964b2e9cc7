"""A simple simulated server, to make stages of any load by the thousand.

It is a queue, one prefill at a time, then decoding. Requests take a sequence slot in order of
arrival, are prefilled one after the other and decoded side by side. Times vary from request to
request, and now and then one is held up, as on a real machine. Arrivals under a rate are Poisson,
stretched as vLLM does it. Nothing here is wrong with the measurement unless the caller makes it so.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from benchrun.judge.rules.rule import StageFacts
from benchrun.judge.stage_facts import ExpectedStage
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import in_flight, stage_windows
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import StageRecord
from unit.judge.stages import open_loop_load, users, with_compilations
from unit.measure.records import (
    STAGE,
    client,
    edge,
    record,
    requests,
    sample,
    served,
)

BEGIN = 1000.0
"""Unix seconds of the first send."""
NETWORK_SECONDS = 0.0005
"""Each way."""

CLOCK_SECONDS = 0.05
"""How far the client's clock is behind that of the readings."""


@dataclass(frozen=True)
class Server:
    """A server's speed, and its defects."""

    slots: int = 64
    prefill_seconds: float = 0.02
    decode_seconds: float = 1.0
    variation: float = 0.1
    """Relative, of every duration."""
    hiccup_chance: float = 0.002
    hiccup_seconds: float = 0.1
    lengths_vary: bool = False
    """Outputs between a tenth and nearly twice the usual length, prompts with a long tail."""
    slower: Callable[[float, int], float] = lambda second, number: 1.0
    """Factor on all durations, by time and number of the request."""
    held_up: Callable[[int], float] = lambda number: 0.0
    """Seconds that a request's prefill waits for nothing but itself."""

    @property
    def capacity(self) -> float:
        """Return the requests a second that it can serve for long."""
        return min(
            1 / self.prefill_seconds,
            self.slots / (self.prefill_seconds + self.decode_seconds),
        )


def open_loop(
    server: Server, *, rate: float, count: int, seed: int, stage_id: str = STAGE
) -> StageFacts:
    """Build a stage of Poisson arrivals."""
    chance = random.Random(seed)
    gaps = [chance.expovariate(1.0) for _ in range(count)]
    stretch = count / rate / sum(gaps)
    due = 0.0
    instants = []
    for gap in gaps:
        due += gap * stretch
        instants.append(due)
    return _stage(
        server, iter(instants), None, chance, open_loop_load(rate=rate), stage_id
    )


def closed_loop(
    server: Server,
    *,
    concurrency: int,
    count: int,
    seed: int,
    stage_id: str = STAGE,
    think_seconds: float = 0.0,
    spread_seconds: float = 0.002,
    missing: int = 0,
) -> StageFacts:
    """Build a stage of users who send again once they are answered and have thought.

    `missing` users never send.
    """
    chance = random.Random(seed)
    sending = min(concurrency, count) - missing
    ready = [chance.random() * spread_seconds for _ in range(sending)]
    heapify(ready)

    def instants() -> Iterable[float]:
        for _ in range(count):
            yield heappop(ready)

    load = users(concurrency, think_seconds=think_seconds)
    return _stage(server, instants(), ready, chance, load, stage_id)


def _stage(
    server: Server,
    instants: Iterable[float],
    ready: list[float] | None,
    chance: random.Random,
    load: ExpectedStage,
    stage_id: str,
) -> StageFacts:
    free = [0.0] * server.slots
    prefill_free = 0.0
    rows = []
    for number, sent in enumerate(instants):
        factor = server.slower(sent, number)
        prompt, output = _lengths(server, chance)
        begin = max(sent + NETWORK_SECONDS, heappop(free), prefill_free)
        prefilled = begin + factor * prompt * server.prefill_seconds * _around_one(
            server, chance
        )
        prefill_free = prefilled
        first = prefilled + server.held_up(number)
        first += (
            server.hiccup_seconds * chance.random()
            if chance.random() < server.hiccup_chance
            else 0.0
        )
        last = first + factor * output * server.decode_seconds * _around_one(
            server, chance
        )
        heappush(free, last)
        answered = last + NETWORK_SECONDS
        rows.append(
            (sent, first + NETWORK_SECONDS - sent, answered - sent, prompt, output)
        )
        if ready is not None:
            mean = load.load.mean_think_seconds
            thought = chance.expovariate(1 / mean) if mean else 0.0
            heappush(ready, answered + thought + chance.random() * 0.0005)
    return _measured(rows, load, stage_id)


def _lengths(server: Server, chance: random.Random) -> tuple[float, float]:
    if not server.lengths_vary:
        return 1.0, 1.0
    return chance.lognormvariate(-0.32, 0.8), chance.uniform(0.1, 1.9)


def _around_one(server: Server, chance: random.Random) -> float:
    return max(0.5, chance.gauss(1.0, server.variation))


def _measured(
    rows: list[tuple[float, float, float, float, float]],
    load: ExpectedStage,
    stage_id: str,
) -> StageFacts:
    begin = rows[0][0]
    last = max(row[0] + row[2] for row in rows)
    columns = requests(
        start_us=[round(1e6 * (row[0] - begin)) for row in rows],
        ttft_us=[round(1e6 * row[1]) for row in rows],
        e2el_us=[round(1e6 * row[2]) for row in rows],
        input_tokens=[max(1, round(100 * row[3])) for row in rows],
        output_tokens=[max(2, round(100 * row[4])) for row in rows],
    )
    duration = last - begin
    waits = 2 * NETWORK_SECONDS * len(rows)
    rises = served(columns)
    rises["time_to_first_token_seconds_sum"] -= waits
    stage = record(
        stage_id,
        requests=columns,
        scalars={"duration": duration},
        first_send_unix_us=round(1e6 * BEGIN),
        last_receive_unix_us=round(1e6 * (BEGIN + duration)),
        servers=(edge(rises=rises),),
        client=client(cpu_seconds=duration / 10, wall_seconds=duration),
    )
    seen = stage_windows(stage, _samples(stage, duration), scrape_interval=1.0)
    return StageFacts(stage, load, Thresholds(), seen, with_compilations((), ()))


def _samples(stage: StageRecord, duration: float) -> list[Sample]:
    """Return a sample for each second, on a clock that is a little off the client's."""
    flight = in_flight(stage.requests)
    tokens = sum(stage.requests.output_tokens)

    def latest(second: float) -> Sample:
        running = float(flight.at(round(1e6 * (second + CLOCK_SECONDS))))
        done = 1 + (tokens - 2) * second / duration
        return sample(BEGIN + second, running=running, generation_tokens=done)

    return [latest(second + 0.4) for second in range(int(duration))]
