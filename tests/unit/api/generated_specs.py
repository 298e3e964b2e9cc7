"""Specs whose fields each have the right type and bounds, and which keep or break rules.

The rules are those between fields.
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
_PATH: Json = {"path": "/data/rows"}


def mostly(usual: Any, rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw the usual value, and once in eight times one of the others."""
    return st.integers(0, 7).flatmap(lambda n: rare if n == 7 else st.just(usual))


def some_of(
    members: Mapping[str, st.SearchStrategy[Any]],
) -> st.SearchStrategy[Json]:
    """Draw an object with one of the members; once in eight times with any number of them."""
    one = st.sampled_from(sorted(members)).flatmap(
        lambda name: st.fixed_dictionaries({name: members[name]})
    )
    several = st.fixed_dictionaries({}, optional=dict(members))
    return st.integers(0, 7).flatmap(lambda n: several if n == 7 else one)


RATES = st.sampled_from(["1", "1.0", "4", "0.25", "100", "999999", "inf"])
DECIMALS = st.sampled_from(["0.5", "1", "2", "2.50", "64", "100000", "100001"])
WHOLE = st.sampled_from(["1", "2", "64", "100000", "100001", "1.5"])
FILES = some_of(
    {
        "configMap": st.just({"name": "c", "key": "k"}),
        "pvc": st.just({"claimName": "c", "path": "p"}),
        "url": st.just("https://data.example/rows"),
        "s3": st.just({"bucket": "data", "key": "k"}),
        "path": st.just("/data/rows"),
    }
)
MIXABLE: Mapping[str, st.SearchStrategy[Any]] = {
    "random": st.just({}),
    "prefixRepetition": st.just({"prefixes": 2}),
    "agent": some_of(
        {"staticPrefix": st.just({}), "dynamicPrefix": st.just({"variants": 2})}
    ),
    "shareGPT": st.fixed_dictionaries({"file": FILES}),
    "custom": st.fixed_dictionaries({"file": FILES}),
    "texts": st.fixed_dictionaries(
        {
            "file": st.just(_PATH),
            "column": st.just("review"),
            "textsPerPrompt": st.sampled_from([1, 100, 10_000]),
            "outputTokensPerText": st.sampled_from([1, 100, 101, 100_000]),
        }
    ),
    "huggingFace": st.just(
        {"repository": "openai/gsm8k", "column": "question", "outputTokens": 9}
    ),
}
DATASETS = mostly(
    {"random": {}},
    some_of(
        {
            **MIXABLE,
            "timedTrace": st.just({"file": _PATH}),
            "sessions": st.fixed_dictionaries(
                {"file": st.just(_PATH)},
                optional={
                    "format": st.sampled_from(["Turns", "Mooncake", "Weka"]),
                    "lengths": st.sampled_from(["Whole", "Added"]),
                    "blockTokens": st.sampled_from([1, 64]),
                },
            ),
            "mix": st.lists(
                st.sampled_from("wabc"), min_size=2, max_size=3, unique=True
            ).map(lambda names: [{"workload": name} for name in names]),
        }
    ),
)
SEARCHES = st.fixed_dictionaries(
    {
        "axis": st.sampled_from(["RequestRate", "Concurrency"]),
        "from": mostly("1", DECIMALS),
        "to": WHOLE,
    },
    optional={
        "tolerancePercent": st.sampled_from(["0.5", "1", "5", "100", "100.5"]),
        "maxProbes": st.sampled_from([1, 12, 32]),
        "maxRepeats": st.sampled_from([1, 3, 8]),
    },
)
_POINTS = [str(n) for n in range(1, 33)]
_LOADS: Mapping[str, st.SearchStrategy[Any]] = {
    "requestRates": st.sampled_from([["1", "4"], ["inf"], _POINTS])
    | st.lists(RATES, min_size=1, max_size=4, unique=True),
    "concurrencies": st.lists(
        st.integers(1, 512), min_size=1, max_size=4, unique=True
    ),
    "search": SEARCHES,
    "traceSpeeds": st.lists(
        st.sampled_from(["1", "1.0", "2"]), min_size=1, max_size=3, unique=True
    ),
    "sessions": st.lists(
        st.sampled_from([1, 8, 100_000]), min_size=1, max_size=3, unique=True
    ),
    "batchSizes": st.lists(
        st.sampled_from([1, 8, 50_000]), min_size=1, max_size=3, unique=True
    ),
}
LOADS = st.builds(
    lambda load, more: {**load, **more},
    _LOADS["requestRates"].map(lambda rates: {"requestRates": rates})
    | some_of(_LOADS),
    mostly(
        {}, some_of({"maxConcurrency": st.just(8), "burstiness": st.just("0.5")})
    ),
)
WORKLOADS = st.builds(
    lambda rest, length: {"name": "w", **rest, **length},
    st.fixed_dictionaries({"dataset": DATASETS, "load": LOADS}),
    st.fixed_dictionaries(
        {"requests": st.sampled_from([1, 36, 37, 368, 369, 50_000])}
    )
    | mostly(
        {"requests": 9},
        some_of(
            {
                "requests": st.just(9),
                "durationSeconds": st.sampled_from([1, 60, 500, 86_400]),
            }
        ),
    ),
)
_MODE = "VLLM_SERVER_DEV_MODE"
_VARIABLES = st.sampled_from(["A", _MODE]).flatmap(
    lambda name: some_of(
        {
            "value": st.sampled_from(["0", "1"]),
            "valueFrom": st.sampled_from(
                [
                    {"secretKeyRef": {"name": "s", "key": "k"}},
                    {"vault": {"key": "k"}},
                ]
            ),
        }
    ).map(lambda source: {"name": name, **source})
)
_STARTED = st.fixed_dictionaries(
    {"image": st.just("vllm:1")},
    optional={
        "env": st.lists(_VARIABLES, max_size=2, unique_by=lambda v: str(v["name"]))
    },
)
_ENDPOINTS = st.builds(
    lambda address, allowed: {**address, **allowed},
    some_of({"serviceRef": st.just({"name": "llm"}), "url": st.just("http://llm")}),
    st.sampled_from([{}, {"allowCacheReset": True}, {"allowCacheReset": False}]),
)
_MODELS = st.builds(
    lambda source, revision: {"name": "m", "source": source, **revision},
    some_of(
        {
            "hub": st.just({}),
            "pvc": st.just({"claimName": "c"}),
            "imageVolume": st.just({"reference": "r"}),
            "path": st.just({"path": "/m"}),
        }
    ),
    mostly({}, st.just({"revision": "main"})),
)
_MEASUREMENTS = st.fixed_dictionaries(
    {},
    optional={
        "cachePolicy": st.sampled_from(["Isolate", "Reset", "Share"]),
        "percentiles": mostly(
            ["50", "99"],
            st.lists(
                st.sampled_from(["99", "99.0", "0", "0.0"]), min_size=1, unique=True
            ),
        ),
        "warmup": some_of({"auto": st.just({}), "none": st.just({})}),
    },
)
_OBJECTIVES = st.lists(
    st.fixed_dictionaries(
        {
            "metric": st.sampled_from(["TTFT", "ITL"]),
            "maxMilliseconds": st.just(100),
        },
        optional={"percentile": st.sampled_from(["50", "90", "99", "99.9"])},
    ),
    max_size=2,
)


