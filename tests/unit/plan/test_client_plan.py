"""The plan the client is handed: a spec in the client's words."""

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import plan_of_client
from benchrun_client.contract import (
    Adapter,
    AtOnceLoad,
    BatchLoad,
    Load,
    Plan,
    RateLoad,
    RequestFields,
    SamplingParams,
    SessionsLoad,
    Target,
    ThinkTime,
    TraceLoad,
    UsersLoad,
)
from unit.client.plans import TOKEN_DIGEST
from unit.plan.objects import objects, of_kind
from unit.plan.specs import (
    OWNER,
    Json,
    concurrencies,
    endpoint_body,
    rates,
    spec,
    spec_body,
    workload,
)


def plan(body: Json, *, addresses: tuple[str, ...] = ()) -> Plan:
    return plan_of_client(
        OWNER,
        BenchmarkRunSpec.model_validate(body),
        endpoint_addresses=addresses,
        token_digest=TOKEN_DIGEST,
    )


def test_what_is_mounted_is_the_plan_itself() -> None:
    text = of_kind(objects(OWNER, spec()), "ConfigMap")["data"]["plan.json"]
    assert Plan.model_validate_json(text) == plan(spec_body())
    assert Plan.model_validate_json(text).to_json() == text


@pytest.mark.parametrize(
    ("expected", "load"),
    [
        pytest.param(
            RateLoad(requests_per_second="4", burstiness="1"),
            rates("4.0"),
            id="open loop",
        ),
        pytest.param(
            RateLoad(requests_per_second="4", max_concurrency=8, burstiness="0.5"),
            rates("4") | {"maxConcurrency": 8, "burstiness": "0.5"},
            id="capped, bursty",
        ),
        pytest.param(
            UsersLoad(concurrency=16, start="Spread"),
            concurrencies(16),
            id="closed loop",
        ),
        pytest.param(
            UsersLoad(
                concurrency=16,
                start="Together",
                think_seconds=ThinkTime(
                    mean_seconds="2.5", distribution="Constant"
                ),
            ),
            concurrencies(16)
            | {
                "start": "Together",
                "thinkSeconds": {"mean": "2.5", "distribution": "Constant"},
            },
            id="users that begin together and think",
        ),
        pytest.param(
            AtOnceLoad(
                start="Spread",
                think_seconds=ThinkTime(
                    mean_seconds="1", distribution="Exponential"
                ),
                max_concurrency=8,
            ),
            rates("inf") | {"maxConcurrency": 8, "thinkSeconds": {"mean": "1"}},
            id="all at once under a cap",
        ),
        pytest.param(
            TraceLoad(speed="2"),
            {"traceSpeeds": ["2.0"]},
            id="as recorded",
        ),
        pytest.param(
            SessionsLoad(sessions=16), {"sessions": [16]}, id="sessions at once"
        ),
    ],
)
def test_load_points(expected: Load, load: Json) -> None:
    dataset: Json = (
        {"timedTrace": {"file": {"path": "/trace.jsonl"}}}
        if "traceSpeeds" in load
        else {"sessions": {"file": {"path": "/s.jsonl"}, "format": "Turns"}}
        if "sessions" in load
        else {"random": {}}
    )
    assert [
        s.load
        for s in plan(
            spec_body(workloads=[workload(load=load, dataset=dataset)])
        ).stages
    ] == [expected]


def offline(load: Json) -> Plan:
    return plan(
        spec_body(
            server=None, offline={"image": "v"}, workloads=[workload(load=load)]
        )
    )


@pytest.mark.parametrize(
    ("expected", "load"),
    [
        pytest.param([AtOnceLoad()], rates("inf"), id="all at once"),
        pytest.param(
            [BatchLoad(size=1), BatchLoad(size=8)],
            {"batchSizes": [1, 8]},
            id="by the batch",
        ),
    ],
)
def test_load_points_of_an_engine_without_api_server(
    expected: list[Load], load: Json
) -> None:
    made = offline(load)
    assert (
        sorted(
            (s.load for s in made.stages), key=lambda point: point.batch_size or 0
        )
        == expected
    )
    assert made.target.offline


@pytest.mark.parametrize(
    ("requests", "load"),
    [
        pytest.param(132, rates("inf"), id="all at once: a stage has a hundred"),
        pytest.param(64, {"batchSizes": [1, 32]}, id="twice the largest batch"),
        pytest.param(
            25_032, {"batchSizes": [40_000]}, id="as many as one load holds"
        ),
    ],
)
def test_warm_up_of_an_engine_without_api_server(requests: int, load: Json) -> None:
    (warmup,) = offline(load).warmups
    assert warmup.requests == requests


