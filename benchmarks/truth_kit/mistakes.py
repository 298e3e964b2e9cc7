"""Every mistake of the judge's table, injected one at a time, and what the judge must say of it.

Where a mistake brings others with it (a throttled client is saturated too), only the named ones are
asked for. Clean twins are measured in the same minutes: a finding that they have, too, is the
host's, and shows nothing.
"""

from collections.abc import Mapping
from typing import Any

from benchrun.api import SEVERITIES, Code, Severity

from truth_kit.lab import Experiment
from truth_kit.physical import Standstill

STEADY = ("--sim-ttft-ms=20", "--sim-tpot-ms=5")


def open_loop(
    rate: str = "20", seconds: float = 11, *, tokens: int = 24, **changes: Any
) -> Mapping[str, Any]:
    """Build a workload with arrivals at a rate, long enough to be no mistake itself."""
    return {
        "name": "chat",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": tokens}},
        "load": {"requestRates": [rate]},
        "requests": int(float(rate) * seconds),
        **changes,
    }


def users(
    count: int = 8, requests: int = 640, *, tokens: int = 24, **changes: Any
) -> Mapping[str, Any]:
    """Build a workload of users who send again and again."""
    return {
        "name": "chat",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": tokens}},
        "load": {"concurrencies": [count]},
        "requests": requests,
        **changes,
    }


def _mistake(
    name: str, expected: Mapping[str, Severity], *flags: str, **changes: Any
) -> Experiment:
    """Build a clean open loop with these server flags and changed fields."""
    values: dict[str, Any] = {
        "workloads": [open_loop()],
        "servers": ((*STEADY, *flags),),
        "expected": expected,
    }
    return Experiment(name=name, **(values | changes))


def _sharing(**changes: Any) -> Mapping[str, Any]:
    """Build an open loop with prompts so long that their repetition shows in the prefix cache."""
    return {
        **open_loop(),
        "dataset": {"random": {"inputTokens": 512, "outputTokens": 24}},
        **changes,
    }


TWINS = (
    Experiment(name="clean open loop", workloads=[open_loop()], servers=(STEADY,)),
    Experiment(name="clean users", workloads=[users()], servers=(STEADY,)),
)


def counting_codes(
    codes: Mapping[str, Severity], *twins: Mapping[str, Severity]
) -> frozenset[str]:
    """Return the codes of severity Suspect and Invalid that no clean twin has as severely."""
    return frozenset(
        code
        for code, severity in codes.items()
        if all(
            SEVERITIES.index(severity) > SEVERITIES.index(twin.get(code, "Note"))
            for twin in twins
        )
    )


