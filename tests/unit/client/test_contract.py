"""The contract on the wire: what is taken, what is refused, and how little it costs to refuse
it."""

import gzip
import hashlib
import json
import tracemalloc
from typing import Any

import pytest
from benchrun_client import contract
from benchrun_client.contract import (
    MAX_ENVELOPES,
    MAX_HEAD_BYTES,
    MAX_PACKED_BYTES,
    MAX_RECORD_BYTES,
    MAX_REQUESTS_A_STAGE,
    ClientProgress,
    ContractMismatch,
    Delivery,
    Envelope,
    Failure,
    GapCounts,
    Probe,
    SamplingParams,
    Shards,
    StageRecord,
    digest_of_token,
    open_record,
    pack_delivery,
    seal,
    unpack_delivery,
)
from benchrun_client.shards import messages
from benchrun_client.stage_record import record_of
from hypothesis import given, strategies as st
from kit.every_case import every
from pydantic import BaseModel, ValidationError
from unit.client.plans import plan, raw_stage, stage
from unit.client.records.test_run_progress import sealed

PROGRESS = ClientProgress(version=3, phase="Measuring")
MEBIBYTE = 2**20


def delivery(*envelopes: Envelope) -> Delivery:
    return Delivery(run_uid="run-1", progress=PROGRESS, records=envelopes)


def document(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(
        gzip.decompress(seal(record_of(raw_stage()))[1])
    )
    return {**made, **changes}


def packed(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


def test_packed_records_are_unpacked_unchanged() -> None:
    records = [sealed(0, size=1), sealed(1, size=1000)]
    head = delivery(*(envelope for envelope, _ in records))
    bodies = tuple(body for _, body in records)
    assert unpack_delivery(pack_delivery(head, bodies)) == (head, bodies)


def test_the_largest_head_there_may_be_fits() -> None:
    longest = Envelope(
        sequence=1023,
        run_uid="\x01" * 64,
        stage_id="\x01" * 160,
        plan_digest="a" * 64,
        ends_search="\x01" * 40,
        size=MAX_PACKED_BYTES,
        digest="a" * 64,
    )
    failed = ClientProgress(
        version=1,
        phase="Failed",
        failure=Failure(reason="A" * 60, message="\x01" * 2000),
    )
    head = Delivery(
        run_uid="\x01" * 64, progress=failed, records=(longest,) * MAX_ENVELOPES
    )
    assert len(pack_delivery(head, ())) <= MAX_HEAD_BYTES


@pytest.mark.parametrize("count", [1, 1025])
def test_a_stage_has_two_shards_at_least_and_1024_at_most(count: int) -> None:
    for within in (2, 1024):
        assert Shards(count=within, start_skew_us=0, clock_error_us=0)
    with pytest.raises(ValidationError, match="count"):
        Shards(count=count, start_skew_us=0, clock_error_us=0)


OLD_HEAD = (
    b'{"run_uid":"run-1","progress":{"version":1,"phase":"Measuring"},"records":['
)


@pytest.mark.parametrize(
    ("theirs", "answer"),
    [
        pytest.param(None, OLD_HEAD + b"]}", id="version-1"),
        pytest.param(
            None,
            OLD_HEAD + b'{"payload":"' + b"A" * 200_000 + b'"}]}',
            id="version-1-with-records",
        ),
        pytest.param(1, b'{"contract":1}\n', id="an-earlier-one"),
        pytest.param(
            4, b'{"contract":4,"anything":[1,{}]}\n\x00\x01', id="a-later-one"
        ),
        pytest.param(4, b'{"contract":4}', id="a-later-one-without-bodies"),
    ],
)
def test_another_version_is_known_as_such(
    theirs: int | None, answer: bytes
) -> None:
    with pytest.raises(ContractMismatch) as mismatch:
        unpack_delivery(answer)
    assert mismatch.value.theirs == theirs


ONE = sealed(0, size=10)
GOOD = pack_delivery(delivery(ONE[0]), [ONE[1]])


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n", id="an-empty-line"),
        pytest.param(b"<html>\n", id="a-page"),
        pytest.param(b"[]\n", id="a-list"),
        pytest.param(b"[" * 60_000 + b"\n", id="nested"),
        pytest.param(b"\xff\xfe\n", id="no-text"),
        pytest.param(b'{"contract":2}\n', id="incomplete"),
        pytest.param(b'{"contract":2' + b" " * MAX_HEAD_BYTES, id="endless-head"),
        pytest.param(b'{"contract":2}', id="no-end-of-the-head"),
        pytest.param(b'{"contract":1e999}\n', id="no-version"),
        pytest.param(b'{"contract":' + b"9" * 4000 + b"}\n", id="huge-version"),
        pytest.param(b'{"contract":true}\n', id="a-truth"),
        pytest.param(GOOD[:-1], id="cut-short"),
        pytest.param(GOOD + b"x", id="more-than-said"),
        pytest.param(GOOD.replace(b'"size":10', b'"size":0'), id="empty-record"),
        pytest.param(GOOD.replace(b'"size":10', b'"size":-5'), id="negative-size"),
        pytest.param(GOOD.replace(b'"size":10', b'"size":1000001'), id="oversized"),
        pytest.param(
            GOOD.replace(b'"sequence":0', b'"sequence":1024'),
            id="beyond-the-last-record",
        ),
        pytest.param(
            GOOD.replace(b'"sequence":0', b'"sequence":0,"payload":""'),
            id="one-field-more",
        ),
    ],
)
def test_an_invalid_delivery_is_rejected_in_one_line(answer: bytes) -> None:
    with pytest.raises(ValueError) as refused:
        unpack_delivery(answer)
    assert not isinstance(refused.value, ContractMismatch)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) <= 300


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for answer in (data, GOOD + data, GOOD[: len(data)], b'{"contract":2,' + data):
        try:
            unpack_delivery(answer)
        except ValueError:
            continue


