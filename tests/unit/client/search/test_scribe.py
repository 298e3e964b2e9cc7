"""The process that writes prompts, for real: it reads a tokenizer, writes what is asked, and tells why it can't."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from benchrun_client.contract import RandomData, Stage, Target
from benchrun_client.datasets.samples import prompts_digest
from benchrun_client.failures import RunFailure
from benchrun_client.search import writing
from benchrun_client.search.scribe import PromptWriter, WriterInput, Written, opened
from benchrun_client.search.writing import Writing
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
    return stage(data=RandomData(input_tokens=20, output_tokens=4), requests=requests, seed=5)


def test_it_writes_the_longest_and_digests_every_length(monkeypatch: pytest.MonkeyPatch) -> None:
    def tokenizer(_: Target) -> TokenCounter:
        return TokenCounter(HubTokenizer())

    monkeypatch.setattr(writing, "load_tokenizer", tokenizer)
    at_work = Writing()
    for question in (plan().target, WriterInput(tuple(WORDS), STARTS)):
        assert pickle.loads(at_work.answer(pickle.dumps(question))) is None
    written = opened(at_work.answer(pickle.dumps((long(7), (3, 7)))))
    assert isinstance(written, Written)
    assert len(written.samples) == 7
    assert written.digests == {n: prompts_digest(written.samples[:n]) for n in (3, 7)}
    again = opened(at_work.answer(pickle.dumps((long(7), (7,)))))
    assert again is not None
    assert not {s.prompt for s in written.samples} & {s.prompt for s in again.samples}


async def test_a_tokenizer_that_is_not_there_is_told_by_its_own_reason(tmp_path: Path) -> None:
    scribe = await PromptWriter.start()
    target = plan(target={"tokenizer": str(tmp_path / "nothing")}).target
    with pytest.raises(RunFailure) as failure:
        await scribe.read_tokenizer(target)
    assert failure.value.reason in ("TokenizerNotFound", "TokenizerUnusable", "ClientError")
    await scribe.stop()


async def test_a_scribe_that_dies_is_told_and_not_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    scribe = await PromptWriter.start()
    with pytest.raises(RunFailure, match="the prompt writer process ended with code 1"):
        await scribe.write(long(3), (3,))
    assert "AssertionError" in capfd.readouterr().err
