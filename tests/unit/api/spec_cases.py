"""Specs that must be accepted and specs that must be refused.

Pydantic in the operator and the API server must agree on them.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unit.api.dataset_cases import ACCEPTED_DATASETS, FILE, REFUSED_DATASETS, mix

Spec = dict[str, Any]
_ABSENT = object()

MINIMAL: Spec = {
    "model": {"name": "Qwen/Qwen3-4B"},
    "server": {"image": "vllm/vllm-openai:v0.32.0"},
    "workloads": [
        {
            "name": "chat",
            "dataset": {"random": {}},
            "load": {"requestRates": ["1", "4"]},
            "requests": 100,
        }
    ],
}


def minimal(changes: Mapping[str, Any] | None = None, /) -> Spec:
    """Build the smallest useful spec, with values set at dotted paths such as `workloads.0.load`.

    A value of `absent()` takes the field out.
    """
    spec = copy.deepcopy(MINIMAL)
    for path, value in (changes or {}).items():
        *way, last = path.split(".")
        at: Any = spec
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
        if value is _ABSENT:
            del at[last]
        else:
            at[last] = copy.deepcopy(value)
    return spec


def absent() -> object:
    """Return the value that stands for "this field is left out"."""
    return _ABSENT


def workload(name: str = "other", **fields: Any) -> Spec:
    return {**MINIMAL["workloads"][0], "name": name, **fields}


def lasting(name: str, seconds: int, load: Spec) -> Spec:
    """Build a workload whose stages last so many seconds."""
    return {k: v for k, v in workload(name).items() if k != "requests"} | {
        "durationSeconds": seconds,
        "load": load,
    }


def searching(**fields: Any) -> Spec:
    """Build a load that is searched, from 1 to 64 requests a second."""
    return {"search": {"axis": "RequestRate", "from": "1", "to": "64", **fields}}


RULE: Spec = {"name": "tail", "metric": "failed", "above": "1"}


def rule(**fields: Any) -> Spec:
    """Build the changes that give a spec a rule with these fields."""
    return {"validity": {"rules": [{**RULE, **fields}]}}


@dataclass(frozen=True, slots=True)
class Refused:
    """A spec with one thing wrong."""

    path: str
    """The field that the API server names; the operator names it too, or the object it is in."""
    changes: Mapping[str, Any]
    message: str | None = None
    """Part of what both say, where the words are ours; None: each says it in its own words."""


_LOAD = "workloads.0.load"
_AT = "spec.workloads[0]"
_ENDPOINT: Spec = {"server": absent(), "endpoint": {"url": "http://llm"}}


def _for(seconds: int, load: Spec) -> Spec:
    """Build the changes that make a workload's stages last so many seconds."""
    return {
        "workloads.0.requests": absent(),
        "workloads.0.durationSeconds": seconds,
        _LOAD: load,
    }


def _asking(**fields: Any) -> Spec:
    return {"server": absent(), "endpoint": {"url": "http://llm", **fields}}


def _two_lines(field: str) -> Spec:
    return {"name": "X-A", field: "a\r\nX-B: b"}


_FILE = "workloads.0.dataset"
_LENGTHS = {"mean": 3, "stdev": 1, "min": 2, "max": 5}
_UNBOUNDED = {"mean": 9, "stdev": 1, "min": 1, "max": 4}
_DRAWN: Spec = {
    "turns": _LENGTHS,
    "firstTokens": _LENGTHS,
    "turnTokens": _LENGTHS,
    "outputTokens": _LENGTHS,
    "pauseSeconds": {"mean": "1.5"},
}
_TOKENS = {"input": "3", "cachedInput": "0.3", "output": "15"}
_SAMPLING = "workloads.0.sampling"
_REQUEST = "workloads.0.request"
_API = "workloads.0.api"
_NO_LOAD = "load must set exactly one of"
_NEEDS_DEVELOPMENT_MODE = "VLLM_SERVER_DEV_MODE=1"
_P90: Any = [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 200}]
_P99: Any = [{"metric": "TTFT", "percentile": "99", "maxMilliseconds": 200}]
_POINTS_8: Spec = {"requestRates": [str(n) for n in range(1, 9)]}
_TOO_FEW = "at least 369 a stage"
_POINTS_16 = [str(n) for n in range(1, 17)]
_POINTS_13 = _POINTS_16[:13]

_ONE_TARGET = "one of server, endpoint and offline"
_WHOLE = 'set load to {requestRates: ["inf"]}'


def _offline(load: Spec) -> Spec:
    return {
        "server": absent(),
        "offline": {"image": "vllm/vllm-openai:v0.32.0"},
        _LOAD: load,
    }