def test_older_operators_take_a_record_without_what_they_do_not_know() -> None:
    newer = {"shards", "profile", "tokenizer_commit", "user_start"}
    _, body = seal(record_of(raw_stage()))
    assert newer.isdisjoint(json.loads(gzip.decompress(body)))


def test_a_record_tells_how_users_began_and_one_without_it_is_still_read() -> None:
    begun = contract.UserStart(mode="Spread", seconds=4.5, round_seconds=5.0)
    record = record_of(raw_stage(user_start=begun))
    opened = open_record(seal(record)[1])
    assert opened.user_start == begun
    assert open_record(packed(json.dumps(document()))).user_start is None


@pytest.mark.parametrize(
    "begun", [{"mode": "Later", "seconds": 1}, {"mode": "Spread"}]
)
def test_another_beginning_of_users_is_refused(begun: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="user_start"):
        open_record(packed(json.dumps(document(user_start=begun))))


def test_a_plan_has_the_whole_load_and_nothing_that_it_has_not() -> None:
    think = contract.ThinkTime(mean_seconds="2.5")
    users = contract.UsersLoad(concurrency=2, start="Spread", think_seconds=think)
    spread = plan(stage(load=users))
    assert contract.Plan.model_validate_json(spread.to_json()) == spread
    (found,) = json.loads(spread.to_json())["stages"]
    assert found["load"] == {
        "kind": "Users",
        "concurrency": 2,
        "start": "Spread",
        "think_seconds": {"mean_seconds": "2.5", "distribution": "Exponential"},
    }
    at_once = plan(stage(load=contract.AtOnceLoad()))
    assert json.loads(at_once.to_json())["stages"][0]["load"] == {"kind": "AtOnce"}


@pytest.mark.parametrize(
    "load",
    [
        {"kind": "Rate", "requests_per_second": "4", "max_concurrency": 2},
        {"kind": "Rate", "requests_per_second": "4"},
        {"kind": "AtOnce"},
        {"kind": "Trace", "speed": "1"},
        {"kind": "Batches", "size": 4},
    ],
    ids=lambda load: str(load["kind"]),
)
@pytest.mark.parametrize(
    "users",
    [{"start": "Spread"}, {"think_seconds": {"mean_seconds": "1"}}],
    ids=["start", "think_seconds"],
)
def test_only_users_begin_and_think(
    load: dict[str, Any], users: dict[str, Any]
) -> None:
    assert stage(load=load).load.kind == load["kind"]
    with pytest.raises(ValidationError, match=next(iter(users))):
        stage(load={**load, **users})


