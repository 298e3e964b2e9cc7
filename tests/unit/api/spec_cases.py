"""Specs that must be accepted and specs that must be refused: by pydantic in the operator, and by the API server alike."""

from __future__ import annotations

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
        {"name": "chat", "dataset": {"random": {}}, "load": {"requestRates": ["1", "4"]}, "requests": 100},
    ],
}


def minimal(changes: Mapping[str, Any] | None = None, /) -> Spec:
    """The smallest useful spec, with values set (or, by `absent`, taken out) at dotted paths: `workloads.0.load`."""
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
    """Stands for "this field is left out"."""
    return _ABSENT


def workload(name: str = "other", **fields: Any) -> Spec:
    """One more workload."""
    return {**MINIMAL["workloads"][0], "name": name, **fields}


def lasting(name: str, seconds: int, load: Spec) -> Spec:
    """A workload whose stages last so long."""
    return {k: v for k, v in workload(name).items() if k != "requests"} | {"durationSeconds": seconds, "load": load}


def searching(**fields: Any) -> Spec:
    """A load that is searched, from 1 to 64 requests a second."""
    return {"search": {"axis": "RequestRate", "from": "1", "to": "64", **fields}}


@dataclass(frozen=True, slots=True)
class Refused:
    """A spec with one thing wrong."""

    path: str
    """The field that the API server names; the operator names it too, or the object it is in."""
    changes: Mapping[str, Any]
    message: str | None = None
    """Part of what both say, where the words are ours; None: each says it in its own words."""


_LOAD = "workloads.0.load"
_FILE = "workloads.0.dataset"
_NO_LOAD = (
    "load must set exactly one of requestRates, concurrencies, search, traceSpeeds and batchSizes; "
    "a workload that is only part of a mix has no load, requests or durationSeconds"
)
_NEEDS_DEVELOPMENT_MODE = (
    "measurement.cachePolicy Reset needs VLLM_SERVER_DEV_MODE=1 and sets it: "
    "take it out of server.env, or give it the value 1"
)
_P90: Any = [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 200}]
_P99: Any = [{"metric": "TTFT", "percentile": "99", "maxMilliseconds": 200}]
_POINTS_8: Spec = {"requestRates": [str(n) for n in range(1, 9)]}
_TOO_FEW = (
    "a search needs requests (or durationSeconds x from) for its percentiles: at least 369 a stage for the 99th, "
    "74 for the 95th, 37 for the 90th, in general 369 / (100 - percentile); fewer tell nothing for certain"
)
_POINTS_16 = [str(n) for n in range(1, 17)]
_POINTS_13 = _POINTS_16[:13]

_ONE_TARGET = "must set exactly one of server, endpoint and offline"
_WHOLE = (
    'offline gives the engine a whole load: load is {requestRates: ["inf"]}, all prompts in one call, or batchSizes'
)


def _offline(load: Spec) -> Spec:
    return {"server": absent(), "offline": {"image": "vllm/vllm-openai:v0.32.0"}, _LOAD: load}