@pytest.mark.parametrize(
    ("expected", "load"),
    [
        pytest.param((64, 32), rates("4") | {"maxConcurrency": 32}, id="capped"),
        pytest.param(
            (96, 64),
            concurrencies(1, 64, 8),
            id="the highest of all users, and a second round of 32",
        ),
        pytest.param(
            (232, 200), concurrencies(200), id="long prompts are not sent twice"
        ),
    ],
)
def test_warm_up_is_of_the_highest_concurrency(
    expected: tuple[int, int], load: Json
) -> None:
    (warmup,) = plan(spec_body(workloads=[workload(load=load)])).warmups
    assert (warmup.requests, warmup.concurrency, warmup.prompts) == (
        *expected,
        None,
    )


@pytest.mark.parametrize(
    ("expected", "load", "requests", "args"),
    [
        pytest.param(8, rates("0.1"), 500, [], id="a low rate: eight"),
        pytest.param(
            40, rates("4", "1"), 500, [], id="ten seconds of the highest rate"
        ),
        pytest.param(30, rates("4"), 30, [], id="but not more than a stage has"),
        pytest.param(
            256,
            rates("100"),
            5000,
            [],
            id="nor than run at once: vLLM's least default",
        ),
        pytest.param(256, rates("inf"), 5000, [], id="all at once"),
        pytest.param(
            300,
            rates("inf"),
            300,
            ["--max-num-seqs", "512"],
            id="all requests of a stage",
        ),
        pytest.param(
            512,
            rates("inf"),
            5000,
            ["--max-num-seqs=512"],
            id="as the arguments say",
        ),
        pytest.param(
            1024,
            rates("inf"),
            5000,
            ["--max-num-seqs=9999"],
            id="as many as one process sends",
        ),
        pytest.param(
            256,
            rates("inf"),
            5000,
            ["--max-num-seqs=many"],
            id="arguments that only vLLM understands",
        ),
    ],
)
def test_warm_up_reaches_the_batch_that_a_rate_may_reach(
    expected: int, load: Json, requests: int, args: list[str]
) -> None:
    server = {"image": "v", "args": args}
    (warmup,) = plan(
        spec_body(workloads=[workload(load=load, requests=requests)], server=server)
    ).warmups
    assert (warmup.concurrency, warmup.requests) == (
        expected,
        expected + min(expected, 32),
    )
    assert warmup.max_seconds == 60


def test_a_warm_up_takes_no_more_rows_of_a_file_than_before() -> None:
    row = workload(
        load=rates("inf"),
        dataset={"shareGPT": {"file": {"path": "/rows.json"}}},
        requests=900,
    )
    (warmup,) = plan(spec_body(workloads=[row])).warmups
    assert (warmup.concurrency, warmup.prompts) == (256, 16)


@pytest.mark.parametrize("policy", ["Isolate", "Reset", "Share"])
def test_the_cache_policy_is_the_specs(policy: str) -> None:
    assert (
        plan(spec_body(measurement={"cachePolicy": policy})).cache_policy == policy
    )


def test_no_warm_up_where_none_is_wanted() -> None:
    assert plan(spec_body(measurement={"warmup": {"none": {}}})).warmups == ()


@pytest.mark.parametrize(
    ("seconds", "body"),
    [
        pytest.param(
            0,
            spec_body(startupDeadlineSeconds=600),
            id="the operator watches a server's loading",
        ),
        pytest.param(
            600,
            endpoint_body({"url": "http://llm"}, startupDeadlineSeconds=600),
            id="an endpoint",
        ),
        pytest.param(
            0,
            endpoint_body({"url": "http://llm"}, startupDeadlineSeconds=0),
            id="without limit",
        ),
    ],
)
def test_the_client_gives_up_an_endpoint_by_itself(
    seconds: int, body: Json
) -> None:
    assert plan(body).health_deadline_seconds == seconds


def test_own_server_is_addressed_by_its_headless_service() -> None:
    target = plan(spec_body()).target
    assert (target.base_url, target.servers, target.metrics_urls) == (
        "http://br-qwen-6316e01c-server.lab.svc:8000",
        1,
        (),
    )


def test_pages_behind_an_endpoints_service_are_snapshot_one_by_one() -> None:
    target = plan(
        endpoint_body({"serviceRef": {"name": "prod", "port": 80}}),
        addresses=("10.0.0.7:8000", "10.0.0.8:8000"),
    ).target
    assert target.base_url == "http://prod.lab.svc:80"
    assert target.metrics_urls == (
        "http://10.0.0.7:8000/metrics",
        "http://10.0.0.8:8000/metrics",
    )
    assert target.servers == 0


def test_an_endpoints_url_is_used_as_it_is_but_for_its_last_slash() -> None:
    target = plan(
        endpoint_body(
            {"url": "https://llm.example/base/", "caConfigMapRef": {"name": "ca"}}
        )
    ).target
    assert (target.base_url, target.metrics_urls) == (
        "https://llm.example/base",
        ("https://llm.example/base/metrics",),
    )
    assert target.ca_file == "/etc/benchrun-ca/ca.crt"