@pytest.mark.parametrize(
    "text", ["0", "0.0", "-1", "inf", "nan", "1e3", "", "\u0662", "1" * 25]
)
def test_a_rate_is_a_decimal_above_zero(text: str) -> None:
    with pytest.raises(ValidationError, match="requests_per_second"):
        contract.RateLoad(requests_per_second=text)


def test_an_envelope_says_what_is_in_the_record() -> None:
    record = record_of(
        raw_stage(stage_id="chat/search-02/r1", probe=Probe(ends_search=True))
    )
    envelope, body = seal(record)
    assert open_record(body) == record
    assert envelope == Envelope(
        sequence=record.sequence,
        run_uid=record.run_uid,
        stage_id="chat/search-02/r1",
        plan_digest=record.plan_digest,
        ends_search="chat",
        size=len(body),
        digest=hashlib.sha256(body).hexdigest(),
    )
    assert seal(record_of(raw_stage()))[0].ends_search is None


REPEATED = {
    "zeros": "0",
    "negative": "-1",
    "texts": '""',
    "objects": "{}",
    "lists": "[]",
    "nested": "[" * 99 + "]" * 99,
}
FILL = 7 * MEBIBYTE


@pytest.mark.parametrize("each", REPEATED.values(), ids=REPEATED)
def test_a_record_that_unfolds_is_rejected_before_it_is_parsed(each: str) -> None:
    """7.7 kB that were 2 to 3.4 GiB of objects and 10 s of work."""
    body = packed(
        '{"gaps":{"us":[' + ",".join([each] * (FILL // (len(each) + 1))) + "]}}"
    )
    assert len(body) < 100_000
    assert _peak_bytes_refused(body) < 2 * MAX_RECORD_BYTES


def _columns(values: str, length: int) -> str:
    return ",".join(
        f'"{name}":[{",".join([values] * length)}]'
        for name in contract.RequestColumns.model_fields
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"requests":{' + _columns("-1", 60_000) + "}}", id="columns"),
        pytest.param(
            '{"requests":{' + _columns('""', MAX_REQUESTS_A_STAGE) + "}}",
            id="columns-of-texts",
        ),
        pytest.param(
            '{"servers":[' + ",".join(["{}"] * 15_000) + "]}", id="servers"
        ),
        pytest.param(
            '{"scalars":{' + ",".join(f'"{n}":[]' for n in range(8_000)) + "}}",
            id="scalars",
        ),
        pytest.param(
            "{" + ",".join(f'"{n}":0' for n in range(15_000)) + "}",
            id="unknown-fields",
        ),
    ],
)
def test_a_record_that_is_not_too_large_to_be_one_costs_little_to_refuse(
    text: str,
) -> None:
    assert _peak_bytes_refused(packed(text)) < 64 * MEBIBYTE


def _peak_bytes_refused(body: bytes) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError) as refused:
            open_record(body)
        assert len(str(refused.value)) <= 300
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"not gzip", id="not-gzip"),
        pytest.param(packed("{")[:-4], id="cut-short"),
        pytest.param(packed(" " * (MAX_RECORD_BYTES + 1)), id="unpacks-to-more"),
        pytest.param(b"\x1f\x8b" * MAX_PACKED_BYTES, id="larger-packed"),
        pytest.param(packed("[" * 10_000), id="nested"),
        pytest.param(packed("null"), id="null"),
        pytest.param(packed('{"\\u001b[31m":1}'), id="terminal-escapes"),
    ],
)
def test_an_invalid_record_is_rejected_in_one_line(body: bytes) -> None:
    with pytest.raises(ValueError) as refused:
        open_record(body)
    assert str(refused.value).isprintable()


NO_NUMBERS = [
    "1e999",
    "-1e999",
    "Infinity",
    "NaN",
    "1e308",
    "1e17",
    "9" * 400,
    "9" * 5000,
]


