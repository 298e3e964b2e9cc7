"""The process that writes prompts, for real: it reads a tokenizer, writes what is asked, and tells
why it can't."""

import pickle
from pathlib import Path

import pytest
from benchrun_client.contract import Stage, Target
from benchrun_client.contract.datasets import RandomData
from benchrun_client.datasets.row_pools import prompts_digest
from benchrun_client.failures import RunFailure
from benchrun_client.search import prompt_writer
from benchrun_client.search.prompt_writer import PromptWriter, WriterProcess, opened
from benchrun_client.tokenizer import TokenCounter
from unit.client.plans import plan, stage
from unit.client.words import WORDS, HubTokenizer

STARTS = (tuple(WORDS[:8]),)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    import benchrun_client

    assert benchrun_client.__file__ is not None
    monkeypatch.setenv("PYTHONPATH", benchrun_client.__file__.rsplit("/", 2)[0])


def long(requests: int) -> Stage:
    return stage(
        data=RandomData(input_tokens=20, output_tokens=4), requests=requests, seed=5
    )


def test_it_writes_the_longest_and_digests_every_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def tokenizer(_: Target) -> TokenCounter:
        return TokenCounter(HubTokenizer())

    monkeypatch.setattr(prompt_writer, "load_tokenizer", tokenizer)
    writer = WriterProcess()
    for question in (plan().target, (tuple(WORDS), STARTS)):
        assert opened(writer.answer(pickle.dumps(question))) is None
    written = opened(writer.answer(pickle.dumps((long(7), (3, 7)))))
    assert written is not None
    samples, digests = written
    assert len(samples) == 7
    assert digests == {n: prompts_digest(samples[:n]) for n in (3, 7)}
    later = opened(writer.answer(pickle.dumps((long(7), (7,)))))
    assert later is not None
    assert not {s.prompt for s in samples} & {s.prompt for s in later[0]}


async def test_a_tokenizer_that_is_not_there_is_reported_by_its_own_reason(
    tmp_path: Path,
) -> None:
    writer = await PromptWriter.start()
    target = plan(target={"tokenizer": str(tmp_path / "nothing")}).target
    with pytest.raises(RunFailure) as failure:
        await writer.read_tokenizer(target)
    assert failure.value.reason in (
        "TokenizerNotFound",
        "TokenizerUnusable",
        "ClientError",
    )
    await writer.stop()


async def test_a_writer_that_dies_is_reported_and_not_waited_for(
    capfd: pytest.CaptureFixture[str],
) -> None:
    writer = await PromptWriter.start()
    with pytest.raises(
        RunFailure, match="the prompt writer process ended with code 1"
    ):
        await writer.write(long(3), (3,))
    assert "AttributeError" in capfd.readouterr().err