_AUTO: Spec = {
    "repeats": "Auto",
    "objectives": _P90,
    "budget.requests": 1000,
}
REFUSED: dict[str, Refused] = {
    # types and bounds
    "repeats is a word": Refused("spec.repeats", {"repeats": "two"}),
    "repeats is a number in quotes": Refused("spec.repeats", {"repeats": "2"}),
    "suspend is a word": Refused("spec.suspend", {"suspend": "yes"}),
    "a rate is a number": Refused(
        f"{_AT}.load.requestRates[0]", {f"{_LOAD}.requestRates": [1]}
    ),
    "repeats is 0": Refused("spec.repeats", {"repeats": 0}),
    "no model": Refused("spec.model", {"model": absent()}),
    "no workloads": Refused("spec.workloads", {"workloads": []}),
    "17 workloads": Refused(
        "spec.workloads", {"workloads": [workload(f"w{n}") for n in range(17)]}
    ),
    "workload name in capitals": Refused(
        "spec.workloads[0].name", {"workloads.0.name": "Chat"}
    ),
    "two workloads of one name": Refused(
        "spec.workloads[1]", {"workloads": [workload("a"), workload("a")]}
    ),
    "unknown api": Refused(
        "spec.workloads[0].api", {"workloads.0.api": "Responses"}
    ),
    "100001 requests": Refused(
        "spec.workloads[0].requests", {"workloads.0.requests": 100_001}
    ),
    "negative deadline": Refused(
        "spec.runDeadlineSeconds", {"runDeadlineSeconds": -1}
    ),
    # unions
    "server and endpoint": Refused(
        "spec", {"endpoint": {"url": "http://llm"}}, _ONE_TARGET
    ),
    "neither server nor endpoint": Refused(
        "spec", {"server": absent()}, _ONE_TARGET
    ),
    # without an API server
    "offline at a rate": Refused(
        "spec.workloads", {"server": absent(), "offline": {"image": "v"}}, _WHOLE
    ),
    "offline with one rate that is finite": Refused(
        "spec.workloads", _offline({"requestRates": ["inf", "4"]}), _WHOLE
    ),
    "offline with users": Refused(
        "spec.workloads", _offline({"concurrencies": [4]}), _WHOLE
    ),
    "offline with a cap": Refused(
        "spec.workloads",
        _offline({"requestRates": ["inf"], "maxConcurrency": 4}),
        _WHOLE,
    ),
    "offline with burstiness": Refused(
        "spec.workloads",
        _offline({"requestRates": ["inf"], "burstiness": "0.5"}),
        _WHOLE,
    ),
    "offline with a test request": Refused(
        "spec.workloads",
        _offline({"batchSizes": [1]}) | {"workloads.0.testRequest": True},
        "testRequest needs a server",
    ),
    **{
        f"embeddings with {field}": Refused(
            f"spec.workloads[0].{field.partition('.')[0]}",
            {_API: "Embeddings", f"workloads.0.{field}": value},
            f"api Embeddings has no answer of tokens: remove {field}",
        )
        for field, value in {
            "sampling": {"temperature": "1"},
            "ignoreEOS": False,
            "request.responseFormat": {"jsonSchema": {}},
        }.items()
    },
    "embeddings that think": Refused(
        "spec.workloads[0].request",
        {_API: "Embeddings", "workloads.0.request": {"chat": {"thinking": True}}},
        "request.chat needs api: Chat",
    ),
    "several texts a request of a chat": Refused(
        "spec.workloads[0].request",
        {_API: "Chat", "workloads.0.request": {"texts": 2}},
        "only api Embeddings takes several texts",
    ),
    "too many texts a stage": Refused(
        "spec.workloads[0].request",
        {
            _API: "Embeddings",
            "workloads.0.requests": 25_001,
            "workloads.0.request": {"texts": 2},
        },
        "requests x texts of at most 50000",
    ),
    "texts of a trace in one request": Refused(
        "spec.workloads[0].request",
        {
            _API: "Embeddings",
            "workloads.0.request": {"texts": 2},
            "workloads.0.dataset": {
                "timedTrace": {"file": {"pvc": {"claimName": "c", "path": "t.csv"}}}
            },
            "workloads.0.load": {"traceSpeeds": ["1"]},
        },
        "is sent at its own instant",
    ),
    "embeddings beside texts": Refused(
        "spec.workloads",
        {
            "workloads": [
                workload("texts"),
                workload("vectors", api="Embeddings"),
            ]
        },
        "a server makes embeddings or writes texts",
    ),
    "embeddings with a limit on TTFT": Refused(
        "spec.objectives",
        {
            _API: "Embeddings",
            "objectives": [{"metric": "TTFT", "maxMilliseconds": 9}],
        },
        "an embedding comes as a whole",
    ),
    "embeddings of an engine without": Refused(
        "spec.workloads",
        {
            _API: "Embeddings",
            "server": absent(),
            "endpoint": {"url": "http://server", "engine": "SGLang"},
        },
        "api Embeddings needs a server or an endpoint of engine VLLM",
    ),
    "embeddings without a server": Refused(
        "spec.workloads",
        _offline({"batchSizes": [1]}) | {_API: "Embeddings"},
        "api Embeddings needs a server or an endpoint of engine VLLM",
    ),
    "a model from two places": Refused(
        "spec.model.source",
        {"model.source": {"hub": {}, "path": {"path": "/models/qwen"}}},
        "must set exactly one of hub, ",
    ),
    "two chat templates": Refused(
        "spec.chatTemplate",
        {
            "chatTemplate": {
                "inline": "{{ messages }}",
                "configMap": {"name": "c", "key": "k"},
            }
        },
        "must set exactly one of inline and configMap",
    ),
    "two kinds of warm-up": Refused(
        "spec.measurement.warmup",
        {"measurement": {"warmup": {"auto": {}, "none": {}}}},
        "must set exactly one of auto and none",
    ),
    "two roles and replicas of both": Refused(
        "spec.server.disaggregated",
        {
            "server.disaggregated": {"kvTransfer": {"connector": "NixlConnector"}},
            "server.replicas": 2,
        },
        "give replicas and resources under",
    ),
    "offline with replicas": Refused(
        "spec.offline.replicas",
        _offline({"batchSizes": [1]}) | {"offline": {"image": "v", "replicas": 2}},
    ),
    "two roles of an engine that transfers no cache": Refused(
        "spec.server.disaggregated",
        {
            "server.engine": "SGLang",
            "server.disaggregated": {"kvTransfer": {"connector": "NixlConnector"}},
        },
        "disaggregated needs engine VLLM",
    ),
    "several nodes of an engine that starts on one": Refused(
        "spec.server.nodesPerReplica",
        {"server.engine": "SGLang", "server.nodesPerReplica": 2},
        "several nodes needs engine VLLM",
    ),
    "a claim for what an engine compiles that keeps nothing": Refused(
        "spec.server.compileCacheClaim",
        {"server.engine": "SGLang", "server.compileCacheClaim": "compiled"},
        "compileCacheClaim needs engine VLLM",
    ),
    "a profile of an engine that has none": Refused(
        "spec.measurement.profile",
        {"server.engine": "SGLang", "measurement.profile": {}},
        "measurement.profile needs engine VLLM",
    ),
    "a reset of a cache that no request empties": Refused(
        "spec.measurement.cachePolicy",
        {"server.engine": "LlamaCpp", "measurement.cachePolicy": "Reset"},
        "--no-cache-prompt",
    ),
    "a reset of TensorRT-LLM's cache": Refused(
        "spec.measurement.cachePolicy",
        {"server.engine": "TensorRTLLM", "measurement.cachePolicy": "Reset"},
        "kv_cache_config.enable_block_reuse=false",
    ),
    "no replica": Refused("spec.server.replicas", {"server.replicas": 0}),
    "no node": Refused(
        "spec.server.nodesPerReplica", {"server.nodesPerReplica": 0}
    ),
    "17 nodes": Refused(
        "spec.server.nodesPerReplica", {"server.nodesPerReplica": 17}
    ),
    "servers of two roles over two nodes": Refused(
        "spec.server.nodesPerReplica",
        {
            "server.nodesPerReplica": 2,
            "server.disaggregated": {"kvTransfer": {"connector": "NixlConnector"}},
        },
        "leave nodesPerReplica at 1",
    ),
    "17 replicas": Refused("spec.server.replicas", {"server.replicas": 17}),
    "offline without image": Refused(
        "spec.offline.image", _offline({"batchSizes": [1]}) | {"offline": {}}
    ),
    "offline with a reset of the cache": Refused(
        "spec.measurement.cachePolicy",
        _offline({"batchSizes": [1]}) | {"measurement": {"cachePolicy": "Reset"}},
        "with offline use Isolate",
    ),
    "a profile of a search": Refused(
        "spec.measurement.profile",
        {"measurement.profile": {}, "objectives": _P90, _LOAD: searching()},
        "can't be taken with",
    ),
    "a profile offline": Refused(
        "spec.measurement.profile",
        _offline({"batchSizes": [1]}) | {"measurement": {"profile": {}}},
        "offline",
    ),
    "a profile of servers of two roles": Refused(
        "spec.measurement.profile",
        {
            "measurement.profile": {},
            "server.disaggregated": {"kvTransfer": {"connector": "NixlConnector"}},
        },
        "disaggregated",
    ),
    "a profile of an endpoint on a claim": Refused(
        "spec.measurement.profile",
        {
            "server": absent(),
            "endpoint": {"url": "http://llm"},
            "measurement.profile": {"claimName": "traces"},
        },
        "claimName",
    ),
    "a profile of no time": Refused(
        "spec.measurement.profile.seconds", {"measurement.profile": {"seconds": 0}}
    ),
    "a profile of minutes": Refused(
        "spec.measurement.profile.seconds", {"measurement.profile": {"seconds": 31}}
    ),
    "several processes and a search": Refused(
        "spec.client.parallelism",
        {"client.parallelism": 2, "objectives": _P90, _LOAD: searching()},
        "load.search needs client.parallelism 1",
    ),
    "several processes offline": Refused(
        "spec.client.parallelism",
        _offline({"batchSizes": [1]}) | {"client": {"parallelism": 2}},
        "offline needs client.parallelism 1",
    ),
    "no process": Refused("spec.client.parallelism", {"client.parallelism": 0}),
    "too many processes": Refused(
        "spec.client.parallelism", {"client.parallelism": 17}
    ),
    "another word for as many as needed": Refused(
        "spec.client.parallelism", {"client.parallelism": "auto"}
    ),
    "processes as a text": Refused(
        "spec.client.parallelism", {"client.parallelism": "4"}
    ),
    "batches against a server": Refused(
        "spec.workloads",
        {_LOAD: {"batchSizes": [8]}},
        "load.batchSizes needs offline",
    ),
    "batches of nothing": Refused(
        f"{_AT}.load.batchSizes[0]", _offline({"batchSizes": [0]})
    ),
    "one batch size twice": Refused(
        f"{_AT}.load.batchSizes[1]", _offline({"batchSizes": [8, 8]})
    ),
    "no batch size": Refused(
        f"{_AT}.load.batchSizes", _offline({"batchSizes": []})
    ),
    "batches with a cap": Refused(
        f"{_AT}.load",
        _offline({"batchSizes": [8], "maxConcurrency": 8}),
        "set maxConcurrency only",
    ),
    "endpoint without address": Refused(
        "spec.endpoint",
        {"server": absent(), "endpoint": {}},
        "one of serviceRef and url",
    ),
    **{
        name: Refused(
            f"spec.workloads[0].dataset{place}", {_FILE: dataset}, message
        )
        for name, (place, dataset, message) in REFUSED_DATASETS.items()
    },
    "a seed for prompts that never repeat": Refused(
        "spec.workloads[0].dataset.random",
        {_FILE: {"random": {"seed": 0}}, "measurement": {"cachePolicy": "Share"}},
        "without it leave out seed",
    ),
    "a seed below 0": Refused(
        "spec.workloads[0].dataset.random.seed",
        {
            _FILE: {"random": {"generator": "VLLM", "seed": -1}},
            "measurement": {"cachePolicy": "Share"},
        },
    ),
    "instants of a dataset that has none": Refused(
        _AT, {_LOAD: {"traceSpeeds": ["1"]}}, "needs dataset.timedTrace"
    ),
    "a trace at speed 0": Refused(
        f"{_AT}.load.traceSpeeds[0]",
        {_FILE: {"timedTrace": {"file": FILE}}, _LOAD: {"traceSpeeds": ["0"]}},
        "must be above 0",
    ),
    "a trace with a cap": Refused(
        f"{_AT}.load",
        {
            _FILE: {"timedTrace": {"file": FILE}},
            _LOAD: {"traceSpeeds": ["1"], "maxConcurrency": 2},
        },
        "set maxConcurrency only",
    ),
    "sessions without a load of sessions": Refused(
        _AT,
        {_FILE: {"sessions": {"file": FILE, "format": "Turns"}}},
        "need each other",
    ),
    "a load of sessions without sessions": Refused(
        _AT, {_LOAD: {"sessions": [4]}}, "need each other"
    ),
    "sessions of a file and drawn ones": Refused(
        f"{_AT}.dataset.sessions",
        {
            _FILE: {
                "sessions": {"file": FILE, "format": "Turns", "synthetic": _DRAWN}
            },
            _LOAD: {"sessions": [4]},
        },
        "exactly one of file and synthetic",
    ),
    "sessions of no known format": Refused(
        f"{_AT}.dataset.sessions",
        {_FILE: {"sessions": {"file": FILE}}, _LOAD: {"sessions": [4]}},
        "set format with file",
    ),
    "rows of which it is not said what they count": Refused(
        f"{_AT}.dataset.sessions",
        {
            _FILE: {"sessions": {"file": FILE, "format": "Mooncake"}},
            _LOAD: {"sessions": [4]},
        },
        "set lengths with format Mooncake and BurstGPT",
    ),
    "blocks of a format that has none": Refused(
        f"{_AT}.dataset.sessions",
        {
            _FILE: {
                "sessions": {"file": FILE, "format": "ShareGPT", "blockTokens": 16}
            },
            _LOAD: {"sessions": [4]},
        },
        "blockTokens needs format",
    ),
    "drawn turns outside their bounds": Refused(
        f"{_AT}.dataset.sessions",
        {
            _FILE: {
                "sessions": {
                    "synthetic": {
                        **_DRAWN,
                        "turns": {"mean": 9, "stdev": 1, "min": 1, "max": 4},
                    }
                }
            },
            _LOAD: {"sessions": [4]},
        },
        "mean must be from min to max",
    ),
    **{
        f"drawn {of} outside their bounds": Refused(
            f"{_AT}.dataset.sessions",
            {
                _FILE: {"sessions": {"synthetic": {**_DRAWN, of: _UNBOUNDED}}},
                _LOAD: {"sessions": [4]},
            },
            "mean must be from min to max",
        )
        for of in ("firstTokens", "turnTokens", "outputTokens")
    },
    "too many drawn turns": Refused(
        f"{_AT}.dataset.sessions",
        {
            _FILE: {
                "sessions": {
                    "synthetic": {**_DRAWN, "turns": {**_LENGTHS, "max": 4097}}
                }
            },
            _LOAD: {"sessions": [4]},
        },
        "synthetic.turns.max must be at most 4096",
    ),
    "sessions sent by two processes": Refused(
        "spec.client.parallelism",
        {
            _FILE: {"sessions": {"synthetic": _DRAWN}},
            _LOAD: {"sessions": [4]},
            "client.parallelism": 2,
        },
        "load.sessions needs client.parallelism 1",
    ),
    "variable without value": Refused(
        "spec.server.env[0]",
        {"server.env": [{"name": "A"}]},
        "one of value and valueFrom",
    ),
    "variable from nowhere known": Refused(
        "spec.server.env[0].valueFrom",
        {"server.env": [{"name": "A", "valueFrom": {"vault": {"key": "k"}}}]},
        "one of secretKeyRef",
    ),
    "variable set twice": Refused(
        "spec.server.env[1]",
        {"server.env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
    ),
    # load
    "empty load": Refused(f"{_AT}.load", {_LOAD: {}}, _NO_LOAD),
    "no load": Refused(f"{_AT}.load", {_LOAD: absent()}, _NO_LOAD),
    "a part of no mix": Refused(
        "spec.workloads",
        {"workloads": [workload(), {"name": "part", "dataset": {"random": {}}}]},
        "or name it in a dataset.mix",
    ),
    **{
        f"a mix of {what}": Refused(
            "spec.workloads",
            {
                "workloads": [
                    workload(dataset=mix("chat", "part")),
                    workload("chat"),
                    *part,
                ]
            },
            "none of mix, timedTrace",
        )
        for what, part in {
            "a workload that does not exist": [],
            "a trace": [
                {"name": "part", "dataset": {"timedTrace": {"file": FILE}}}
            ],
            "a mix": [workload("part", dataset=mix("chat", "other"))],
        }.items()
    },
    "rates and concurrencies": Refused(
        f"{_AT}.load",
        {f"{_LOAD}.concurrencies": [1]},
        "must set exactly one of requestRates",
    ),
    "no load point": Refused(
        f"{_AT}.load.requestRates", {f"{_LOAD}.requestRates": []}
    ),
    "33 load points": Refused(
        f"{_AT}.load.requestRates",
        {f"{_LOAD}.requestRates": [str(n) for n in range(1, 34)]},
    ),
    "rate 0": Refused(
        f"{_AT}.load.requestRates[1]",
        {f"{_LOAD}.requestRates": ["1", "0"]},
        "must be above 0",
    ),
    "rate 0.00": Refused(
        f"{_AT}.load.requestRates[0]",
        {f"{_LOAD}.requestRates": ["0.00"]},
        "must be above 0",
    ),
    "negative rate": Refused(
        f"{_AT}.load.requestRates[0]", {f"{_LOAD}.requestRates": ["-1"]}
    ),
    "rate in scientific notation": Refused(
        f"{_AT}.load.requestRates[0]", {f"{_LOAD}.requestRates": ["1e3"]}
    ),
    "rate in words": Refused(
        f"{_AT}.load.requestRates[1]", {f"{_LOAD}.requestRates": ["1", "fast"]}
    ),
    "rate with a line break": Refused(
        f"{_AT}.load.requestRates[0]", {f"{_LOAD}.requestRates": ["1\n"]}
    ),
    "one rate in two spellings": Refused(
        f"{_AT}.load.requestRates",
        {f"{_LOAD}.requestRates": ["4", "4.0"]},
        "must differ",
    ),
    "one rate twice": Refused(
        f"{_AT}.load.requestRates[1]", {f"{_LOAD}.requestRates": ["4", "4"]}
    ),
    "concurrency 0": Refused(
        f"{_AT}.load.concurrencies[0]", {_LOAD: {"concurrencies": [0]}}
    ),
    "one concurrency twice": Refused(
        f"{_AT}.load.concurrencies[1]", {_LOAD: {"concurrencies": [8, 8]}}
    ),
    "cap without rates": Refused(
        f"{_AT}.load",
        {_LOAD: {"concurrencies": [1], "maxConcurrency": 8}},
        "set maxConcurrency only",
    ),
    **{
        f"{field} with {name}": Refused(
            f"{_AT}.load.{field}",
            {_LOAD: {**load, field: value}},
            f"{field} needs users",
        )
        for field, value in (("start", "Spread"), ("thinkSeconds", {"mean": "2"}))
        for name, load in (
            ("rates", {"requestRates": ["4"]}),
            ("everything at once", {"requestRates": ["inf"]}),
            (
                "rates under a cap",
                {"requestRates": ["4", "inf"], "maxConcurrency": 8},
            ),
        )
    },
    "think times with a trace": Refused(
        f"{_AT}.load.thinkSeconds",
        {
            _FILE: {"timedTrace": {"file": FILE}},
            _LOAD: {"traceSpeeds": ["1"], "thinkSeconds": {"mean": "2"}},
        },
        "thinkSeconds needs users",
    ),
    "think times with batches": Refused(
        f"{_AT}.load.thinkSeconds",
        _offline({"batchSizes": [8], "thinkSeconds": {"mean": "2"}}),
        "thinkSeconds needs users",
    ),
    "think times of more than an hour": Refused(
        f"{_AT}.load.thinkSeconds.mean",
        {_LOAD: {"concurrencies": [1], "thinkSeconds": {"mean": "3600.5"}}},
        "at most 3600",
    ),
    "no think time": Refused(
        f"{_AT}.load.thinkSeconds.mean",
        {_LOAD: {"concurrencies": [1], "thinkSeconds": {"mean": "0"}}},
        "above 0",
    ),
    "another start": Refused(
        f"{_AT}.load.start", {_LOAD: {"concurrencies": [1], "start": "together"}}
    ),
    "burstiness without rates": Refused(
        f"{_AT}.load",
        {_LOAD: {"concurrencies": [1], "burstiness": "0.5"}},
        "set burstiness only",
    ),
    "a temperature above 2": Refused(
        f"{_AT}.sampling.temperature", {_SAMPLING: {"temperature": "2.1"}}
    ),
    "a temperature as a number": Refused(
        f"{_AT}.sampling.temperature", {_SAMPLING: {"temperature": 0.7}}
    ),
    "a nucleus above 1": Refused(
        f"{_AT}.sampling.topP", {_SAMPLING: {"temperature": "1", "topP": "1.1"}}
    ),
    "a nucleus of nothing": Refused(
        f"{_AT}.sampling.topP", {_SAMPLING: {"temperature": "1", "topP": "0"}}
    ),
    "top-k 0": Refused(
        f"{_AT}.sampling.topK", {_SAMPLING: {"temperature": "1", "topK": 0}}
    ),
    "a repetition penalty of 0": Refused(
        f"{_AT}.sampling.repetitionPenalty", {_SAMPLING: {"repetitionPenalty": "0"}}
    ),
    "greedy from a nucleus": Refused(
        f"{_AT}.sampling", {_SAMPLING: {"topP": "0.9"}}, "need temperature above 0"
    ),
    "a least probability for greedy requests": Refused(
        f"{_AT}.sampling", {_SAMPLING: {"minP": "0.1"}}, "need temperature above 0"
    ),
    "more log probabilities than vLLM gives": Refused(
        f"{_AT}.sampling.logprobs", {_SAMPLING: {"logprobs": 21}}
    ),
    "greedy from the likeliest": Refused(
        f"{_AT}.sampling",
        {_SAMPLING: {"temperature": "0.0", "topK": 5}},
        "need temperature above 0",
    ),
    "stop texts and full length": Refused(
        _AT, {_SAMPLING: {"stop": ["x"]}}, "set ignoreEOS: false"
    ),
    # what a request says
    "thinking without a chat": Refused(
        f"{_AT}.request",
        {f"{_REQUEST}.chat": {"thinking": True}},
        "needs api: Chat",
    ),
    "a schema and full length": Refused(
        f"{_AT}.request",
        {f"{_REQUEST}.responseFormat": {"jsonSchema": {"type": "object"}}},
        "set ignoreEOS: false",
    ),
    "adapters for more than all requests": Refused(
        f"{_AT}.request.adapters",
        {
            f"{_REQUEST}.adapters": [
                {"name": "a", "percent": 60},
                {"name": "b", "percent": 41},
            ]
        },
        "100 at most",
    ),
    "an adapter twice": Refused(
        f"{_AT}.request.adapters[1]",
        {
            f"{_REQUEST}.adapters": [
                {"name": "a", "percent": 1},
                {"name": "a", "percent": 2},
            ]
        },
    ),
    "an adapter for no request": Refused(
        f"{_AT}.request.adapters[0].percent",
        {f"{_REQUEST}.adapters": [{"name": "a", "percent": 0}]},
    ),
    "adapters of SGLang": Refused(
        "spec.workloads",
        {
            "server.engine": "SGLang",
            f"{_REQUEST}.adapters": [{"name": "a", "percent": 50}],
        },
        "ignored by SGLang",
    ),
    "adapters of llama.cpp": Refused(
        "spec.workloads",
        {
            "server.engine": "LlamaCpp",
            f"{_REQUEST}.adapters": [{"name": "a", "percent": 50}],
        },
        "start it with --lora",
    ),
    "adapters of TensorRT-LLM": Refused(
        "spec.workloads",
        {
            "server.engine": "TensorRTLLM",
            f"{_REQUEST}.adapters": [{"name": "a", "percent": 50}],
        },
        "lora_request",
    ),
    "priorities of TensorRT-LLM": Refused(
        "spec.workloads",
        {"server.engine": "TensorRTLLM", f"{_REQUEST}.priority": 1},
        "0 to 1",
    ),
    "priorities of llama.cpp": Refused(
        "spec.workloads",
        {**_ENDPOINT, "endpoint.engine": "LlamaCpp", f"{_REQUEST}.priority": 1},
        "ignored by llama.cpp",
    ),
    "a schema for completions of llama.cpp": Refused(
        "spec.workloads",
        {
            "server.engine": "LlamaCpp",
            "workloads.0.ignoreEOS": False,
            f"{_REQUEST}.responseFormat": {"jsonSchema": {"type": "object"}},
        },
        "set api: Chat",
    ),
    "a request without a server": Refused(
        "spec.workloads",
        {
            "server": absent(),
            "offline": {"image": "vllm/vllm-openai:v0.32.0"},
            _LOAD: {"requestRates": ["inf"]},
            f"{_REQUEST}.priority": 1,
        },
        "with offline, remove request",
    ),
    "burstiness 0": Refused(
        f"{_AT}.load.burstiness", {f"{_LOAD}.burstiness": "0"}, "must be above 0"
    ),
    # how long a stage is
    "requests and durationSeconds": Refused(
        _AT,
        {"workloads.0.durationSeconds": 60},
        "one of requests and durationSeconds",
    ),
    "neither requests nor durationSeconds": Refused(
        _AT,
        {"workloads.0.requests": absent()},
        "one of requests and durationSeconds",
    ),
    "durationSeconds with inf": Refused(
        _AT, _for(60, {"requestRates": ["1", "inf"]}), "needs finite requestRates"
    ),
    "durationSeconds with concurrencies": Refused(
        _AT, _for(60, {"concurrencies": [4]}), "needs finite requestRates"
    ),
    "too many requests by duration": Refused(
        _AT,
        _for(501, {"requestRates": ["100"]}),
        "rate x durationSeconds must be at most 50000",
    ),
    # how much a run sends
    "200,004 requests at a load point": Refused(
        "spec.workloads",
        {
            "workloads": [workload("a"), workload("b", requests=28_572)],
            "repeats": 7,
        },
        "200004 requests (requests x repeats); the limit is 200000",
    ),
    "too many requests at a load point by duration": Refused(
        "spec.workloads",
        {
            "workloads": [lasting("a", 500, {"requestRates": ["2", "100"]})],
            "repeats": 5,
        },
        "250000 requests (requests x repeats)",
    ),
    "1,000,064 requests in all": Refused(
        "spec.workloads",
        {
            "workloads": [
                workload("a", requests=15_626, load={"requestRates": _POINTS_16})
            ],
            "repeats": 4,
        },
        "1000064 requests in all (stages x requests); the limit is 1000000",
    ),
    "too many requests in all by duration": Refused(
        "spec.workloads",
        {
            "workloads": [
                lasting(f"w{n}", 500, {"requestRates": ["1", "99.5"]})
                for n in range(5)
            ],
            "repeats": 4,
        },
        "1005000 requests in all",
    ),
    "too many requests at a load point of a search": Refused(
        "spec.workloads",
        {
            "workloads": [
                workload(
                    "a", requests=25_001, load=searching(maxProbes=1, maxRepeats=8)
                )
            ],
            "objectives": _P90,
        },
        "200008 requests (requests x repeats)",
    ),
    "a search that may take too many requests": Refused(
        "spec.workloads",
        {
            "workloads": [
                lasting("a", 500, searching(to="40", maxProbes=32, maxRepeats=7))
            ],
            "objectives": _P90,
        },
        "1060000 requests in all",
    ),
    # a search
    "search without objectives": Refused(
        "spec.objectives", {_LOAD: searching()}, "set at least one"
    ),
    "search and rates": Refused(
        f"{_AT}.load",
        {f"{_LOAD}.search": searching()["search"], "objectives": _P90},
        "must set exactly one of requestRates",
    ),
    # repeats: Auto
    "Auto without budget": Refused(
        "spec.budget", {"repeats": "Auto", "objectives": _P90}, "set budget"
    ),
    "a budget of nothing": Refused(
        "spec.budget",
        {"repeats": "Auto", "objectives": _P90, "budget": {}},
        "at least one of requests, seconds and gpuSeconds",
    ),
    "a budget of a number of repeats": Refused(
        "spec.budget", {"budget": {"requests": 1000}}, "set repeats: Auto"
    ),
    "Auto without a question": Refused(
        "spec.repeats", _AUTO | {"objectives": []}, "set objectives or widths"
    ),
    "widths of a number of repeats": Refused(
        "spec.widths",
        {"widths": [{"metric": "TTFT", "percent": "10"}]},
        "or remove widths",
    ),
    "a width of nothing": Refused(
        "spec.widths[0].percent",
        _AUTO | {"widths": [{"metric": "TTFT", "percent": "0.5"}]},
        "between 1 and 100",
    ),
    "a budget of less than a repeat": Refused(
        "spec.budget.requests",
        _AUTO | {"budget.requests": 199},
        "less than the requests of every load point once",
    ),
    "a budget of less than a repeat by durations": Refused(
        "spec.budget.requests",
        _AUTO | {"budget.requests": 299} | _for(60, {"requestRates": ["1", "4"]}),
        "less than the requests of every load point once",
    ),
    "Auto and a search": Refused(
        "spec.repeats", _AUTO | {_LOAD: searching()}, "leave repeats at 1"
    ),
    "Auto and a trace": Refused(
        "spec.repeats",
        _AUTO
        | {
            _FILE: {"timedTrace": {"file": FILE}},
            _LOAD: {"traceSpeeds": ["1"]},
        },
        "set a number of repeats",
    ),
    "Auto and the same prompts": Refused(
        "spec.measurement.cachePolicy",
        _AUTO | {"measurement.cachePolicy": "Share"},
        "new prompts in each repeat",
    ),
    "Auto and prompts that are sent again": Refused(
        "spec.measurement.cachePolicy",
        _AUTO
        | {
            "measurement.cachePolicy": "Reset",
            _FILE: {"random": {"seed": 1, "generator": "VLLM"}},
        },
        "new prompts in each repeat",
    ),
    "Auto offline": Refused(
        "spec.repeats",
        _offline({"batchSizes": [1]}) | _AUTO,
        "offline set a number of repeats",
    ),
    "Auto and a baseline": Refused(
        "spec.baseline",
        _AUTO | {"baseline.name": "other"},
        "set a number of repeats",
    ),
    "Auto and a profile": Refused(
        "spec.measurement.profile",
        _AUTO | {"measurement.profile": {}},
        "a number of repeats",
    ),
    "Auto and several processes": Refused(
        "spec.client.parallelism",
        _AUTO | {"client.parallelism": 2},
        "repeats: Auto needs client.parallelism 1",
    ),
    "another word for Auto": Refused("spec.repeats", _AUTO | {"repeats": "auto"}),
    "search with repeats": Refused(
        "spec.repeats",
        {_LOAD: searching(), "objectives": _P90, "repeats": 2},
        "leave repeats at 1",
    ),
    "search from where it ends": Refused(
        f"{_AT}.load.search",
        {_LOAD: searching(to="1.0"), "objectives": _P90},
        "from must be a smaller number than to",
    ),
    "search for half a user": Refused(
        f"{_AT}.load.search",
        {_LOAD: searching(axis="Concurrency", to="2.5"), "objectives": _P90},
        "from and to must be whole numbers",
    ),
    "search for a million users": Refused(
        f"{_AT}.load.search",
        {_LOAD: searching(axis="Concurrency", to="1000000"), "objectives": _P90},
        "to must be at most 100000",
    ),
    "search to a fraction of a percent": Refused(
        f"{_AT}.load.search.tolerancePercent",
        {_LOAD: searching(tolerancePercent="0.5"), "objectives": _P90},
        "must be between 1 and 100",
    ),
    "search from words": Refused(
        f"{_AT}.load.search.from",
        {_LOAD: searching(**{"from": "slow"}), "objectives": _P90},
    ),
    "search to everything at once": Refused(
        f"{_AT}.load.search.to", {_LOAD: searching(to="inf"), "objectives": _P90}
    ),
    "search with too few requests for its percentile": Refused(
        "spec.workloads",
        {_LOAD: searching(), "objectives": _P99, "workloads.0.requests": 368},
        _TOO_FEW,
    ),
    "search with too short stages for its percentile": Refused(
        "spec.workloads",
        {**_for(184, searching(**{"from": "2"})), "objectives": _P99},
        _TOO_FEW,
    ),
    "search with too few requests to confirm anything with one stage": Refused(
        "spec.workloads",
        {
            _LOAD: searching(maxRepeats=1),
            "objectives": _P99,
            "workloads.0.requests": 478,
        },
        _TOO_FEW,
    ),
    "search for users by duration": Refused(
        _AT,
        {**_for(60, searching(axis="Concurrency")), "objectives": _P90},
        "needs finite requestRates",
    ),
    "search with too many requests by duration": Refused(
        _AT,
        {
            **_for(501, searching(to="100", maxProbes=2, maxRepeats=1)),
            "objectives": _P90,
        },
        "search.to x durationSeconds must be at most 50000",
    ),
    "searches that may take 66 load points": Refused(
        "spec.workloads",
        {
            "workloads": [
                workload(f"w{n}", load=searching(maxProbes=19, maxRepeats=1))
                for n in range(3)
            ],
            "objectives": _P90,
        },
        "66 load points in all; the limit is 64",
    ),
    "searches that may take 279 stages": Refused(
        "spec.workloads",
        {
            "workloads": [
                workload(f"w{n}", load=searching(maxProbes=1, maxRepeats=10))
                for n in range(9)
            ],
            "objectives": _P90,
        },
        "a search may need maxProbes + 3 confirmations x maxRepeats; the limit is 256",
    ),
    # products
    "65 load points": Refused(
        "spec.workloads",
        {
            "workloads": [
                workload(f"w{n}", load={"requestRates": _POINTS_13})
                for n in range(5)
            ]
        },
        "65 load points in all; the limit is 64",
    ),
    "101 repeats": Refused("spec.repeats", {"repeats": 101}),
    "300 stages": Refused(
        "spec.repeats",
        {
            "workloads": [
                workload("a", load={"requestRates": ["1"]}),
                workload("b", load={"concurrencies": [1, 2]}),
            ],
            "repeats": 100,
        },
        "3 load points x 100 repeats = 300 stages; the limit is 256",
    ),
    # measurement and objectives
    "percentile 100": Refused(
        "spec.measurement.percentiles[0]", {"measurement": {"percentiles": ["100"]}}
    ),
    "percentile 0": Refused(
        "spec.measurement.percentiles[0]",
        {"measurement": {"percentiles": ["0"]}},
        "must be above 0",
    ),
    "percentile p99": Refused(
        "spec.measurement.percentiles[0]", {"measurement": {"percentiles": ["p99"]}}
    ),
    "one percentile in two spellings": Refused(
        "spec.measurement.percentiles",
        {"measurement": {"percentiles": ["99", "99.0"]}},
        "must differ",
    ),
    "no percentile": Refused(
        "spec.measurement.percentiles", {"measurement": {"percentiles": []}}
    ),
    "objective on an unknown metric": Refused(
        "spec.objectives[0].metric",
        {"objectives": [{"metric": "Throughput", "maxMilliseconds": 1}]},
    ),
    "objective without limit": Refused(
        "spec.objectives[0].maxMilliseconds", {"objectives": [{"metric": "TTFT"}]}
    ),
    "percent of two points": Refused(
        "spec.validity.maxFailedPercent",
        {"validity": {"maxFailedPercent": "1.2.3"}},
    ),
    "a rule without a limit": Refused(
        "spec.validity.rules[0]",
        {"validity": {"rules": [{"name": "tail", "metric": "failed"}]}},
        "must set exactly one of above and below",
    ),
    "a rule above a number that is none": Refused(
        "spec.validity.rules[0].above", rule(above="-1")
    ),
    "a rule of another severity": Refused(
        "spec.validity.rules[0].severity", rule(severity="Off")
    ),
    "a rule with the name of another": Refused(
        "spec.validity.rules[1]", {"validity": {"rules": [RULE, RULE]}}
    ),
    "a figure with a space": Refused(
        "spec.validity.rules[0].metric", rule(metric="p99 ttft")
    ),
    "a condition without end": Refused(
        "spec.validity.rules[0].when", rule(when="load > 1.0 || " * 40)
    ),
    "a sermon for a message": Refused(
        "spec.validity.rules[0].message", rule(message="a" * 301)
    ),
    "101 percent": Refused(
        "spec.validity.maxFailedPercent",
        {"validity": {"maxFailedPercent": "101"}},
        "must be at most 100",
    ),
    "cache policy unheard of": Refused(
        "spec.measurement.cachePolicy", {"measurement": {"cachePolicy": "Warm"}}
    ),
    "prompts sent again in isolation": Refused(
        "spec.measurement.cachePolicy",
        {_FILE: {"random": {"generator": "VLLM", "seed": 0}}},
        "set cachePolicy Share or Reset",
    ),
    "rows of vLLM's sampler in isolation": Refused(
        "spec.measurement.cachePolicy",
        {_FILE: {"shareGPT": {"file": FILE, "seed": 42}}},
        "set cachePolicy Share or Reset",
    ),
    "the first texts of a file in isolation": Refused(
        "spec.measurement.cachePolicy",
        {_FILE: {"texts": {"file": FILE, "column": "review", "order": "File"}}},
        "set cachePolicy Share or Reset",
    ),
    "a search with prompts that were sent before": Refused(
        "spec.measurement.cachePolicy",
        {
            "measurement": {"cachePolicy": "Share"},
            "objectives": _P90,
            _LOAD: searching(),
        },
        "load.search confirms a load with new prompts",
    ),
    "a test request before the stages of a search": Refused(
        "spec.workloads[0].testRequest",
        {"workloads.0.testRequest": True, "objectives": _P90, _LOAD: searching()},
        "testRequest leaves a prompt in the cache",
    ),
    "a search with the rows of vLLM's sampler": Refused(
        "spec.measurement.cachePolicy",
        {
            _FILE: {"shareGPT": {"file": FILE, "seed": 42}},
            "measurement": {"cachePolicy": "Reset"},
            "objectives": _P90,
            _LOAD: searching(),
        },
        "load.search confirms a load with new prompts",
    ),
    "a search with a seed of its own": Refused(
        "spec.measurement.cachePolicy",
        {
            _FILE: {"random": {"generator": "VLLM", "seed": 0}},
            "measurement": {"cachePolicy": "Reset"},
            "objectives": _P90,
            _LOAD: searching(),
        },
        "load.search confirms a load with new prompts",
    ),
    "order unheard of": Refused(
        "spec.measurement.order", {"measurement": {"order": "Random"}}
    ),
    "reset of an endpoint that does not allow it": Refused(
        "spec.endpoint.allowCacheReset",
        {**_ENDPOINT, "measurement": {"cachePolicy": "Reset"}},
        "set endpoint.allowCacheReset: true",
    ),
    "reset with development mode off": Refused(
        "spec.server.env",
        {
            "measurement": {"cachePolicy": "Reset"},
            "server.env": [{"name": "VLLM_SERVER_DEV_MODE", "value": "0"}],
        },
        _NEEDS_DEVELOPMENT_MODE,
    ),
    "reset with development mode from elsewhere": Refused(
        "spec.server.env",
        {
            "measurement": {"cachePolicy": "Reset"},
            "server.env": [
                {
                    "name": "VLLM_SERVER_DEV_MODE",
                    "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}},
                }
            ],
        },
        _NEEDS_DEVELOPMENT_MODE,
    ),
    # cost
    "a price of nothing": Refused(
        "spec.cost", {"cost": {"currency": "EUR"}}, "one of perGPUHour, perHour"
    ),
    "two prices": Refused(
        "spec.cost",
        {"cost": {"perGPUHour": "2.49", "perHour": "19.92"}},
        "one of perGPUHour, perHour",
    ),
    "tokens without a price of cached ones": Refused(
        "spec.cost.perMillionTokens.cachedInput",
        {"cost": {"perMillionTokens": {"input": "3", "output": "15"}}},
    ),
    "a price of tokens beside one of time": Refused(
        "spec.cost",
        {"cost": {"perMillionTokens": _TOKENS, "perHour": "2"}},
        "and perMillionTokens",
    ),
    "a price of 0": Refused(
        "spec.cost.perHour", {"cost": {"perHour": "0.00"}}, "must be above 0"
    ),
    "a price as a number": Refused("spec.cost.perHour", {"cost": {"perHour": 2}}),
    "a currency as a sign": Refused(
        "spec.cost.currency", {"cost": {"perHour": "2", "currency": "$"}}
    ),
    "the price of an endpoint's GPUs": Refused(
        "spec.cost",
        {**_ENDPOINT, "cost": {"perGPUHour": "2.49"}},
        "set cost.perHour",
    ),
    # baseline
    "baseline without a name": Refused("spec.baseline.name", {"baseline": {}}),
    "baseline in capitals": Refused(
        "spec.baseline.name", {"baseline": {"name": "Before"}}
    ),
    "baseline with a name that no run can have": Refused(
        "spec.baseline.name", {"baseline": {"name": "b" * 41}}
    ),
    "regression of 101 percent": Refused(
        "spec.baseline.maxRegressionPercent",
        {"baseline": {"name": "b", "maxRegressionPercent": "101"}},
        "must be at most 100",
    ),
    "regression as a number": Refused(
        "spec.baseline.maxRegressionPercent",
        {"baseline": {"name": "b", "maxRegressionPercent": 5}},
    ),
    "negative regression": Refused(
        "spec.baseline.maxRegressionPercent",
        {"baseline": {"name": "b", "maxRegressionPercent": "-5"}},
    ),
    "comparison of an unknown figure": Refused(
        "spec.baseline.metrics[0]",
        {"baseline": {"name": "b", "metrics": ["P50TTFT"]}},
    ),
    "comparison of no figure": Refused(
        "spec.baseline.metrics", {"baseline": {"name": "b", "metrics": []}}
    ),
    "comparison of one figure twice": Refused(
        "spec.baseline.metrics[1]",
        {"baseline": {"name": "b", "metrics": ["MeanTTFT", "MeanTTFT"]}},
    ),
    # model, server, endpoint
    "revision without hub": Refused(
        "spec.model",
        {
            "model": {
                "name": "m",
                "revision": "main",
                "source": {"path": {"path": "/m"}},
            }
        },
        "set source.hub",
    ),
    "claim for the model and a tokenizer from elsewhere": Refused(
        "spec.model.tokenizer",
        {
            "model.source": {"hub": {"cacheClaim": "models"}},
            "model.tokenizer": "a/b",
        },
        "keeps only the model's own repository",
    ),
    "claim for the model of an endpoint": Refused(
        "spec.model.source.hub.cacheClaim",
        {
            "server": absent(),
            "endpoint": {"url": "http://llm"},
            "model.source": {"hub": {"cacheClaim": "models"}},
        },
        "with endpoint, remove cacheClaim",
    ),
    "claim for the model with a capital": Refused(
        "spec.model.source.hub.cacheClaim",
        {"model.source": {"hub": {"cacheClaim": "Models"}}},
    ),
    "password in the URL of a hub": Refused(
        "spec.model.source.hub.endpoint",
        {"model.source": {"hub": {"endpoint": "https://user:secret@hub.example"}}},
    ),
    "hub that is no URL": Refused(
        "spec.model.source.hub.endpoint",
        {"model.source": {"hub": {"endpoint": "hub.example"}}},
    ),
    "relative model path": Refused(
        "spec.model.source.path.path",
        {"model.source": {"path": {"path": "models"}}},
    ),
    "absolute path within a claim": Refused(
        "spec.model.source.pvc.path",
        {"model.source": {"pvc": {"claimName": "models", "path": "/m"}}},
    ),
    "password in a URL": Refused(
        "spec.endpoint.url",
        {
            "server": absent(),
            "endpoint": {"url": "https://user:secret@llm.example.com"},
        },
    ),
    **{
        f"header {name} of the client's own": Refused(
            "spec.endpoint.headers[0].name",
            _asking(headers=[{"name": name, "value": "x"}]),
            "the client sets this header itself",
        )
        for name in ("Content-Type", "host", "Transfer-Encoding", "CONNECTION")
    },
    **{
        f"{name}: {value} in the open": Refused(
            "spec.endpoint.headers[0].value",
            _asking(headers=[{"name": name, "value": value}]),
            "name that in secretKeyRef",
        )
        for name, value in (
            ("Authorization", "x"),
            ("X-Api-Key", "x"),
            ("Cookie", "x"),
            ("x-token", "x"),
            ("key", "x"),
            ("X-Other", "Bearer x"),
        )
    },
    "a header that is two": Refused(
        "spec.endpoint.headers[0].value", _asking(headers=[_two_lines("value")])
    ),
    "a header without a value": Refused(
        "spec.endpoint.headers[0]",
        _asking(headers=[{"name": "X-A"}]),
        "exactly one of value and secretKeyRef",
    ),
    "a header and the key in one": Refused(
        "spec.endpoint.apiKeySecretRef",
        _asking(
            headers=[{"name": "authorization", "secretKeyRef": {"name": "s"}}],
            apiKeySecretRef={"name": "s"},
        ),
        "remove it, or the header",
    ),
    **{
        f"{name} in the URL": Refused(
            "spec.endpoint.query[0].name",
            _asking(query=[{"name": name, "value": "x"}]),
            "send it in headers, from a Secret",
        )
        for name in ("key", "access_token", "sig")
    },
    "metrics of nothing": Refused("spec.endpoint.metrics", _asking(metrics={})),
    "metrics of pods without labels": Refused(
        "spec.endpoint.metrics.pods.labels",
        _asking(metrics={"pods": {"labels": {}}}),
    ),
    "metrics of pods and pages": Refused(
        "spec.endpoint.metrics",
        _asking(
            metrics={"pods": {"labels": {"a": "b"}}, "urls": ["http://a/metrics"]}
        ),
        "exactly one of pods and urls",
    ),
    "a password in a metrics page": Refused(
        "spec.endpoint.metrics.urls[0]",
        _asking(metrics={"urls": ["http://u:p@a/metrics"]}),
    ),
    "a client certificate without TLS": Refused(
        "spec.endpoint.clientCertificateSecretRef",
        _asking(clientCertificateSecretRef={"name": "pair"}),
        "set url to https://",
    ),
    "URL of another scheme": Refused(
        "spec.endpoint.url", {"server": absent(), "endpoint": {"url": "ftp://llm"}}
    ),
    "port 0": Refused(
        "spec.endpoint.serviceRef.port",
        {"server": absent(), "endpoint": {"serviceRef": {"name": "s", "port": 0}}},
    ),
    "negative GPUs": Refused(
        "spec.server.resources.limits.nvidia.com/gpu",
        {"server.resources": {"limits": {"nvidia.com/gpu": -1}}},
    ),
    "quantity in words": Refused(
        "spec.server.resources.limits.cpu",
        {"server.resources": {"limits": {"cpu": "two"}}},
    ),
    "shared memory without unit": Refused(
        "spec.server.sharedMemory", {"server.sharedMemory": "2000000"}
    ),
}

ACCEPTED: dict[str, Spec] = {
    **{
        name: minimal({_FILE: dataset})
        for name, dataset in ACCEPTED_DATASETS.items()
    },
    "no claim for the model of an endpoint, nor for a tokenizer": minimal(
        {
            "server": absent(),
            "endpoint": {"url": "http://llm"},
            "model.source": {"hub": {"cacheClaim": ""}},
            "model.tokenizer": "a/b",
        }
    ),
    "repeats until objectives and widths are decided": minimal(
        _AUTO
        | {
            "budget.gpuSeconds": 3600,
            "budget.seconds": 900,
            "client.parallelism": "Auto",
            "widths": [{"metric": "E2EL", "percentile": "50", "percent": "5"}],
        }
    ),
    "repeats until widths are reached, within a time": minimal(
        {
            "repeats": "Auto",
            "budget": {"seconds": 60},
            "widths": [{"metric": "ITL", "percent": "100"}],
        }
    ),
    "a budget of exactly one repeat": minimal(_AUTO | {"budget.requests": 200}),
    "a profile on a claim": minimal(
        {"measurement.profile": {"seconds": 30, "claimName": "traces"}}
    ),
    "a profile of an endpoint": minimal(
        {
            "server": absent(),
            "endpoint": {"url": "http://llm"},
            "measurement.profile": {},
        }
    ),
    "a mix of a workload that is measured and one that is not": minimal(
        {
            "workloads": [
                workload(dataset=mix("chat", "part")),
                workload("chat"),
                {"name": "part", "dataset": {"random": {}}},
            ]
        }
    ),
    "a trace replayed at two speeds": minimal(
        {
            _FILE: {"timedTrace": {"file": FILE}},
            _LOAD: {"traceSpeeds": ["1", "2.5"]},
        }
    ),
    "recorded sessions": minimal(
        {
            _FILE: {
                "sessions": {"file": FILE, "format": "Mooncake", "lengths": "Added"}
            },
            _LOAD: {"sessions": [1, 8]},
        }
    ),
    "drawn sessions": minimal(
        {
            _FILE: {"sessions": {"synthetic": _DRAWN}},
            _LOAD: {"sessions": [4]},
            "client.parallelism": "Auto",
        }
    ),
    "three servers": minimal({"server.replicas": 3}),
    "servers over two nodes": minimal(
        {"server.replicas": 2, "server.nodesPerReplica": 2}
    ),
    "sixteen processes": minimal({"client.parallelism": 16}),
    "as many processes as needed": minimal(
        {"client.parallelism": "Auto", _LOAD: {"concurrencies": [4000]}}
    ),
    "as many as needed, which a search has one of": minimal(
        {"client.parallelism": "Auto", "objectives": _P90, _LOAD: searching()}
    ),
    "offline, all at once": minimal(_offline({"requestRates": ["inf"]})),
    "offline, batch by batch": minimal(
        _offline({"batchSizes": [1, 16]}) | {"workloads.0.api": "Chat"}
    ),
    "minimal": minimal(),
    "embeddings with a limit on E2EL": minimal(
        {
            _API: "Embeddings",
            "objectives": [{"metric": "E2EL", "maxMilliseconds": 9}],
        }
    ),
    "several texts a request": minimal(
        {_API: "Embeddings", "workloads.0.request": {"texts": 128}}
    ),
    "embeddings with fields of their own": minimal(
        {
            _API: "Embeddings",
            "workloads.0.request": {"priority": 1, "extraBody": {"dimensions": 64}},
        }
    ),
    "model from the hub with a token": minimal(
        {"model.source": {"hub": {"tokenSecretRef": {"name": "hf"}}}}
    ),
    "model at a revision": minimal({"model.revision": "main"}),
    "model on a claim": minimal({"model.source": {"pvc": {"claimName": "models"}}}),
    "model in an artifact": minimal(
        {
            "model.source": {
                "imageVolume": {"reference": "registry/model:1", "path": "m"}
            }
        }
    ),
    "model in the images": minimal(
        {"model.source": {"path": {"path": "/models/tiny"}}}
    ),
    "service": minimal(
        {"server": absent(), "endpoint": {"serviceRef": {"name": "llm"}}}
    ),
    "url": minimal(
        {
            "server": absent(),
            "endpoint": {
                "url": "https://llm.example.com:8443/base",
                "apiKeySecretRef": {"name": "key"},
                "caConfigMapRef": {"name": "ca"},
            },
        }
    ),
    "url with all that an endpoint may ask for": minimal(
        {
            "server": absent(),
            "endpoint": {
                "url": "https://llm.example.com/prefix",
                "clientCertificateSecretRef": {"name": "pair"},
                "headers": [
                    {"name": "X-Tenant", "value": "bench; a=b"},
                    {"name": "X-Monkey", "value": "keyboard"},
                    {
                        "name": "Authorization",
                        "secretKeyRef": {"name": "s", "key": "k"},
                    },
                ],
                "query": [{"name": "api-version", "value": "2026-01-01"}],
                "metrics": {"pods": {"labels": {"app": "chat"}, "port": 8001}},
            },
        }
    ),
    "everything at once": minimal({f"{_LOAD}.requestRates": ["inf"]}),
    "bursts under a cap": minimal(
        {f"{_LOAD}.burstiness": "0.5", f"{_LOAD}.maxConcurrency": 64}
    ),
    "users": minimal({_LOAD: {"concurrencies": [1, 8, 64]}}),
    "users that begin together": minimal(
        {_LOAD: {"concurrencies": [8], "start": "Together"}}
    ),
    "users that think": minimal(
        {
            _LOAD: {
                "concurrencies": [8],
                "thinkSeconds": {"mean": "2.5", "distribution": "Constant"},
            }
        }
    ),
    "users of a cap that think": minimal(
        {
            _LOAD: {
                "requestRates": ["inf"],
                "maxConcurrency": 8,
                "thinkSeconds": {"mean": "3600"},
            }
        }
    ),
    "drawn tokens": minimal(
        {
            _SAMPLING: {
                "temperature": "0.7",
                "topP": "0.9",
                "topK": 20,
                "repetitionPenalty": "1.05",
            }
        }
    ),
    "greedy until a text": minimal(
        {_SAMPLING: {"stop": ["END"]}, "workloads.0.ignoreEOS": False}
    ),
    "greedily": minimal({_SAMPLING: {}}),
    "greedily, with log probabilities": minimal({_SAMPLING: {"logprobs": 5}}),
    "tokens above a least probability": minimal(
        {_SAMPLING: {"temperature": "1", "minP": "0.05"}}
    ),
    "duration": minimal(_for(500, {"requestRates": ["100"]})),
    "conversations from a ConfigMap": minimal(
        {
            _FILE: {
                "shareGPT": {"file": {"configMap": {"name": "c", "key": "f.json"}}}
            }
        }
    ),
    "conversations from a claim": minimal(
        {
            _FILE: {
                "shareGPT": {
                    "file": {"pvc": {"claimName": "c", "path": "d/f.json"}},
                    "outputTokens": 8,
                }
            }
        }
    ),
    "conversations from a URL": minimal(
        {
            _FILE: {
                "shareGPT": {"file": {"url": "https://data.example.com/f.json?v=1"}}
            }
        }
    ),
    "no warm-up": minimal({"measurement": {"warmup": {"none": {}}}}),
    "shorter warm-up": minimal(
        {"measurement": {"warmup": {"auto": {"maxSeconds": 5}}}}
    ),
    "reset": minimal(
        {
            "measurement": {"cachePolicy": "Reset"},
            "server.env": [{"name": "A", "value": "0"}],
        }
    ),
    "reset, with its variable": minimal(
        {
            "measurement": {"cachePolicy": "Reset"},
            "server.env": [{"name": "VLLM_SERVER_DEV_MODE", "value": "1"}],
        }
    ),
    "reset of an endpoint that allows it": minimal(
        {
            "server": absent(),
            "endpoint": {"url": "http://llm", "allowCacheReset": True},
            "measurement": {"cachePolicy": "Reset"},
        }
    ),
    "isolated on an endpoint that would allow a reset": minimal(
        {
            "server": absent(),
            "endpoint": {"url": "http://llm", "allowCacheReset": True},
        }
    ),
    "development mode without a reset": minimal(
        {"server.env": [{"name": "VLLM_SERVER_DEV_MODE", "value": "0"}]}
    ),
    "prompts of vLLM in isolation": minimal(
        {_FILE: {"random": {"generator": "VLLM"}}}
    ),
    "prompts of vLLM, sent again": minimal(
        {
            _FILE: {"random": {"generator": "VLLM", "seed": 0}},
            "measurement": {"cachePolicy": "Share"},
        }
    ),
    "rows of vLLM's sampler": minimal(
        {
            _FILE: {"shareGPT": {"file": FILE, "seed": 42}},
            "measurement": {"cachePolicy": "Share"},
        }
    ),
    "texts in the order of the file, for an empty cache": minimal(
        {
            _FILE: {"texts": {"file": FILE, "column": "review", "order": "File"}},
            "measurement": {"cachePolicy": "Reset"},
        }
    ),
    "texts drawn, and said so": minimal(
        {_FILE: {"texts": {"file": FILE, "column": "review", "order": "Drawn"}}}
    ),
    "prompts of vLLM, sent again to an empty cache": minimal(
        {
            _FILE: {"random": {"generator": "VLLM", "seed": 42}},
            "measurement": {"cachePolicy": "Reset"},
        }
    ),
    "shared prompts as listed": minimal(
        {"measurement": {"cachePolicy": "Share", "order": "AsListed"}}
    ),
    "fractions": minimal(
        {
            "measurement": {"percentiles": ["0.5", "99.9"]},
            "validity": {"maxFailedPercent": "0.1"},
        }
    ),
    "rules of one's own": minimal(
        {
            "validity": {
                "rules": [
                    RULE,
                    {
                        "name": "slow-tail",
                        "metric": "p99_ttft_ms",
                        "relativeTo": "median_ttft_ms",
                        "when": "axis == 'Concurrency' && server.runningMean > 1.0",
                        "above": "5.5",
                        "severity": "Invalid",
                        "message": "One in a hundred waits",
                    },
                    {
                        "name": "cache",
                        "metric": "server.kvCacheMaxPercent",
                        "below": "10",
                        "severity": "Note",
                    },
                ]
            }
        }
    ),
    "objectives": minimal(
        {
            "objectives": [
                {"metric": "ITL", "maxMilliseconds": 50, "percentile": "99.9"}
            ]
        }
    ),
    "price of a GPU": minimal({"cost": {"perGPUHour": "2.49"}}),
    "price of everything, in another currency": minimal(
        {"cost": {"perHour": "0.096", "currency": "EUR"}}
    ),
    "prices of tokens at an endpoint": minimal(
        {**_ENDPOINT, "cost": {"perMillionTokens": _TOKENS}}
    ),
    "price of an endpoint": minimal({**_ENDPOINT, "cost": {"perHour": "98.32"}}),
    "baseline": minimal({"baseline": {"name": "before"}}),
    "baseline with a limit and figures": minimal(
        {
            "baseline": {
                "name": "before",
                "maxRegressionPercent": "2.5",
                "metrics": ["TotalTokenThroughput", "MeanITL"],
            }
        }
    ),
    "search": minimal({_LOAD: searching(), "objectives": _P90}),
    "search with as many requests as its percentile takes": minimal(
        {_LOAD: searching(), "objectives": _P99, "workloads.0.requests": 369}
    ),
    "search of gaps between tokens, of which each request has many": minimal(
        {
            _LOAD: searching(),
            "objectives": [
                {"metric": "ITL", "maxMilliseconds": 50, "percentile": "99"}
            ],
            "workloads.0.requests": 20,
        }
    ),
    "search by duration": minimal(
        {
            **_for(
                240,
                searching(
                    **{"from": "2"},
                    tolerancePercent="2.5",
                    maxProbes=20,
                    maxRepeats=1,
                ),
            ),
            "objectives": _P99,
        }
    ),
    "search for users beside listed rates": minimal(
        {
            "workloads": [
                workload(
                    "a",
                    load=searching(
                        axis="Concurrency", to="100000", maxProbes=29, maxRepeats=7
                    ),
                ),
                workload("b", load={"requestRates": _POINTS_16}),
            ],
            "objectives": _P90,
        }
    ),
    "64 load points": minimal(
        {
            "workloads": [
                workload(f"w{n}", load={"requestRates": _POINTS_16})
                for n in range(4)
            ]
        }
    ),
    "as many requests as a load point may have, and a run": minimal(
        {
            "workloads": [
                workload(
                    "a",
                    requests=50_000,
                    load={"requestRates": ["1", "2", "3", "4", "5"]},
                )
            ],
            "repeats": 4,
        }
    ),
    "256 stages": minimal(
        {
            "workloads": [
                workload(f"w{n}", load={"requestRates": _POINTS_16})
                for n in range(4)
            ],
            "repeats": 4,
        }
    ),
    "all that a request may say": minimal(
        {
            "server.args": ["--enable-lora", "--lora-modules", "sql=/a", "chat=/b"],
            "workloads.0.api": "Chat",
            "workloads.0.ignoreEOS": False,
            _REQUEST: {
                "chat": {
                    "thinking": False,
                    "templateArguments": {
                        "reasoning_effort": "low",
                        "n": [1, None],
                    },
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                },
                "responseFormat": {
                    "jsonSchema": {"type": "object", "maxProperties": 0.5}
                },
                "priority": -1,
                "adapters": [
                    {"name": "sql", "percent": 40},
                    {"name": "chat", "percent": 60},
                ],
                "extraBody": {"seed": 7, "min_tokens": 2, "vllm_xargs": {"a": 1.5}},
            },
        }
    ),
    "a whole server": minimal(
        {
            "server.args": ["--max-model-len=4096", ""],
            "server.env": [
                {"name": "A", "value": ""},
                {
                    "name": "B",
                    "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
                },
            ],
            "server.resources": {
                "limits": {"nvidia.com/gpu": 1, "memory": "6Gi"},
                "requests": {"cpu": "0.5"},
            },
            "server.sharedMemory": "512Mi",
            "server.pod": {
                "nodeSelector": {"gpu": "h100"},
                "tolerations": [
                    {
                        "key": "nvidia.com/gpu",
                        "operator": "Exists",
                        "tolerationSeconds": 60,
                    }
                ],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": []
                        }
                    }
                },
                "volumes": [{"name": "cache", "emptyDir": {}}],
                "volumeMounts": [
                    {"name": "cache", "mountPath": "/cache", "readOnly": True}
                ],
                "securityContext": {"runAsUser": 1000},
                "imagePullSecrets": ["registry"],
            },
        }
    ),
}
