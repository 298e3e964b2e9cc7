"""What embeddings change in a plan's traffic and records: no tokens are asked for, none come."""

import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from benchrun_client.contract import (
    Api,
    RequestFields,
    SamplingParams,
    asked_body,
    open_record,
)
from benchrun_client.contract.datasets import RandomData
from benchrun_client.contract.record import packed_record
from benchrun_client.datasets.row_pools import (
    PromptRequest,
    portions_of,
    prompts_digest,
    with_template,
)
from benchrun_client.failures import RunFailure
from benchrun_client.load.event_stream import BrokenStreamError, StreamNotes
from benchrun_client.load.streaming_session import StreamedResponse
from benchrun_client.load.whole_answer import MAX_WHOLE_BYTES
from benchrun_client.stage_record import record_of
from benchrun_client.traffic import Material, check_lengths
from unit.client.plans import plan, raw_stage, stage, warmup
from unit.client.words import WordCounter

CONTEXT = 64


def test_a_body_says_nothing_of_tokens() -> None:
    fields = RequestFields(priority=1, extra='{"dimensions": 8}')
    assert asked_body("Embeddings", SamplingParams(), fields) == {
        "priority": 1,
        "dimensions": 8,
    }
    assert "temperature" in asked_body("Completions", SamplingParams(), fields)


def test_every_request_of_a_run_is_of_one_kind() -> None:
    whole = plan(stage(api="Embeddings"), warmups=(warmup(api="Embeddings"),))
    (kind,) = whole.kinds_of_requests
    assert (kind.api, kind.body, kind.ignore_eos) == ("Embeddings", {}, False)
    assert not whole.warmups[0].warms_to_the_end


def test_a_request_may_have_several_texts_of_the_dataset() -> None:
    asking = stage(api="Embeddings", requests=2, fields=RequestFields(texts=3))
    (portion,) = portions_of(asking)
    assert portion.requests == 6
    texts = [PromptRequest(f"t{n}", n + 1, 5, repeated_tokens=1) for n in range(6)]
    found = with_template(texts, asking, WordCounter())
    assert [each.sent for each in found] == [["t0", "t1", "t2"], ["t3", "t4", "t5"]]
    assert [each.input_tokens for each in found] == [6, 15]
    assert [each.repeated_tokens for each in found] == [3, 3]
    assert {each.output_tokens for each in found} == {0}
    # What is sent together is another traffic than the same texts by themselves.
    alone = with_template(texts, stage(api="Embeddings"), WordCounter())
    assert [each.sent for each in alone] == [f"t{n}" for n in range(6)]
    pairs = with_template(
        texts,
        stage(api="Embeddings", fields=RequestFields(texts=2)),
        WordCounter(),
    )
    assert len({prompts_digest(each) for each in (found, alone, pairs)}) == 3


def check(api: Api) -> None:
    data = RandomData(input_tokens=CONTEXT, output_tokens=1)
    check_lengths(
        plan(stage(api=api, data=data)),
        Material(),
        context_tokens=CONTEXT,
        whose="the server",
    )


def test_only_the_prompt_takes_room() -> None:
    check("Embeddings")
    with pytest.raises(RunFailure, match="1 output"):
        check("Completions")


def test_a_record_says_that_answers_came_as_a_whole() -> None:
    record = record_of(raw_stage(api="Embeddings"))
    assert record.whole_answers is True
    assert record.sampling is None
    assert open_record(packed_record(record)) == record


def test_a_record_of_tokens_is_as_ever() -> None:
    record = record_of(raw_stage())
    assert record.whole_answers is None
    assert record.sampling is not None
    assert b"whole_answers" not in gzip.decompress(packed_record(record))


class Body:
    """An answer of these pieces, as far as it is read."""

    def __init__(self, *pieces: bytes) -> None:
        self.content = self
        self.is_closed = False
        self._pieces = pieces

    async def iter_any(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    def close(self) -> None:
        self.is_closed = True


async def told(body: Body, notes: StreamNotes) -> dict[str, Any]:
    """Read an answer as vLLM's client does; return what that client is told."""
    response = StreamedResponse(body, notes)
    await response.read()
    return await response.json()


async def test_the_load_takes_the_servers_count_of_the_prompt() -> None:
    usage = b'{"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}'
    head = b'{"data": [{"embedding": [1.5]}], "usage": '
    notes = StreamNotes()
    assert await told(Body(head, usage, b"}"), notes) == {
        "usage": {"prompt_tokens": 9}
    }
    assert (notes.is_closed, notes.cached, notes.problem) == (True, (9, 4), None)


async def test_a_count_that_no_prompt_has_is_none() -> None:
    body = Body(
        b'{"data": [{"embedding": [1]}], "usage": {"prompt_tokens": 1%s}}'
        % (b"0" * 30)
    )
    assert await told(body, StreamNotes()) == {"usage": {"prompt_tokens": 0}}


async def test_tokens_that_are_not_counted_are_none() -> None:
    body = Body(b'{"data": [{"embedding": "AAA="}]}')
    assert await told(body, StreamNotes()) == {"usage": {"prompt_tokens": 0}}


@pytest.mark.parametrize(
    "pieces",
    [
        (b"<html>",),
        (b'{"data": []}',),
        (b"[" * MAX_WHOLE_BYTES, b"["),
        (b"[" * 100_000,),
    ],
    ids=["page", "empty", "endless", "deep"],
)
async def test_what_is_no_embedding_fails_the_request(
    pieces: tuple[bytes, ...],
) -> None:
    notes = StreamNotes()
    body = Body(*pieces)
    with pytest.raises(BrokenStreamError):
        await told(body, notes)
    assert notes.problem is not None
    assert body.is_closed is (sum(map(len, pieces)) > MAX_WHOLE_BYTES)