def _with_names(workloads: list[Json]) -> list[Json]:
    return [
        {**workload, "name": f"w{number}"}
        for number, workload in enumerate(workloads)
    ]


RUN_SPECS = st.builds(
    lambda target, rest: {**target, **rest},
    some_of({"server": _STARTED, "endpoint": _ENDPOINTS, "offline": _STARTED}),
    st.fixed_dictionaries(
        {
            "model": _MODELS,
            "workloads": st.lists(WORKLOADS, min_size=1, max_size=3).map(
                _with_names
            ),
        },
        optional={
            "repeats": st.sampled_from([1, 2, 8, 9, 100, "Auto", "Auto"]),
            "budget": st.sampled_from(
                [{"requests": 100}, {"requests": 5000, "seconds": 60}, {}]
            ),
            "widths": st.sampled_from([[], [{"metric": "TTFT", "percent": "5"}]]),
            "measurement": _MEASUREMENTS,
            "objectives": _OBJECTIVES,
            "client": st.fixed_dictionaries(
                {"parallelism": st.sampled_from([1, 1, 3, "Auto"])}
            ),
            "cost": some_of(
                {
                    "perGPUHour": st.sampled_from(["2.49", "0"]),
                    "perHour": st.just("0.5"),
                }
            ),
            "validity": st.fixed_dictionaries(
                {"maxFailedPercent": st.sampled_from(["0", "1", "100", "100.1"])}
            ),
            "suspend": st.booleans(),
            "cancel": st.booleans(),
            "ttlSecondsAfterFinished": st.just(60),
        },
    ),
)
"""Specs of runs. Most have one thing wrong with them, or none."""
EDITS: Mapping[str, Any] = {
    "model": {"name": "other"},
    "chatTemplate": {"inline": "{{ messages }}"},
    "server": {"image": "vllm:2"},
    "endpoint": {"url": "http://other"},
    "offline": {"image": "vllm:2"},
    "workloads": [
        {
            "name": "other",
            "dataset": {"random": {}},
            "load": {"concurrencies": [1]},
            "requests": 1,
        }
    ],
    "repeats": 3,
    "budget": {"requests": 5000},
    "widths": [{"metric": "TTFT", "percent": "5"}],
    "client": {"image": "client:2"},
    "measurement": {"seed": 7},
    "objectives": [{"metric": "E2EL", "maxMilliseconds": 1}],
    "baseline": {"name": "before"},
    "cost": {"perGPUHour": "2.49"},
    "validity": {"maxFailedPercent": "7"},
    "suspend": True,
    "cancel": True,
    "whenEvicted": "End",
    "pendingDeadlineSeconds": 61,
    "startupDeadlineSeconds": 61,
    "runDeadlineSeconds": 61,
    "ttlSecondsAfterFinished": 61,
}
"""Another value for each field of a run's spec."""
