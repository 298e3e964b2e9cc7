"""What becomes of the engine's own notes: instants, latencies and tokens, one entry a prompt."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from benchrun_client.offline.engine_server import (
    NoTimesKept,
    OfflineLoad,
    generated,
    times_of,
)
from pydantic import ValidationError
from unit.client.offline.engines import WALL, RecordedEngine, output

TWO = [
    output(arrival=0.001, ttft=0.5, decode=1.0, tokens=11),
    output(arrival=0.25, ttft=0.75, decode=0.0, tokens=1),
]


@pytest.fixture
def sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM is not installed here: its parameters are kept as they were given."""
    module: Any = ModuleType("vllm")
    module.SamplingParams = lambda **given: SimpleNamespace(**given)
    monkeypatch.setitem(sys.modules, "vllm", module)


def test_a_request_begins_when_the_engine_takes_it_and_ends_with_its_last_token() -> (
    None
):
    times = times_of(TWO, called_at=3.0, wall=WALL, took=2.0, as_batch=False)
    assert times.sent == pytest.approx((3.001, 3.25))
    assert (times.ttft, times.e2el, times.output_tokens) == (
        (0.5, 0.75),
        (1.5, 0.75),
        (11, 1),
    )
    assert times.call_seconds == (2.0,)


def test_in_a_batch_every_request_begins_and_ends_with_the_call() -> None:
    times = times_of(TWO, called_at=3.0, wall=WALL, took=2.0, as_batch=True)
    assert (times.sent, times.e2el) == ((3.0, 3.0), (2.0, 2.0))
    assert times.ttft == pytest.approx((0.501, 1.0))


def test_a_wall_clock_that_was_stepped_back_gives_no_negative_wait() -> None:
    early = [output(arrival=-5.0, ttft=-0.1, decode=-1.0, tokens=2)]
    times = times_of(early, called_at=0.0, wall=WALL, took=1.0, as_batch=False)
    assert (times.sent, times.ttft, times.e2el) == ((0.0,), (0.0,), (0.0,))


def test_a_wall_clock_that_was_stepped_forward_puts_no_arrival_behind_the_call() -> (
    None
):
    late = [output(arrival=3600.0, ttft=0.1, decode=0.1, tokens=2)]
    assert times_of(
        late, called_at=4.0, wall=WALL, took=1.0, as_batch=False
    ).sent == (5.0,)


def test_an_engine_without_notes_is_said_to_have_none() -> None:
    silent = [*TWO, SimpleNamespace(metrics=None, outputs=[])]
    with pytest.raises(NoTimesKept, match=r"--disable-log-stats"):
        times_of(silent, called_at=0.0, wall=WALL, took=1.0, as_batch=False)


@pytest.mark.usefixtures("sampling")
@pytest.mark.parametrize(
    ("size", "calls"),
    [
        pytest.param(None, [["a", "b", "c", "d", "e"]], id="all in one"),
        pytest.param(
            2, [["a", "b"], ["c", "d"], ["e"]], id="the last batch is what is left"
        ),
        pytest.param(5, [["a", "b", "c", "d", "e"]], id="one batch"),
        pytest.param(
            9, [["a", "b", "c", "d", "e"]], id="fewer prompts than a batch holds"
        ),
    ],
)
def test_prompts_are_put_to_the_engine_in_order(
    size: int | None, calls: list[list[str]]
) -> None:
    engine = RecordedEngine()
    load = OfflineLoad(
        prompts=tuple("abcde"), output_tokens=(1, 2, 3, 4, 5), batch_size=size
    )
    times = generated(engine, load)
    assert engine.calls == [("generate", call) for call in calls]
    assert times.output_tokens == (1, 2, 3, 4, 5)
    assert len(times.call_seconds) == len(calls)
    assert times.took_seconds >= sum(times.call_seconds)


@pytest.mark.usefixtures("sampling")
def test_batches_follow_one_another() -> None:
    load = OfflineLoad(
        prompts=("a", "b", "c"), output_tokens=(1, 1, 1), batch_size=1
    )
    times = generated(RecordedEngine(), load)
    assert list(times.sent) == sorted(times.sent)
    first, second, third = (
        sent + e2el for sent, e2el in zip(times.sent, times.e2el, strict=True)
    )
    assert first <= times.sent[1]
    assert second <= times.sent[2]
    assert third <= times.took_seconds


@pytest.mark.usefixtures("sampling")
def test_chat_puts_each_prompt_into_a_turn_of_its_own() -> None:
    engine = RecordedEngine()
    generated(
        engine, OfflineLoad(prompts=("hello",), output_tokens=(3,), api="Chat")
    )
    generated(
        engine,
        OfflineLoad(
            prompts=("hello",),
            output_tokens=(3,),
            api="Chat",
            chat_template="{{ x }}",
        ),
    )
    turns = [[{"role": "user", "content": "hello"}]]
    assert engine.calls == [("chat", turns), ("chat by {{ x }}", turns)]


@pytest.mark.usefixtures("sampling")
@pytest.mark.parametrize("ignore_eos", [True, False])
def test_answers_run_to_their_length_or_end_where_the_model_ends_them(
    ignore_eos: bool,
) -> None:
    seen: list[Any] = []

    class Engine(RecordedEngine):
        def generate(
            self, prompts: Any, params: Any, *, use_tqdm: bool
        ) -> list[SimpleNamespace]:
            seen.extend(params)
            return super().generate(prompts, params, use_tqdm=use_tqdm)

    generated(
        Engine(),
        OfflineLoad(prompts=("a",), output_tokens=(7,), ignore_eos=ignore_eos),
    )
    (params,) = seen
    assert (params.max_tokens, params.ignore_eos, params.temperature) == (
        7,
        ignore_eos,
        0.0,
    )


def test_a_load_says_for_every_prompt_how_many_tokens_it_wants() -> None:
    with pytest.raises(ValidationError, match="equally long"):
        OfflineLoad(prompts=("a", "b"), output_tokens=(1,))