@pytest.mark.parametrize(
    ("expected", "model"),
    [
        pytest.param(
            ("org/m", "v2"),
            {"name": "org/m", "revision": "v2"},
            id="the model's own, at its revision",
        ),
        pytest.param(
            ("org/t", None),
            {"name": "org/m", "revision": "v2", "tokenizer": "org/t"},
            id="another repository",
        ),
        pytest.param(
            ("/model/q", None),
            {"name": "m", "source": {"pvc": {"claimName": "c", "path": "q"}}},
            id="a claim",
        ),
    ],
)
def test_tokenizer_is_found_where_it_is(
    expected: tuple[str, str | None], model: Json
) -> None:
    target: Target = plan(spec_body(model=model)).target
    assert (target.tokenizer, target.tokenizer_revision) == expected


@pytest.mark.parametrize(
    ("tokens", "args"),
    [
        pytest.param(12_000, ["--max-model-len=12000"], id="as a number"),
        pytest.param(
            16_384,
            ["--max-model-len", "8k", "--max_model_len", "16K"],
            id="the last one, in vLLM's units",
        ),
        pytest.param(None, [], id="left to vLLM"),
        pytest.param(
            None, ["--max-model-len=auto"], id="left to vLLM in so many words"
        ),
        pytest.param(None, ["--max-model-len=-1"], id="left to vLLM as a number"),
    ],
)
def test_the_longest_request_is_what_the_servers_arguments_say(
    tokens: int | None, args: list[str]
) -> None:
    assert (
        plan(
            spec_body(server={"image": "vllm", "args": args})
        ).target.context_tokens
        == tokens
    )


def test_an_endpoints_longest_request_is_unknown() -> None:
    assert (
        plan(endpoint_body({"url": "https://llm.example"})).target.context_tokens
        is None
    )


def test_what_requests_say_is_in_stages_warm_ups_and_searches() -> None:
    load = {"search": {"axis": "RequestRate", "from": "1", "to": "4"}}
    said = {
        "api": "Chat",
        "ignoreEOS": False,
        "request": {
            "chat": {"thinking": False, "templateArguments": {"a": 1}},
            "responseFormat": {"jsonSchema": {"type": "object"}},
            "priority": 2,
            "adapters": [{"name": "sql", "percent": 40}],
            "extraBody": {"seed": 7},
        },
    }
    workloads = [
        workload("listed", **said),
        workload("searched", load=load, **(said | {"requests": 400})),
    ]
    objectives = [{"metric": "TTFAT", "maxMilliseconds": 500}]
    made = plan(spec_body(workloads=workloads, objectives=objectives, repeats=1))
    asked = RequestFields(
        thinking=False,
        template_arguments='{"a":1}',
        answer_schema='{"type":"object"}',
        priority=2,
        adapters=(Adapter(name="sql", percent=40),),
        extra='{"seed":7}',
    )
    for sent in (*made.stages, *made.searches, *made.warmups):
        assert sent.fields == asked
    assert Plan.model_validate_json(made.to_json()) == made


def test_a_plan_without_a_request_has_no_fields() -> None:
    assert '"fields"' not in plan(spec_body()).to_json()


ASKED = {
    "temperature": "0.7",
    "topP": "0.9",
    "topK": 20,
    "repetitionPenalty": "1.05",
    "stop": ["END"],
    "minP": "0.05",
    "logprobs": 3,
}
DRAWN = SamplingParams(
    temperature=0.7,
    top_p=0.9,
    top_k=20,
    repetition_penalty=1.05,
    stop=("END",),
    min_p=0.05,
    logprobs=3,
)


@pytest.mark.parametrize(
    ("sampling", "fields"),
    [
        pytest.param(SamplingParams(), {}, id="greedy"),
        pytest.param(DRAWN, {"sampling": ASKED, "ignoreEOS": False}, id="as asked"),
    ],
)
def test_tokens_are_chosen_as_requested_in_stages_warm_ups_and_searches(
    sampling: SamplingParams, fields: Json
) -> None:
    load = {"search": {"axis": "RequestRate", "from": "1", "to": "4"}}
    workloads = [
        workload("listed", **fields),
        workload("searched", load=load, **(fields | {"requests": 400})),
    ]
    objectives = [{"metric": "TTFT", "maxMilliseconds": 500}]
    made = plan(spec_body(workloads=workloads, objectives=objectives, repeats=1))
    for found in (
        [s.sampling for s in made.stages],
        [s.sampling for s in made.searches],
        [w.sampling for w in made.warmups],
    ):
        assert set(found) == {sampling}
    assert len(made.searches) == 1
    assert len(made.warmups) == 2
    assert Plan.model_validate_json(made.to_json()) == made