@every("number", NO_NUMBERS)
@every(
    "field",
    [
        '"scalars":{"request_throughput":%s}',
        '"first_send_unix_us":%s',
        '"idle_before_us":%s',
        '"client":{"cpu_seconds":%s,"wall_seconds":1}',
        '"gaps":{"us":[%s],"count":[1]}',
        '"servers":[{"address":"a","before":{"prompt_tokens_total":%s},"after":null}]',
    ],
)
def test_numbers_that_nobody_can_reckon_with_are_rejected(
    number: str, field: str
) -> None:
    changed = json.dumps(document())[:-1] + "," + field % number + "}"
    with pytest.raises(ValueError):
        open_record(packed(changed))


@pytest.mark.parametrize(
    "changes",
    [
        {"servers": [{"address": "a", "before": None, "after": None}] * 65},
        {
            "servers": [
                {
                    "address": "a",
                    "before": {str(n): 0 for n in range(65)},
                    "after": None,
                }
            ]
        },
        {"scalars": {str(n): 0 for n in range(201)}},
        {"errors": {str(n): 1 for n in range(9)}},
        {"gaps": {"us": list(range(50_001)), "count": [1] * 50_001}},
        {"gap_slices": {"edges_us": [1], "gaps": [1] * 41, "above": [1] * 41}},
        {"gap_slices": {"edges_us": [1, 2], "gaps": [1, 1], "above": [1, 1, 1]}},
        {"gap_slices": {"edges_us": [1], "gaps": [1], "above": [2]}},
        {"gap_slices": {"edges_us": [], "gaps": [1], "above": []}},
        {"schema": "benchrun.record/2"},
    ],
)
def test_more_than_a_record_holds_is_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        open_record(packed(json.dumps(document(**changes))))


def test_a_record_too_large_to_be_stored_is_not_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "benchrun_client.contract.record_delivery.MAX_PACKED_BYTES", 100
    )
    with pytest.raises(ValueError, match="bytes, packed"):
        seal(record_of(raw_stage()))


def test_gaps_ascend() -> None:
    with pytest.raises(ValidationError):
        GapCounts(us=(2, 1), count=(1, 1))


def _messages(model: type[BaseModel]) -> list[type[BaseModel]]:
    return [
        model,
        *(found for each in model.__subclasses__() for found in _messages(each)),
    ]


@every(
    "message",
    [
        m
        for m in _messages(contract.Message)
        if m.__module__.startswith((contract.__name__, messages.__name__))
    ],
    ids=lambda message: message.__name__,
)
def test_every_list_text_and_number_has_its_bounds(
    message: type[BaseModel],
) -> None:
    schema = message.model_json_schema()
    unbounded = [
        path
        for name, part in [("", schema), *schema.get("$defs", {}).items()]
        for path in _unbounded(part, f"{name or message.__name__}")
    ]
    assert unbounded == []


def _unbounded(schema: dict[str, Any], path: str) -> list[str]:
    kind = schema.get("type")
    closed = "enum" in schema or "const" in schema
    missing = {
        "array": "maxItems" not in schema,
        "string": "maxLength" not in schema
        and "$" not in schema.get("pattern", "")[-1:],
        "number": not {"maximum", "exclusiveMaximum"} & schema.keys(),
        "integer": not {"maximum", "exclusiveMaximum"} & schema.keys(),
        "object": "properties" not in schema and "maxProperties" not in schema,
    }
    found = [path] if not closed and missing.get(str(kind), False) else []
    inner = {
        **schema.get("properties", {}),
        "items": schema.get("items"),
        "values": schema.get("additionalProperties"),
    }
    inner |= {str(n): each for n, each in enumerate(schema.get("anyOf", ()))}
    for name, part in inner.items():
        if isinstance(part, dict):
            found += _unbounded(part, f"{path}.{name}")
    return found


def test_a_token_and_its_digest() -> None:
    assert digest_of_token("t") == hashlib.sha256(b"t").hexdigest()


