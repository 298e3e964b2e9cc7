"""What a run tells of its server beside vLLM's figures: where the start went, what the GPUs did,
what tokens cost.

The exporter is a small web server with a page in the form of NVIDIA's; the operator has rights in
one namespace alone."""

from collections.abc import Iterator

import pytest
from kit.installed import installed_for
from kit.kubectl import RUN, Namespace, Object
from kit.runs import (
    SIMULATOR_IMAGE,
    children_selector,
    condition,
    finished,
    phase,
    simulated_run,
)
from unit.measure.gpu_pages import Gpu, gpu_page

LOAD_SECONDS = 2.0
WATTS = 250
MILLIJOULES = "196764132"
"""Of a page; the exporter replaces it by what GPUs of so many watts have drawn."""
RENEWED = f"""python3 -m http.server 9400 --directory /tmp &
while sleep 1; do
  test -f /tmp/page && sed "s/{MILLIJOULES}/$(($(date +%s%3N) * {WATTS}))/" /tmp/page > /tmp/new && mv /tmp/new /tmp/metrics
done"""
EXPORTER: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "exporter", "labels": {"app": "nvidia-dcgm-exporter"}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "exporter",
                "image": SIMULATOR_IMAGE,
                "command": ["sh", "-c", RENEWED],
            }
        ],
    },
}
SERVED = {
    "name": "chat",
    "dataset": {"random": {"inputTokens": 64, "outputTokens": 64}},
    "load": {"concurrencies": [2]},
    "requests": 60,
}
"""Two at a time, 64 tokens at 15 ms each: half a minute."""


@pytest.fixture
def team(operator: Namespace, namespace: Namespace) -> Iterator[Namespace]:
    """A namespace with an exporter, and an operator that reads it, while the one for the whole
    cluster is away."""
    namespace.apply(EXPORTER)
    namespace.kubectl(
        "wait", "pod/exporter", "--for=condition=Ready", "--timeout=60s"
    )
    values = f"gpuTelemetry.enabled=true,gpuTelemetry.namespace={namespace.name}"
    with installed_for(namespace, values):
        yield namespace


def put_page(namespace: Namespace, text: str) -> None:
    """What the exporter serves from now on, in one piece, and renews every second."""
    write = "cat > /tmp/written && mv /tmp/written /tmp/page"
    namespace.kubectl(
        "exec", "exporter", "--stdin", "--", "sh", "-c", write, stdin=text
    )


@pytest.mark.timeout(400)
def test_the_start_the_gpus_and_the_cost_stand_in_the_result(
    team: Namespace,
) -> None:
    args = (
        f"--sim-load-seconds={LOAD_SECONDS}",
        "--sim-ttft-ms=20",
        "--sim-tpot-ms=15",
    )
    team.apply(
        simulated_run(
            "told",
            args=args,
            workloads=[SERVED],
            cost={"perGPUHour": "3.60", "currency": "EUR"},
        )
    )
    run = team.wait_for(
        RUN,
        "told",
        lambda r: phase(r) in ("Starting", "WarmingUp", "Running"),
        timeout_seconds=120,
        what="a server",
    )
    [server] = team.list(
        "pods", selector=f"{children_selector(run)},benchrun.dev/role=server"
    )
    held = Gpu(
        pod=server["metadata"]["name"],
        namespace=team.name,
        millijoules=int(MILLIJOULES),
    )
    put_page(team, gpu_page(held, Gpu(number=1, pod="another", watts=700.0)))

    run = finished(team, "told", timeout_seconds=200)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    [told] = run["status"]["servers"]
    [row] = run["status"]["results"]
    start = told["startup"]
    assert LOAD_SECONDS <= start["loadSeconds"] < LOAD_SECONDS + 1
    assert start["imagePullSeconds"] == 0, "the image was loaded into the cluster"
    assert (
        0 <= start["podSeconds"] <= told["secondsToReady"] - LOAD_SECONDS + 1
    )  # whole seconds

    assert "noGPUTelemetryReason" not in told
    [role] = row["roles"]
    assert (role["gpuMemoryMaxMib"], role["smClockMeanMhz"]) == (71_234, 1980)
    # Each end is seen up to a second late, of 20 s or more.
    assert role["gpuPowerMeanWatts"] == pytest.approx(WATTS, rel=0.1)
    figures = row["metrics"]
    steady = row["steady"]
    assert figures["output_tokens_per_joule"] == pytest.approx(
        steady["output_throughput"] / WATTS, rel=0.15
    )

    assert run["status"]["cost"] == {"currency": "EUR", "perHour": 3.6}
    assert row["throughputOf"] == "Plateau"
    assert figures["cost_per_million_output_tokens"] == pytest.approx(
        0.001 / steady["output_throughput"] * 1e6, rel=1e-3
    )