REFUSED: dict[str, Refused] = {
    # types and bounds
    "repeats is a word": Refused("spec.repeats", {"repeats": "two"}),
    "repeats is a number in quotes": Refused("spec.repeats", {"repeats": "2"}),
    "suspend is a word": Refused("spec.suspend", {"suspend": "yes"}),
    "a rate is a number": Refused("spec.workloads[0].load.requestRates[0]", {f"{_LOAD}.requestRates": [1]}),
    "repeats is 0": Refused("spec.repeats", {"repeats": 0}),
    "no model": Refused("spec.model", {"model": absent()}),
    "no workloads": Refused("spec.workloads", {"workloads": []}),
    "17 workloads": Refused("spec.workloads", {"workloads": [workload(f"w{n}") for n in range(17)]}),
    "workload name in capitals": Refused("spec.workloads[0].name", {"workloads.0.name": "Chat"}),
    "two workloads of one name": Refused("spec.workloads[1]", {"workloads": [workload("a"), workload("a")]}),
    "unknown api": Refused("spec.workloads[0].api", {"workloads.0.api": "Responses"}),
    "100001 requests": Refused("spec.workloads[0].requests", {"workloads.0.requests": 100_001}),
    "negative deadline": Refused("spec.runDeadlineSeconds", {"runDeadlineSeconds": -1}),
    # unions
    "server and endpoint": Refused("spec", {"endpoint": {"url": "http://llm"}}, _ONE_TARGET),
    "server and offline": Refused("spec", {"offline": {"image": "v"}, _LOAD: {"requestRates": ["inf"]}}, _ONE_TARGET),
    "neither server nor endpoint": Refused("spec", {"server": absent()}, _ONE_TARGET),
    # without an API server
    "offline at a rate": Refused("spec.workloads", {"server": absent(), "offline": {"image": "v"}}, _WHOLE),
    "offline with one rate that is finite": Refused("spec.workloads", _offline({"requestRates": ["inf", "4"]}), _WHOLE),
    "offline with users": Refused("spec.workloads", _offline({"concurrencies": [4]}), _WHOLE),
    "offline with a cap": Refused("spec.workloads", _offline({"requestRates": ["inf"], "maxConcurrency": 4}), _WHOLE),
    "offline with burstiness": Refused(
        "spec.workloads", _offline({"requestRates": ["inf"], "burstiness": "0.5"}), _WHOLE
    ),
    "offline with replicas": Refused(
        "spec.offline.replicas", _offline({"batchSizes": [1]}) | {"offline": {"image": "v", "replicas": 2}}
    ),
    "no replica": Refused("spec.server.replicas", {"server.replicas": 0}),
    "no node": Refused("spec.server.nodesPerReplica", {"server.nodesPerReplica": 0}),
    "17 nodes": Refused("spec.server.nodesPerReplica", {"server.nodesPerReplica": 17}),
    "servers of two roles over two nodes": Refused(
        "spec.server.nodesPerReplica",
        {"server.nodesPerReplica": 2, "server.disaggregated": {"kvTransfer": {"connector": "NixlConnector"}}},
        "disaggregated has servers of one node each: leave nodesPerReplica at 1",
    ),
    "17 replicas": Refused("spec.server.replicas", {"server.replicas": 17}),
    "offline without image": Refused("spec.offline.image", _offline({"batchSizes": [1]}) | {"offline": {}}),
    "offline with a reset of the cache": Refused(
        "spec.measurement.cachePolicy",
        _offline({"batchSizes": [1]}) | {"measurement": {"cachePolicy": "Reset"}},
        "measurement.cachePolicy Reset needs a server to ask; with offline use Isolate, or turn the prefix cache off",
    ),
    "several processes and a search": Refused(
        "spec.client.parallelism",
        {"client.parallelism": 2, "objectives": _P90, _LOAD: searching()},
        "client.parallelism: a search chooses each load by what one process saw of the one before; take 1, or list the loads",
    ),
    "several processes offline": Refused(
        "spec.client.parallelism",
        _offline({"batchSizes": [1]}) | {"client": {"parallelism": 2}},
        "client.parallelism: offline takes each load in one call, which one process makes; take 1",
    ),
    "no process": Refused("spec.client.parallelism", {"client.parallelism": 0}),
    "too many processes": Refused("spec.client.parallelism", {"client.parallelism": 17}),
    "another word for as many as needed": Refused("spec.client.parallelism", {"client.parallelism": "auto"}),
    "processes as a text": Refused("spec.client.parallelism", {"client.parallelism": "4"}),
    "batches against a server": Refused(
        "spec.workloads",
        {_LOAD: {"batchSizes": [8]}},
        "load.batchSizes needs offline, where the engine is given a whole batch; use concurrencies with a server",
    ),
    "batches of nothing": Refused("spec.workloads[0].load.batchSizes[0]", _offline({"batchSizes": [0]})),
    "one batch size twice": Refused("spec.workloads[0].load.batchSizes[1]", _offline({"batchSizes": [8, 8]})),
    "no batch size": Refused("spec.workloads[0].load.batchSizes", _offline({"batchSizes": []})),
    "batches with a cap": Refused(
        "spec.workloads[0].load",
        _offline({"batchSizes": [8], "maxConcurrency": 8}),
        "maxConcurrency caps requestRates; remove it",
    ),
    "endpoint without address": Refused(
        "spec.endpoint", {"server": absent(), "endpoint": {}}, "must set exactly one of serviceRef and url"
    ),
    "two model sources": Refused(
        "spec.model.source",
        {"model.source": {"hub": {}, "path": {"path": "/m"}}},
        "must set exactly one of hub, pvc, imageVolume and path",
    ),
    **{
        name: Refused(f"spec.workloads[0].dataset{place}", {_FILE: dataset}, message)
        for name, (place, dataset, message) in REFUSED_DATASETS.items()
    },
    "instants of a dataset that has none": Refused(
        "spec.workloads[0]",
        {_LOAD: {"traceSpeeds": ["1"]}},
        "load.traceSpeeds replays instants, which only dataset.timedTrace has",
    ),
    "a trace at speed 0": Refused(
        "spec.workloads[0].load.traceSpeeds[0]",
        {_FILE: {"timedTrace": {"file": FILE}}, _LOAD: {"traceSpeeds": ["0"]}},
        "must be above 0",
    ),
    "a trace with a cap": Refused(
        "spec.workloads[0].load",
        {_FILE: {"timedTrace": {"file": FILE}}, _LOAD: {"traceSpeeds": ["1"], "maxConcurrency": 2}},
        "maxConcurrency caps requestRates; remove it",
    ),
    "both kinds of warm-up": Refused(
        "spec.measurement.warmup",
        {"measurement": {"warmup": {"auto": {}, "none": {}}}},
        "must set exactly one of auto and none",
    ),
    "empty warm-up": Refused(
        "spec.measurement.warmup", {"measurement": {"warmup": {}}}, "must set exactly one of auto and none"
    ),
    "variable without value": Refused(
        "spec.server.env[0]", {"server.env": [{"name": "A"}]}, "must set exactly one of value and valueFrom"
    ),
    "variable from nowhere known": Refused(
        "spec.server.env[0].valueFrom",
        {"server.env": [{"name": "A", "valueFrom": {"vault": {"key": "k"}}}]},
        "must be one of secretKeyRef, configMapKeyRef, fieldRef, resourceFieldRef",
    ),
    "variable set twice": Refused(
        "spec.server.env[1]", {"server.env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
    ),
    # load
    "empty load": Refused(
        "spec.workloads[0].load",
        {_LOAD: {}},
        _NO_LOAD,
    ),
    "no load": Refused("spec.workloads[0].load", {_LOAD: absent()}, _NO_LOAD),
    "a part of no mix": Refused(
        "spec.workloads",
        {"workloads": [workload(), {"name": "part", "dataset": {"random": {}}}]},
        "a workload without load is sent only as part of a mix: set its load, or name it in a dataset.mix",
    ),
    **{
        f"a mix of {what}": Refused(
            "spec.workloads",
            {"workloads": [workload(dataset=mix("chat", "part")), workload("chat"), *part]},
            "dataset.mix names other workloads of this spec, whose dataset is neither mix nor timedTrace: add the workload, "
            "or correct its name",
        )
        for what, part in {
            "a workload that does not exist": [],
            "a trace": [{"name": "part", "dataset": {"timedTrace": {"file": FILE}}}],
            "a mix": [workload("part", dataset=mix("chat", "other"))],
        }.items()
    },
    "rates and concurrencies": Refused(
        "spec.workloads[0].load",
        {f"{_LOAD}.concurrencies": [1]},
        "must set exactly one of requestRates, concurrencies, search, traceSpeeds and batchSizes",
    ),
    "no load point": Refused("spec.workloads[0].load.requestRates", {f"{_LOAD}.requestRates": []}),
    "33 load points": Refused(
        "spec.workloads[0].load.requestRates", {f"{_LOAD}.requestRates": [str(n) for n in range(1, 34)]}
    ),
    "rate 0": Refused(
        "spec.workloads[0].load.requestRates[1]", {f"{_LOAD}.requestRates": ["1", "0"]}, "must be above 0"
    ),
    "rate 0.00": Refused(
        "spec.workloads[0].load.requestRates[0]", {f"{_LOAD}.requestRates": ["0.00"]}, "must be above 0"
    ),
    "negative rate": Refused("spec.workloads[0].load.requestRates[0]", {f"{_LOAD}.requestRates": ["-1"]}),
    "rate in scientific notation": Refused(
        "spec.workloads[0].load.requestRates[0]", {f"{_LOAD}.requestRates": ["1e3"]}
    ),
    "rate in words": Refused("spec.workloads[0].load.requestRates[1]", {f"{_LOAD}.requestRates": ["1", "fast"]}),
    "rate with a line break": Refused("spec.workloads[0].load.requestRates[0]", {f"{_LOAD}.requestRates": ["1\n"]}),
    "one rate in two spellings": Refused(
        "spec.workloads[0].load.requestRates",
        {f"{_LOAD}.requestRates": ["4", "4.0"]},
        "must differ from one another as numbers",
    ),
    "one rate twice": Refused("spec.workloads[0].load.requestRates[1]", {f"{_LOAD}.requestRates": ["4", "4"]}),
    "concurrency 0": Refused("spec.workloads[0].load.concurrencies[0]", {_LOAD: {"concurrencies": [0]}}),
    "one concurrency twice": Refused("spec.workloads[0].load.concurrencies[1]", {_LOAD: {"concurrencies": [8, 8]}}),
    "cap without rates": Refused(
        "spec.workloads[0].load",
        {_LOAD: {"concurrencies": [1], "maxConcurrency": 8}},
        "maxConcurrency caps requestRates; remove it",
    ),
    "burstiness without rates": Refused(
        "spec.workloads[0].load",
        {_LOAD: {"concurrencies": [1], "burstiness": "0.5"}},
        "burstiness shapes requestRates; remove it",
    ),
    "burstiness 0": Refused("spec.workloads[0].load.burstiness", {f"{_LOAD}.burstiness": "0"}, "must be above 0"),
    # how long a stage is
    "requests and durationSeconds": Refused(
        "spec.workloads[0]", {"workloads.0.durationSeconds": 60}, "must set exactly one of requests and durationSeconds"
    ),
    "neither requests nor durationSeconds": Refused(
        "spec.workloads[0]",
        {"workloads.0.requests": absent()},
        "must set exactly one of requests and durationSeconds",
    ),
    "durationSeconds with inf": Refused(
        "spec.workloads[0]",
        {"workloads.0.requests": absent(), "workloads.0.durationSeconds": 60, f"{_LOAD}.requestRates": ["1", "inf"]},
        "durationSeconds needs finite requestRates; use requests instead",
    ),
    "durationSeconds with concurrencies": Refused(
        "spec.workloads[0]",
        {"workloads.0.requests": absent(), "workloads.0.durationSeconds": 60, _LOAD: {"concurrencies": [4]}},
        "durationSeconds needs finite requestRates; use requests instead",
    ),
    "too many requests by duration": Refused(
        "spec.workloads[0]",
        {"workloads.0.requests": absent(), "workloads.0.durationSeconds": 501, f"{_LOAD}.requestRates": ["100"]},
        "rate x durationSeconds must be at most 50000 requests a stage",
    ),
    # how much a run sends
    "200,004 requests at a load point": Refused(
        "spec.workloads",
        {"workloads": [workload("a"), workload("b", requests=28_572)], "repeats": 7},
        "a load point takes up to 200004 requests (requests x repeats); the limit is 200000",
    ),
    "too many requests at a load point by duration": Refused(
        "spec.workloads",
        {"workloads": [lasting("a", 500, {"requestRates": ["2", "100"]})], "repeats": 5},
        "a load point takes up to 250000 requests (requests x repeats); the limit is 200000",
    ),
    "1,000,064 requests in all": Refused(
        "spec.workloads",
        {"workloads": [workload("a", requests=15_626, load={"requestRates": _POINTS_16})], "repeats": 4},
        "the run takes up to 1000064 requests in all (stages x requests); the limit is 1000000",
    ),
    "too many requests in all by duration": Refused(
        "spec.workloads",
        {
            "workloads": [lasting(f"w{n}", 500, {"requestRates": ["1", "99.5"]}) for n in range(5)],
            "repeats": 4,
        },
        "the run takes up to 1005000 requests in all (stages x requests); the limit is 1000000",
    ),
    "too many requests at a load point of a search": Refused(
        "spec.workloads",
        {"workloads": [workload("a", requests=25_001, load=searching(maxProbes=2, maxRepeats=8))], "objectives": _P90},
        "a load point takes up to 200008 requests (requests x repeats); the limit is 200000",
    ),
    "a search that may take too many requests": Refused(
        "spec.workloads",
        {
            "workloads": [lasting("a", 500, searching(to="50", maxProbes=14, maxRepeats=3))],
            "objectives": _P90,
        },
        "the run takes up to 1050000 requests in all (stages x requests); the limit is 1000000",
    ),
    # a search
    "search without objectives": Refused(
        "spec.objectives",
        {_LOAD: searching()},
        "load.search looks for the highest load that meets the objectives: set at least one",
    ),
    "search and rates": Refused(
        "spec.workloads[0].load",
        {f"{_LOAD}.search": searching()["search"], "objectives": _P90},
        "must set exactly one of requestRates, concurrencies, search, traceSpeeds and batchSizes",
    ),
    "search with repeats": Refused(
        "spec.repeats",
        {_LOAD: searching(), "objectives": _P90, "repeats": 2},
        "load.search decides itself how often a load is measured (maxRepeats); leave repeats at 1",
    ),
    "search from where it ends": Refused(
        "spec.workloads[0].load.search",
        {_LOAD: searching(to="1.0"), "objectives": _P90},
        "from must be below to",
    ),
    "search for half a user": Refused(
        "spec.workloads[0].load.search",
        {_LOAD: searching(axis="Concurrency", to="2.5"), "objectives": _P90},
        "from and to are whole numbers where the axis is Concurrency",
    ),
    "search for a million users": Refused(
        "spec.workloads[0].load.search",
        {_LOAD: searching(axis="Concurrency", to="1000000"), "objectives": _P90},
        "to must be at most 100000 where the axis is Concurrency",
    ),
    "search to a fraction of a percent": Refused(
        "spec.workloads[0].load.search.tolerancePercent",
        {_LOAD: searching(tolerancePercent="0.5"), "objectives": _P90},
        "must be between 1 and 100",
    ),
    "search from words": Refused(
        "spec.workloads[0].load.search.from", {_LOAD: searching(**{"from": "slow"}), "objectives": _P90}
    ),
    "search to everything at once": Refused(
        "spec.workloads[0].load.search.to", {_LOAD: searching(to="inf"), "objectives": _P90}
    ),
    "search with too few requests for its percentile": Refused(
        "spec.workloads", {_LOAD: searching(), "objectives": _P99, "workloads.0.requests": 368}, _TOO_FEW
    ),
    "search with too short stages for its percentile": Refused(
        "spec.workloads",
        {
            _LOAD: searching(**{"from": "2"}),
            "objectives": _P99,
            "workloads.0.requests": absent(),
            "workloads.0.durationSeconds": 184,
        },
        _TOO_FEW,
    ),
    "search for users by duration": Refused(
        "spec.workloads[0]",
        {
            _LOAD: searching(axis="Concurrency"),
            "objectives": _P90,
            "workloads.0.requests": absent(),
            "workloads.0.durationSeconds": 60,
        },
        "durationSeconds needs finite requestRates; use requests instead",
    ),
    "search with too many requests by duration": Refused(
        "spec.workloads[0]",
        {
            _LOAD: searching(to="100", maxProbes=2, maxRepeats=1),
            "objectives": _P90,
            "workloads.0.requests": absent(),
            "workloads.0.durationSeconds": 501,
        },
        "load.search.to x durationSeconds must be at most 50000 requests a stage",
    ),
    "searches that may take 66 load points": Refused(
        "spec.workloads",
        {
            "workloads": [workload(f"w{n}", load=searching(maxProbes=22, maxRepeats=1)) for n in range(3)],
            "objectives": _P90,
        },
        "workloads have 66 load points in all; the limit is 64",
    ),
    "a search that may take 264 stages": Refused(
        "spec.workloads",
        {
            "workloads": [workload("a", load=searching(maxProbes=32, maxRepeats=8)), workload("b", load=_POINTS_8)],
            "objectives": _P90,
        },
        "too many stages: a search may need maxProbes x maxRepeats; the limit is 256 over all workloads",
    ),
    # products
    "65 cells": Refused(
        "spec.workloads",
        {"workloads": [workload(f"w{n}", load={"requestRates": _POINTS_13}) for n in range(5)]},
        "workloads have 65 load points in all; the limit is 64",
    ),
    "101 repeats": Refused("spec.repeats", {"repeats": 101}),
    "300 stages": Refused(
        "spec.repeats",
        {
            "workloads": [workload("a", load={"requestRates": ["1"]}), workload("b", load={"concurrencies": [1, 2]})],
            "repeats": 100,
        },
        "3 load points x 100 repeats = 300 stages; the limit is 256",
    ),
    # measurement and objectives
    "percentile 100": Refused("spec.measurement.percentiles[0]", {"measurement": {"percentiles": ["100"]}}),
    "percentile 0": Refused(
        "spec.measurement.percentiles[0]", {"measurement": {"percentiles": ["0"]}}, "must be above 0"
    ),
    "percentile p99": Refused("spec.measurement.percentiles[0]", {"measurement": {"percentiles": ["p99"]}}),
    "one percentile in two spellings": Refused(
        "spec.measurement.percentiles",
        {"measurement": {"percentiles": ["99", "99.0"]}},
        "must differ from one another as numbers",
    ),
    "no percentile": Refused("spec.measurement.percentiles", {"measurement": {"percentiles": []}}),
    "objective on an unknown metric": Refused(
        "spec.objectives[0].metric", {"objectives": [{"metric": "Throughput", "maxMilliseconds": 1}]}
    ),
    "objective without limit": Refused("spec.objectives[0].maxMilliseconds", {"objectives": [{"metric": "TTFT"}]}),
    "percent of two points": Refused("spec.validity.maxFailedPercent", {"validity": {"maxFailedPercent": "1.2.3"}}),
    "101 percent": Refused(
        "spec.validity.maxFailedPercent", {"validity": {"maxFailedPercent": "101"}}, "must be at most 100"
    ),
    "cache policy unheard of": Refused("spec.measurement.cachePolicy", {"measurement": {"cachePolicy": "Warm"}}),
    "order unheard of": Refused("spec.measurement.order", {"measurement": {"order": "Random"}}),
    "reset of an endpoint that does not allow it": Refused(
        "spec.endpoint.allowCacheReset",
        {"server": absent(), "endpoint": {"url": "http://llm"}, "measurement": {"cachePolicy": "Reset"}},
        "measurement.cachePolicy Reset empties the prefix cache of a server that others may use: "
        "set endpoint.allowCacheReset: true to have it emptied, or cachePolicy: Isolate",
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
                {"name": "VLLM_SERVER_DEV_MODE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
            ],
        },
        _NEEDS_DEVELOPMENT_MODE,
    ),
    # cost
    "a price of nothing": Refused(
        "spec.cost", {"cost": {"currency": "EUR"}}, "must set exactly one of perGPUHour and perHour"
    ),
    "two prices": Refused(
        "spec.cost",
        {"cost": {"perGPUHour": "2.49", "perHour": "19.92"}},
        "must set exactly one of perGPUHour and perHour",
    ),
    "a price of 0": Refused("spec.cost.perHour", {"cost": {"perHour": "0.00"}}, "must be above 0"),
    "a price as a number": Refused("spec.cost.perHour", {"cost": {"perHour": 2}}),
    "a currency as a sign": Refused("spec.cost.currency", {"cost": {"perHour": "2", "currency": "$"}}),
    "the price of an endpoint's GPUs": Refused(
        "spec.cost",
        {"server": absent(), "endpoint": {"url": "http://llm"}, "cost": {"perGPUHour": "2.49"}},
        "the GPUs behind an endpoint are not known: set cost.perHour, the price of all its servers together",
    ),
    # baseline
    "baseline without a name": Refused("spec.baseline.name", {"baseline": {}}),
    "baseline in capitals": Refused("spec.baseline.name", {"baseline": {"name": "Before"}}),
    "baseline with a name that no run can have": Refused("spec.baseline.name", {"baseline": {"name": "b" * 41}}),
    "regression of 101 percent": Refused(
        "spec.baseline.maxRegressionPercent",
        {"baseline": {"name": "b", "maxRegressionPercent": "101"}},
        "must be at most 100",
    ),
    "regression as a number": Refused(
        "spec.baseline.maxRegressionPercent", {"baseline": {"name": "b", "maxRegressionPercent": 5}}
    ),
    "negative regression": Refused(
        "spec.baseline.maxRegressionPercent", {"baseline": {"name": "b", "maxRegressionPercent": "-5"}}
    ),
    "comparison of an unknown figure": Refused(
        "spec.baseline.metrics[0]", {"baseline": {"name": "b", "metrics": ["P99TTFT"]}}
    ),
    "comparison of no figure": Refused("spec.baseline.metrics", {"baseline": {"name": "b", "metrics": []}}),
    "comparison of one figure twice": Refused(
        "spec.baseline.metrics[1]", {"baseline": {"name": "b", "metrics": ["MeanTTFT", "MeanTTFT"]}}
    ),
    # model, server, endpoint
    "revision without hub": Refused(
        "spec.model",
        {"model": {"name": "m", "revision": "main", "source": {"path": {"path": "/m"}}}},
        "revision needs source hub; remove it",
    ),
    "relative model path": Refused("spec.model.source.path.path", {"model.source": {"path": {"path": "models"}}}),
    "absolute path within a claim": Refused(
        "spec.model.source.pvc.path", {"model.source": {"pvc": {"claimName": "models", "path": "/m"}}}
    ),
    "password in a URL": Refused(
        "spec.endpoint.url", {"server": absent(), "endpoint": {"url": "https://user:secret@llm.example.com"}}
    ),
    "URL of another scheme": Refused("spec.endpoint.url", {"server": absent(), "endpoint": {"url": "ftp://llm"}}),
    "port 0": Refused(
        "spec.endpoint.serviceRef.port", {"server": absent(), "endpoint": {"serviceRef": {"name": "s", "port": 0}}}
    ),
    "negative GPUs": Refused(
        "spec.server.resources.limits.nvidia.com/gpu", {"server.resources": {"limits": {"nvidia.com/gpu": -1}}}
    ),
    "quantity in words": Refused("spec.server.resources.limits.cpu", {"server.resources": {"limits": {"cpu": "two"}}}),
    "shared memory without unit": Refused("spec.server.sharedMemory", {"server.sharedMemory": "2000000"}),
}