def test_the_largest_record_is_taken() -> None:
    """Not what a benchmark gives: of every kind as much as there may be, and small enough to be
    stored."""
    columns = {
        name: [1] * MAX_REQUESTS_A_STAGE
        for name in contract.RequestColumns.model_fields
    }
    counters = {str(n): 1e15 for n in range(64)}
    largest = document(
        requests=columns,
        gaps={"us": list(range(50_000)), "count": [10**12] * 50_000},
        gap_slices={
            "edges_us": [10**16] * 16,
            "gaps": [10**12] * 40,
            "above": [10**12 - 1] * 640,
        },
        servers=[
            {
                "address": "http://[fd00::1]:8000",
                "before": counters,
                "after": counters,
                "models": "a:" * 50,
            }
        ]
        * 64,
        scalars={str(n): 1.5 for n in range(200)},
        errors={f"{n}: [{{{'x' * 290}": 10**12 for n in range(8)},
        diagnostic="{[:,]}" * 160,
    )
    record: StageRecord = open_record(packed(json.dumps(largest)))
    assert len(record.requests.ok) == MAX_REQUESTS_A_STAGE


PENALTIES = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}


@pytest.mark.parametrize(
    ("sampling", "words", "body"),
    [
        pytest.param(
            SamplingParams(),
            "greedy",
            {"temperature": 0.0, **PENALTIES},
            id="greedy",
        ),
        pytest.param(
            SamplingParams(temperature=0.7),
            "temperature 0.7",
            {
                "temperature": 0.7,
                "top_p": 1.0,
                "top_k": -1,
                "min_p": 0.0,
                **PENALTIES,
            },
            id="drawn",
        ),
        pytest.param(
            SamplingParams(
                temperature=1,
                top_p=0.9,
                top_k=20,
                repetition_penalty=1.1,
                stop=("a", "b"),
            ),
            "temperature 1, top-p 0.9, top-k 20, repetition penalty 1.1, 2 stop texts",
            {
                "temperature": 1.0,
                "top_p": 0.9,
                "top_k": 20,
                "min_p": 0.0,
                **PENALTIES,
            }
            | {"repetition_penalty": 1.1, "stop": ["a", "b"]},
            id="everything",
        ),
        pytest.param(
            SamplingParams(temperature=1, min_p=0.05),
            "temperature 1, min-p 0.05",
            {
                "temperature": 1.0,
                "top_p": 1.0,
                "top_k": -1,
                "min_p": 0.05,
                **PENALTIES,
            },
            id="min-p",
        ),
        pytest.param(
            SamplingParams(logprobs=5),
            "greedy, 5 logprobs",
            {"temperature": 0.0, **PENALTIES, "logprobs": 5},
            id="logprobs",
        ),
    ],
)
def test_a_request_leaves_nothing_open_that_vllm_takes_from_the_models_generation_config(
    sampling: SamplingParams, words: str, body: dict[str, object]
) -> None:
    assert (sampling.in_words(), sampling.body()) == (words, body)


def test_a_chat_asks_for_log_probabilities_by_another_name() -> None:
    body = SamplingParams(logprobs=5).body(chat=True)
    assert (body["logprobs"], body["top_logprobs"]) == (True, 5)


def test_what_nobody_asked_for_is_left_out_of_the_plan() -> None:
    """An older client refuses fields that it does not know."""
    assert not {"min_p", "logprobs"} & SamplingParams().model_dump().keys()
    assert (
        SamplingParams(min_p=0.1, logprobs=2).model_dump().items()
        >= {"min_p": 0.1, "logprobs": 2}.items()
    )


@pytest.mark.parametrize("name", ["temperature", "top_p", "repetition_penalty"])
@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -1.0, 2.5, "x" * 100]
)
def test_a_hostile_records_sampling_is_rejected(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        open_record(packed(json.dumps(document(sampling={name: value}))))


def test_a_record_from_before_sampling_and_connections_were_noted_is_read() -> None:
    older = {
        name: value
        for name, value in document().items()
        if name not in ("sampling", "connections")
    }
    record = open_record(packed(json.dumps(older)))
    assert (record.sampling, record.connections) == (None, None)
