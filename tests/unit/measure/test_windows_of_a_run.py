"""A whole run, told second by second: every reading lands in the stage in which the server really did the work, though
the operator's clock and the client's differ by half a minute."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from benchrun.measure.edges import GENERATION_TOKENS
from benchrun.measure.exposition import Sample
from benchrun.measure.windows import figures, windows
from benchrun_client.contract import StageRecord
from hypothesis import given
from hypothesis import strategies as st
from unit.measure.records import edge, record, sample


@dataclass(frozen=True)
class Second:
    """One second of the server's life; `stage` is None between stages."""

    stage: int | None
    tokens: float
    running: float


@st.composite
def lives(draw: st.DrawFn) -> list[Second]:
    """A warm-up, then stages of prefill and decode with pauses between; tokens only rise."""
    life = [Second(None, 0.0, 0.0), Second(None, 49.0, 1.0), Second(None, 50.0, 0.0)]
    tokens = 50.0
    for stage in range(draw(st.integers(1, 4))):
        running = float(draw(st.integers(1, 9)))
        life += [Second(stage, tokens, running)] * draw(st.integers(0, 3))
        for _ in range(draw(st.integers(1, 6))):
            tokens += draw(st.integers(1, 100))
            life.append(Second(stage, tokens, running))
        # The last token of the stage comes with its last answer: from then on the server is idle.
        tokens += 1
        life += [Second(None, tokens, 0.0)] * draw(st.integers(0, 3))
    return life


def stages_of(life: list[Second], *, client_is_ahead: float) -> list[StageRecord]:
    """What the client would report of it."""
    found = []
    before = 50.0  # what the warm-up generated
    for stage in sorted({second.stage for second in life if second.stage is not None}):
        at = [i for i, second in enumerate(life) if second.stage == stage]
        after = life[at[-1]].tokens + 1
        found.append(
            record(
                f"chat/rate={stage}/r1",
                scalars={"duration": float(len(at))},
                servers=(edge(before={GENERATION_TOKENS: before}, rises={GENERATION_TOKENS: after - before}),),
                first_send_unix_us=int((1000 + at[0] + client_is_ahead) * 1e6),
                last_receive_unix_us=int((1000 + at[-1] + client_is_ahead) * 1e6),
            )
        )
        before = after
    return found


def readings_of(life: list[Second]) -> list[Sample]:
    """What the operator would read, once a second."""
    return [
        sample(1000.0 + i, generation_tokens=second.tokens, running=second.running) for i, second in enumerate(life)
    ]


@given(lives(), st.sampled_from([0.0, 30.0]))
def test_every_reading_lands_in_its_stage(life: list[Second], client_is_ahead: float) -> None:
    readings = readings_of(life)
    for number, stage in enumerate(stages_of(life, client_is_ahead=client_is_ahead)):
        (window,) = windows(stage, readings, scrape_interval=1.0)
        assert [life[int(s.at - 1000)].stage for s in window.samples] == [number] * len(window.samples)
        assert len(window.samples) == sum(second.stage == number for second in life)


@given(lives())
def test_figures_are_those_of_the_stage(life: list[Second]) -> None:
    readings = readings_of(life)
    for number, stage in enumerate(stages_of(life, client_is_ahead=30.0)):
        found = figures(windows(stage, readings, scrape_interval=1.0))
        running = {second.running for second in life if second.stage == number}
        assert {found.running_mean, found.running_max} == running
        assert found.coverage_percent == 100.0


@given(lives(), st.integers(2, 4))
def test_a_scraper_that_misses_readings_shows_in_the_coverage(life: list[Second], every: int) -> None:
    kept = [reading for i, reading in enumerate(readings_of(life)) if i % every == 0]
    for number, stage in enumerate(stages_of(life, client_is_ahead=0.0)):
        (window,) = windows(stage, kept, scrape_interval=1.0)
        seconds = [i for i, second in enumerate(life) if second.stage == number]
        expected = 100 * sum(i % every == 0 for i in seconds) / len(seconds)
        assert figures([window]).coverage_percent == pytest.approx(expected)
