"""Real vLLM: four latencies with their percentiles, sixteen requests beside enough of them."""

import hashlib
import re

import pytest
from kit.examples import (
    LATENCIES,
    PERCENTILES,
    benchrun,
    example,
    finding,
    measured,
    rows,
)
from kit.kubectl import Namespace

pytestmark = pytest.mark.timeout(1800)

RUN = "BenchmarkRun"


def test_four_latencies_are_told_and_where_sixteen_requests_can_not_tell_them(
    namespace: Namespace,
) -> None:
    name = "e2-four-latencies-tiny"
    objects = example("e2-four-latencies-tiny.yaml")
    namespace.apply(*objects.values())
    status = measured(namespace, RUN, name, timeout_seconds=1200)
    found = rows(status)
    # A gap between chunks is none between tokens where a late server sends several at once: then
    # ITL is left out, and said to be.
    shown = {
        load_point: [
            name
            for name in LATENCIES
            if name != "itl" or "ChunksAreNotTokens" not in row["findings"]
        ]
        for load_point, row in found.items()
    }
    for load_point, row in found.items():
        for latency in shown[load_point]:
            p50, p95, p99 = (
                row["metrics"][f"p{percentile}_{latency}_ms"]
                for percentile in PERCENTILES
            )
            assert 0 < p50 <= p95 <= p99

    sixteen = found["sixteen/rate=8"]
    enough = found["enough/rate=8"]
    told = finding(status, "TooFewSamples")
    assert told["worstStage"] == "sixteen/rate=8"
    assert told["evidence"].items() >= {"percentile": "99", "needed": 500}.items()
    assert told["evidence"]["samples"] <= sixteen["metrics"]["completed"]
    assert "p99_ttft_ms" in sixteen["uncertain"]
    # How many of the other requests are independent, a busy machine decides: each percentile has an
    # interval, or is marked.
    every = {
        f"p{percentile}_{latency}_ms"
        for percentile in PERCENTILES
        for latency in shown["enough/rate=8"]
    }
    assert every <= {*enough.get("intervals", {}), *enough.get("uncertain", [])}

    (read,) = status["datasets"]
    assert (
        read["rowsRead"] > read["rowsUsed"] == sixteen["metrics"]["completed"] + 16
    )
    assert read["rowsDropped"] == {"TooLongForModel": 1}

    # One template for both sides, and a server that its command started: it serves the model that
    # was asked for.
    template = objects[name]["spec"]["chatTemplate"]["inline"]
    assert (
        status["client"]["chatTemplate"]
        == hashlib.sha256(template.encode()).hexdigest()
    )
    assert "WrongModel" not in {each["code"] for each in status["findings"]}
    (server,) = status["servers"]
    assert not {"serve", "--model", "/models/tiny"} & {*server["args"]}, (
        "the model is given by the command"
    )

    # What the server had for its KV cache, to be held against `benchrun kv-cache`.
    size = re.search(
        r"KV cache (\d+) tokens in ([0-9.]+) GiB a GPU",
        benchrun(namespace, "get", name).text,
    )
    assert size is not None
    assert int(size[1]) == server["kvCacheTokens"] > 0
    assert float(size[2]) * 2**30 == pytest.approx(
        int(server["reported"]["kv_cache_memory_bytes"]), rel=0.01
    )

    said = benchrun(namespace, "report", name, "--wide")
    figures = {row["load point"]: row for row in said.table("load point", "req/s")}
    assert figures["sixteen/rate=8"]["E2EL p99"].endswith("?")
    assert figures["enough/rate=8"]["E2EL p99"].endswith("?") == (
        "p99_e2el_ms" in enough.get("uncertain", [])
    )
    assert "? means: too few requests" in said.text
    # Whose setting each is; requests are not logged unless that is asked for.
    settings = {
        row["setting"]: (row["value"], row["side"])
        for row in said.table("setting", "value", "side", "field")
    }
    assert (settings["max-num-seqs"], settings["repeats"]) == (
        ("16", "server"),
        ("4", "client"),
    )
    assert settings["enable-log-requests"] == ("default", "server")