ACCEPTED: dict[str, Spec] = {
    **{name: minimal({_FILE: dataset}) for name, dataset in ACCEPTED_DATASETS.items()},
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
        {_FILE: {"timedTrace": {"file": FILE}}, _LOAD: {"traceSpeeds": ["1", "2.5"]}}
    ),
    "three servers": minimal({"server.replicas": 3}),
    "servers over two nodes": minimal({"server.replicas": 2, "server.nodesPerReplica": 2}),
    "sixteen processes": minimal({"client.parallelism": 16}),
    "as many processes as needed": minimal({"client.parallelism": "Auto", _LOAD: {"concurrencies": [4000]}}),
    "as many as needed, which a search has one of": minimal(
        {"client.parallelism": "Auto", "objectives": _P90, _LOAD: searching()}
    ),
    "offline, all at once": minimal(_offline({"requestRates": ["inf"]})),
    "offline, batch by batch": minimal(_offline({"batchSizes": [1, 16]}) | {"workloads.0.api": "Chat"}),
    "minimal": minimal(),
    "model from the hub with a token": minimal({"model.source": {"hub": {"tokenSecretRef": {"name": "hf"}}}}),
    "model at a revision": minimal({"model.revision": "main"}),
    "model on a claim": minimal({"model.source": {"pvc": {"claimName": "models"}}}),
    "model in an artifact": minimal({"model.source": {"imageVolume": {"reference": "registry/model:1", "path": "m"}}}),
    "model in the images": minimal({"model.source": {"path": {"path": "/models/tiny"}}}),
    "service": minimal({"server": absent(), "endpoint": {"serviceRef": {"name": "llm"}}}),
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
    "everything at once": minimal({f"{_LOAD}.requestRates": ["inf"]}),
    "bursts under a cap": minimal({f"{_LOAD}.burstiness": "0.5", f"{_LOAD}.maxConcurrency": 64}),
    "users": minimal({_LOAD: {"concurrencies": [1, 8, 64]}}),
    "duration": minimal(
        {"workloads.0.requests": absent(), "workloads.0.durationSeconds": 500, f"{_LOAD}.requestRates": ["100"]}
    ),
    "conversations from a ConfigMap": minimal(
        {_FILE: {"shareGPT": {"file": {"configMap": {"name": "c", "key": "f.json"}}}}}
    ),
    "conversations from a claim": minimal(
        {_FILE: {"shareGPT": {"file": {"pvc": {"claimName": "c", "path": "d/f.json"}}, "outputTokens": 8}}}
    ),
    "conversations from a URL": minimal(
        {_FILE: {"shareGPT": {"file": {"url": "https://data.example.com/f.json?v=1"}}}}
    ),
    "no warm-up": minimal({"measurement": {"warmup": {"none": {}}}}),
    "shorter warm-up": minimal({"measurement": {"warmup": {"auto": {"maxSeconds": 5}}}}),
    "reset": minimal({"measurement": {"cachePolicy": "Reset"}, "server.env": [{"name": "A", "value": "0"}]}),
    "reset, with its variable": minimal(
        {"measurement": {"cachePolicy": "Reset"}, "server.env": [{"name": "VLLM_SERVER_DEV_MODE", "value": "1"}]}
    ),
    "reset of an endpoint that allows it": minimal(
        {
            "server": absent(),
            "endpoint": {"url": "http://llm", "allowCacheReset": True},
            "measurement": {"cachePolicy": "Reset"},
        }
    ),
    "isolated on an endpoint that would allow a reset": minimal(
        {"server": absent(), "endpoint": {"url": "http://llm", "allowCacheReset": True}}
    ),
    "development mode without a reset": minimal({"server.env": [{"name": "VLLM_SERVER_DEV_MODE", "value": "0"}]}),
    "shared prompts as listed": minimal({"measurement": {"cachePolicy": "Share", "order": "AsListed"}}),
    "fractions": minimal({"measurement": {"percentiles": ["0.5", "99.9"]}, "validity": {"maxFailedPercent": "0.1"}}),
    "objectives": minimal({"objectives": [{"metric": "ITL", "maxMilliseconds": 50, "percentile": "99.9"}]}),
    "price of a GPU": minimal({"cost": {"perGPUHour": "2.49"}}),
    "price of everything, in another currency": minimal({"cost": {"perHour": "0.096", "currency": "EUR"}}),
    "price of an endpoint": minimal(
        {"server": absent(), "endpoint": {"url": "http://llm"}, "cost": {"perHour": "98.32"}}
    ),
    "baseline": minimal({"baseline": {"name": "before"}}),
    "baseline with a limit and figures": minimal(
        {"baseline": {"name": "before", "maxRegressionPercent": "2.5", "metrics": ["TotalTokenThroughput", "MeanITL"]}}
    ),
    "search": minimal({_LOAD: searching(), "objectives": _P90}),
    "search with as many requests as its percentile takes": minimal(
        {_LOAD: searching(), "objectives": _P99, "workloads.0.requests": 369}
    ),
    "search of gaps between tokens, of which each request has many": minimal(
        {
            _LOAD: searching(),
            "objectives": [{"metric": "ITL", "maxMilliseconds": 50, "percentile": "99"}],
            "workloads.0.requests": 20,
        }
    ),
    "search by duration": minimal(
        {
            _LOAD: searching(**{"from": "2"}, tolerancePercent="2.5", maxProbes=20, maxRepeats=1),
            "objectives": _P99,
            "workloads.0.requests": absent(),
            "workloads.0.durationSeconds": 185,
        }
    ),
    "search for users beside listed rates": minimal(
        {
            "workloads": [
                workload("a", load=searching(axis="Concurrency", to="100000", maxProbes=32, maxRepeats=7)),
                workload("b", load={"requestRates": _POINTS_16}),
            ],
            "objectives": _P90,
        }
    ),
    "64 cells": minimal({"workloads": [workload(f"w{n}", load={"requestRates": _POINTS_16}) for n in range(4)]}),
    "as many requests as a load point may have, and a run": minimal(
        {"workloads": [workload("a", requests=50_000, load={"requestRates": ["1", "2", "3", "4", "5"]})], "repeats": 4}
    ),
    "256 stages": minimal(
        {"workloads": [workload(f"w{n}", load={"requestRates": _POINTS_16}) for n in range(4)], "repeats": 4}
    ),
    "a whole server": minimal(
        {
            "server.args": ["--max-model-len=4096", ""],
            "server.env": [
                {"name": "A", "value": ""},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "server.resources": {"limits": {"nvidia.com/gpu": 1, "memory": "6Gi"}, "requests": {"cpu": "0.5"}},
            "server.sharedMemory": "512Mi",
            "server.pod": {
                "nodeSelector": {"gpu": "h100"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "tolerationSeconds": 60}],
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
                },
                "volumes": [{"name": "cache", "emptyDir": {}}],
                "volumeMounts": [{"name": "cache", "mountPath": "/cache", "readOnly": True}],
                "securityContext": {"runAsUser": 1000},
                "imagePullSecrets": ["registry"],
            },
        }
    ),
}