MISTAKES: tuple[Experiment, ...] = (
    _mistake(
        "every request fails",
        {Code.ALL_REQUESTS_FAILED: "Invalid"},
        "--sim-error-percent=99.9",
    ),
    _mistake(
        "a twentieth fails",
        {Code.REQUESTS_FAILED: "Invalid"},
        "--sim-error-percent=5",
    ),
    _mistake(
        "429 for some",
        {Code.REQUESTS_REJECTED: "Suspect"},
        "--sim-reject-percent=0.9",
    ),
    _mistake(
        "admission limit",
        {Code.REQUESTS_REJECTED: "Suspect"},
        "--max-num-queued-reqs=3",
    ),
    _mistake(
        "restart",
        {Code.SERVER_RESTARTED: "Invalid"},
        "--sim-restart-look-at-request=100",
    ),
    _mistake(
        "counters fall",
        {Code.COUNTERS_RESET: "Invalid"},
        "--sim-counters-fall-at-request=100",
    ),
    _mistake(
        "the same prompts twice",
        {Code.PREFIX_CACHE_CONTAMINATED: "Invalid"},
        workloads=[_sharing()],
        repeats=2,
        measurement={"cachePolicy": "Share"},
    ),
    _mistake(
        "a few foreign cache hits",
        {Code.PREFIX_CACHE_CONTAMINATED: "Suspect"},
        "--sim-foreign-hits-percent=5",
        workloads=[_sharing()],
    ),
    _mistake(
        "a reset that is refused",
        {Code.CACHE_RESET_FAILED: "Suspect"},
        "--sim-reset-fails=100000",
        measurement={"cachePolicy": "Reset"},
        environment={"VLLM_SERVER_DEV_MODE": "1"},
        allow_reset=True,
    ),
    _mistake(
        "answers a tenth short",
        {Code.OUTPUT_TOO_SHORT: "Suspect"},
        "--sim-output-percent=90",
    ),
    _mistake(
        "end of sequence",
        {Code.OUTPUT_TOO_SHORT: "Invalid"},
        "--sim-early-stop-after-tokens=8",
        workloads=[open_loop(ignoreEOS=False)],
    ),
    _mistake(
        "streams that break off",
        {Code.STREAM_TRUNCATED: "Invalid"},
        "--sim-drop-end-percent=3",
    ),
    _mistake(
        "usage is wrong",
        {Code.TOKEN_COUNTS_DISAGREE: "Suspect"},
        "--sim-usage-percent=96",
    ),
    _mistake(
        "four tokens a chunk",
        {Code.CHUNKS_ARE_NOT_TOKENS: "Note"},
        "--stream-interval=4",
    ),
    _mistake(
        "a client with a tenth of a core",
        {Code.CLIENT_THROTTLED: "Suspect", Code.CLIENT_SATURATED: "Invalid"},
        workloads=[open_loop("60", 12)],
        client_cpu_share=0.10,
    ),
    _mistake(
        "a rate that the client can't send",
        {Code.RATE_NOT_ACHIEVED: "Invalid"},
        workloads=[open_loop("400", 12, tokens=2)],
        client_cpu_share=0.08,
        about_seconds=90,
    ),
    _mistake(
        "a client that stands still as the last requests are due",
        {Code.RATE_NOT_ACHIEVED: "Suspect"},
        # The gaps are even: the last request is due 10.95 s after the first, and leaves 0.75 s
        # late.
        workloads=[open_loop(load={"requestRates": ["20"], "burstiness": "1000"})],
        client_stopped=Standstill(10.6, 11.7),
    ),
    _mistake("a slow way", {Code.PATH_SLOW: "Suspect"}, "--sim-way-ms=8"),
    _mistake(
        "more streams than a process carries",
        {Code.CLIENT_SATURATED: "Invalid"},
        *("--sim-ttft-ms=60", "--sim-tpot-ms=50", "--max-num-seqs=1024"),
        workloads=[users(1000, 3000, tokens=64)],
        about_seconds=40,
        servers_ahead=True,  # Otherwise the server waits for a core and is the slower one.
    ),
    _mistake(
        "fewer requests than users",
        {Code.CONCURRENCY_NOT_REACHED: "Suspect"},
        workloads=[users(64, 48)],
    ),
    _mistake(
        "compiling",
        {Code.COMPILATION_IN_WINDOW: "Suspect"},
        "--sim-jit-at-request=100",
        "--sim-jit-ms=300",
    ),
    _mistake(
        "a cold start",
        {Code.COLD_START: "Suspect"},
        "--sim-cold-requests=5",
        "--sim-cold-ms=400",
    ),
    _mistake(
        "many preemptions",
        {Code.PREEMPTED: "Suspect"},
        "--sim-kv-tokens=1024",
        "--max-model-len=1024",
        workloads=[users(16, 640, tokens=48)],
    ),
    _mistake(
        "a single preemption",
        {Code.PREEMPTED: "Note"},
        "--sim-preempt-at-request=100",
    ),
    _mistake(
        "a warm-up that is cut short",
        {Code.WARMUP_INCOMPLETE: "Note"},
        workloads=[open_loop("5", 12, tokens=400)],
        measurement={"warmup": {"auto": {"maxSeconds": 1}}},
    ),
    _mistake(
        "somebody else's requests",
        {Code.FOREIGN_TRAFFIC: "Invalid"},
        "--sim-foreign-rate=2",
    ),
    _mistake(
        "unequal replicas",
        {Code.REPLICAS_UNEQUAL: "Invalid"},
        servers=(STEADY, (*STEADY, "--sim-version=0.31.0")),
    ),
    _mistake(
        "one replica gets everything",
        {Code.LOAD_UNEVEN: "Suspect"},
        servers=(STEADY, STEADY),
    ),
    _mistake(
        "half of the scrapes fail",
        {Code.SCRAPE_COVERAGE_LOW: "Note"},
        "--sim-metrics-fail-percent=50",
    ),
    _mistake(
        "gauges that lie",
        {Code.LITTLES_LAW_BROKEN: "Suspect"},
        "--sim-gauges-percent=50",
        workloads=[users(12, 900)],
    ),
    _mistake(
        "three seconds",
        {Code.WINDOW_TOO_SHORT: "Suspect"},
        workloads=[open_loop(seconds=3)],
    ),
    _mistake(
        "too few requests for the users",
        {Code.WINDOW_TOO_SHORT: "Suspect"},
        workloads=[users(64, 500)],
    ),
    _mistake("p99 of 220", {Code.TOO_FEW_SAMPLES: "Note"}),
    _mistake(
        "arrivals beyond capacity",
        {Code.NOT_STEADY_STATE: "Suspect"},
        "--max-num-seqs=2",
        workloads=[open_loop("30", 14)],
        evidence={"cause": "arrivals beyond capacity"},
    ),
    _mistake(
        "a server that slows down",
        {Code.NOT_STEADY_STATE: "Suspect"},
        "--sim-slowdown-percent-per-second=8",
        workloads=[users(8, 560)],
    ),
    _mistake(
        "repeats that disagree",
        {Code.REPEATS_DISAGREE: "Suspect"},
        "--sim-alternate-requests=220",
        "--sim-alternate-percent=40",
        repeats=4,
        about_seconds=50,
        # What waiting for a core adds to some repeats may well hide their differences.
        client_ahead=True,
        servers_ahead=True,
    ),
    _mistake(
        "drift over the run",
        {Code.DRIFT: "Suspect"},
        "--sim-drift-percent=12",
        repeats=6,
        about_seconds=70,
        # What waiting for a core adds to some repeats may well hide their order.
        client_ahead=True,
        servers_ahead=True,
    ),
    _mistake(
        "a cap under an open loop",
        {Code.QUEUE_WAIT_HIDDEN: "Note"},
        workloads=[open_loop(load={"requestRates": ["20"], "maxConcurrency": 3})],
    ),
    _mistake(
        "all at once",
        {Code.ALL_AT_ONCE: "Note"},
        "--max-num-seqs=8",
        workloads=[open_loop(load={"requestRates": ["inf"]}, requests=700)],
    ),
    _mistake(
        "no counters at all", {Code.NOT_CHECKED: "Note"}, "--sim-metrics=none"
    ),
)
"""One experiment per mistake. A missing record and an answer without tokens are not included: they
need no server, and unit tests cover them."""
