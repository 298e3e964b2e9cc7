"""Wrong conclusions that people have published, each as an experiment beside a clean twin.

An exhibit's server misbehaves as that of its thread did, or its load has the mistake of the thread,
at a size that is like the thread's own. Its twin has neither. Threads were read as they are stored
publicly; what they say is told in our words.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchrun.api import Code, Severity
from truth_kit.lab import Experiment, Outcome
from truth_kit.mistakes import STEADY, open_loop, users

LONG = {"random": {"inputTokens": 512, "outputTokens": 24}}
"""Prompts so long that their repetition shows in the prefix cache."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """An incident: what was told, how it is replayed, and what a tool must say of it."""

    thread: str  # As GitHub's: owner/name#number.
    told: str  # What was concluded or printed, with its figures.
    replay: str  # What of it is replayed.
    wrong: Experiment
    clean: Experiment
    names: Mapping[str, Severity] = field(default_factory=dict)
    """Findings any of which names the incident, with the least severity that counts."""
    is_prevented: Callable[[Outcome, Outcome], bool] | None = None
    """Whether the figure that was wrong in the thread is right here; None: it may be wrong."""
    by_default: str = ""
    """Why it does not happen unless somebody asks for it; empty: it may happen to anybody."""


def _exhibit(
    thread: str,
    told: str,
    replay: str,
    names: Mapping[str, Severity],
    *flags: str,
    by_default: str = "",
    is_prevented: Callable[[Outcome, Outcome], bool] | None = None,
    also: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Exhibit:
    """Build an exhibit that differs from its twin in these flags and fields of its experiment.

    `also` has fields of both.
    """
    fields: dict[str, Any] = {
        "workloads": [open_loop()],
        "servers": (STEADY,),
        "client_ahead": True,
        "servers_ahead": True,
        **(also or {}),
    }
    clean = Experiment(name=f"{thread} twin", **fields)
    changed = {
        "servers": tuple((*each, *flags) for each in clean.servers),
        **changes,
    }
    wrong = replace(clean, name=thread, **changed)
    return Exhibit(
        thread, told, replay, wrong, clean, names, is_prevented, by_default
    )


def _thinks(wrong: Outcome, clean: Outcome) -> bool:
    """Return whether TTFT is that of the first token, also where that is one of reasoning."""
    shown, usual = (
        each.judged.results[0].metrics.get("mean_ttft_ms")
        for each in (wrong, clean)
    )
    return (
        shown is not None and usual is not None and abs(shown - usual) < 0.5 * usual
    )


_CACHE: Mapping[str, Severity] = {Code.PREFIX_CACHE_CONTAMINATED: "Suspect"}
_FAILED: Mapping[str, Severity] = {
    Code.REQUESTS_FAILED: "Invalid",
    Code.ALL_REQUESTS_FAILED: "Invalid",
}
_REFUSED: Mapping[str, Severity] = {
    Code.REQUESTS_REJECTED: "Suspect",
    **_FAILED,
}
_SHORT: Mapping[str, Severity] = {Code.OUTPUT_TOO_SHORT: "Suspect"}
_ISOLATED = "cachePolicy Isolate, the default, sends no prompt twice"
_SEVERAL = {"workloads": [{**users(4, 320), "dataset": LONG}]}
_CLIENT: Mapping[str, Severity] = {
    Code.CLIENT_SATURATED: "Suspect",
    Code.CLIENT_THROTTLED: "Suspect",
}

EXHIBITS: tuple[Exhibit, ...] = (
    # ---- The prefix cache
    _exhibit(
        "vllm-project/vllm#52884",
        "A ladder of loads by hand, each with the default seed: up to 86 % more throughput",
        "The same prompts are sent to one server twice",
        _CACHE,
        by_default=_ISOLATED,
        also={"workloads": [{**open_loop(), "dataset": LONG}], "repeats": 2},
        measurement={"cachePolicy": "Share"},
    ),
    _exhibit(
        "vllm-project/vllm#54227",
        "A sweep with one seed on one server: mean TTFT 49 times lower, throughput 2.32 times "
        "higher, unevenly over the sweep",
        "A sweep of users on one server, each with the prompts of the one before",
        _CACHE,
        by_default=_ISOLATED,
        also={
            "workloads": [
                {
                    **users(4, 320),
                    "dataset": LONG,
                    "load": {"concurrencies": [4, 8]},
                }
            ]
        },
        measurement={"cachePolicy": "Share", "order": "AsListed"},
    ),
    _exhibit(
        "pegainfer-project/pegainfer#697",
        "A fixed seed for all points of a sweep: each cell depends on the order of points",
        "A sweep of rates in which later points repeat the prompts of earlier ones",
        _CACHE,
        by_default=_ISOLATED,
        also={
            "workloads": [
                {
                    **open_loop("20"),
                    "dataset": LONG,
                    "load": {"requestRates": ["18", "20"]},
                }
            ]
        },
        measurement={"cachePolicy": "Share", "order": "AsListed"},
    ),
    _exhibit(
        "vllm-project/vllm#10753",
        "All prompts were identical: 152 requests a second where 96 are true",
        "Of every prompt all but its last block is found in the cache",
        _CACHE,
        "--sim-foreign-hits-percent=96",
        by_default="random prompts don't share their beginnings",
        also={"workloads": [{**open_loop(), "dataset": LONG}]},
    ),
    _exhibit(
        "vllm-project/vllm#20083",
        "Prompts were cut to their common prefix: 98 % of their tokens came from the cache",
        "98 % of every prompt is found in the cache",
        _CACHE,
        "--sim-foreign-hits-percent=98",
        by_default="random prompts have no common prefix; prefixRepetition states how long it is",
        also={"workloads": [{**users(), "dataset": LONG}]},
    ),
    _exhibit(
        "kubernetes-sigs/inference-perf#340",
        "Workers with one seed sent the same random prompts: 92.9 % hits where none were expected",
        "93 % of every prompt is found in the cache",
        _CACHE,
        "--sim-foreign-hits-percent=93",
        by_default="each process of the client sends prompts of its own",
        also=_SEVERAL,
    ),
    _exhibit(
        "SemiAnalysisAI/InferenceX#1127",
        "One script of a public comparison lacked --no-enable-prefix-caching: short common "
        "beginnings made it look faster",
        "A twentieth of every prompt is found in the cache",
        _CACHE,
        "--sim-foreign-hits-percent=5",
        also={"workloads": [{**open_loop(), "dataset": LONG}]},
    ),
    # ---- The client, and what it calls a token
    _exhibit(
        "SemiAnalysisAI/InferenceX#2685",
        "A stream interval of 100 folded short answers into one update: published points were "
        "measured again with 20",
        "The server sends 100 tokens a chunk",
        {Code.CHUNKS_ARE_NOT_TOKENS: "Note"},
        "--stream-interval=100",
        also={"workloads": [open_loop("8", 12, tokens=100)]},
    ),
    _exhibit(
        "SemiAnalysisAI/InferenceX#2686",
        "The same on another GPU, which was measured again with updates of 20 tokens",
        "The server sends 20 tokens a chunk",
        {Code.CHUNKS_ARE_NOT_TOKENS: "Note"},
        "--stream-interval=20",
        also={"workloads": [open_loop("8", 12, tokens=100)]},
    ),
    _exhibit(
        "vllm-project/vllm#42661",
        "The gap between chunks of several tokens was printed as the time between two tokens",
        "The server sends four tokens a chunk",
        {Code.CHUNKS_ARE_NOT_TOKENS: "Note"},
        "--stream-interval=4",
    ),
    _exhibit(
        "vllm-project/vllm#27485",
        "Parsers of reasoning and tools hold tokens back: ITL is that of chunks, too high",
        "Chats in which two tokens leave together",
        {Code.CHUNKS_ARE_NOT_TOKENS: "Note"},
        "--stream-interval=2",
        also={"workloads": [open_loop(api="Chat")]},
    ),
    _exhibit(
        "sgl-project/sglang#23949",
        "TTFT of models that think was printed as 0",
        "Chats whose answers begin with 12 tokens of reasoning",
        {},
        "--sim-reasoning-tokens=12",
        is_prevented=_thinks,
        also={"workloads": [open_loop(api="Chat")]},
    ),
    _exhibit(
        "vllm-project/vllm#54101",
        "Under --max-concurrency the wait in the client was in no latency: p99 508 ms for 3,330 ms",
        "Arrivals at a rate under a cap that holds them back",
        {Code.QUEUE_WAIT_HIDDEN: "Note"},
        workloads=[open_loop(load={"requestRates": ["20"], "maxConcurrency": 3})],
    ),
    _exhibit(
        "vllm-project/vllm#39963",
        "Beyond 50,000 tokens of prompt the client itself was the limit: 44 tokens a second for "
        "486, TTFT 134 s for 1.3 s",
        "A client that gets a tenth of a core",
        _CLIENT,
        also={"workloads": [open_loop("60", 12)]},
        client_cpu_share=0.10,
    ),
    _exhibit(
        "kubernetes-sigs/inference-perf#648",
        "Tokenizing blocked the client: 15 to 20 requests in flight for 80 to 320, 1.47 a second",
        "A client that can't send the rate asked for",
        {Code.RATE_NOT_ACHIEVED: "Suspect", **_CLIENT},
        also={"workloads": [open_loop("120", 12, tokens=2)]},
        client_cpu_share=0.08,
        about_seconds=60,
    ),
    _exhibit(
        "ai-dynamo/aiperf#1424",
        "With a slower CPU for the client TTFT nearly doubled, while the server's own did not move",
        "A client that gets a seventh of a core",
        _CLIENT,
        also={"workloads": [users(16, 800)]},
        client_cpu_share=0.14,
    ),
    _exhibit(
        "ai-dynamo/aiperf#850",
        "2.09 ms of path were more than the differences that were compared",
        "A path of 2.09 ms to a server with a TTFT of 20 ms",
        {Code.PATH_SLOW: "Suspect"},
        "--sim-way-ms=2.09",
    ),
    _exhibit(
        "llm-d/llm-d-router#1109",
        "More than a second of TTFT arose before the engine, on the way through the router",
        "Each request costs 30 ms of CPU before the engine sees it",
        {Code.FRONTEND_SATURATED: "Suspect", Code.CLIENT_SERVER_GAP: "Suspect"},
        "--sim-frontend-ms=30",
    ),
    # ---- The load
    _exhibit(
        "aarora79/agentic-coding-harness-benchmarks#32",
        "TTFT fell with load, from 248 s to 138 s: what was measured was a server with a backlog",
        "Arrivals beyond what the server can do",
        {Code.NOT_STEADY_STATE: "Suspect"},
        "--max-num-seqs=2",
        also={"workloads": [open_loop("30", 14)]},
    ),
    _exhibit(
        "ai-dynamo/dynamo#5287",
        "TTFT depends on how many requests a test has: 50 for ten users, 500 for a hundred",
        "50 requests for ten users",
        {
            Code.CONCURRENCY_NOT_REACHED: "Suspect",
            Code.WINDOW_TOO_SHORT: "Suspect",
        },
        also={"workloads": [users(10, 900)]},
        workloads=[users(10, 50)],
    ),
    _exhibit(
        "vllm-project/vllm#4252",
        "All requests at once to a server that takes one at a time: TTFT is the place in the queue",
        "All requests at once to a server that takes eight",
        {Code.ALL_AT_ONCE: "Note"},
        "--max-num-seqs=8",
        workloads=[open_loop(load={"requestRates": ["inf"]}, requests=700)],
    ),
    _exhibit(
        "sgl-project/sglang#8285",
        "The same test five times: TTFT of 2.5, 1.7, 1.7, 11.7 and 47.6 s",
        "Four repeats, two of them 40 % slower",
        {Code.REPEATS_DISAGREE: "Suspect"},
        "--sim-alternate-requests=220",
        "--sim-alternate-percent=40",
        also={
            "repeats": 4,
            "about_seconds": 50,
        },
    ),
    # ---- Failures
    _exhibit(
        "ome-projects/ome#781",
        "Every request got 404, and the benchmark was Completed",
        "Every request but one in a thousand fails",
        {Code.ALL_REQUESTS_FAILED: "Invalid"},
        "--sim-error-percent=99.9",
    ),
    _exhibit(
        "mlcommons/endpoints#144",
        "20,999 of 24,576 requests failed, and the results said failed: 0",
        "85 % of the requests fail",
        _FAILED,
        "--sim-error-percent=85",
    ),
    _exhibit(
        "vllm-project/guidellm#444",
        "Some failed requests lowered the throughput and raised TTFT and ITL",
        "A twentieth of the requests fails",
        _FAILED,
        "--sim-error-percent=5",
    ),
    _exhibit(
        "gpustack/gpustack#1677",
        "Requests that got 503 were counted as successful",
        "A fifth of the requests is refused, outside of the server",
        _REFUSED,
        "--sim-reject-percent=20",
    ),
    _exhibit(
        "SemiAnalysisAI/InferenceX#357",
        "A server that refuses requests under load looks better than one that takes them",
        "A server that refuses what would wait",
        _REFUSED,
        "--max-num-queued-reqs=3",
    ),
    # ---- Cold servers
    _exhibit(
        "NVIDIA/aicr#1096",
        "Graphs were captured within the test: a p99 TTFT of 42 s, and 772 tokens a second",
        "The first five requests wait 2 s more",
        {Code.COLD_START: "Suspect"},
        "--sim-cold-requests=5",
        "--sim-cold-ms=2000",
        by_default="a warm-up goes before the first stage unless it is turned off",
    ),
    _exhibit(
        "aws-samples/aws-do-eks#88",
        "Ten users of a cold engine: the first ten TTFTs are 40 to 58 s, all others 0.6 to 1.4 s",
        "The first wave of ten users waits 2 s more",
        {Code.COLD_START: "Suspect"},
        "--sim-cold-requests=10",
        "--sim-cold-ms=2000",
        by_default="a warm-up goes before the first stage unless it is turned off",
        also={"workloads": [users(10, 900)]},
    ),
    _exhibit(
        "ai-dynamo/aisimulate#287",
        "One prompt as a warm-up leaves other lengths to be compiled within the test: mean TTFT "
        "582 ms for 202",
        "The engine compiles for 300 ms in the middle of the test",
        {Code.COMPILATION_IN_WINDOW: "Suspect"},
        "--sim-jit-at-request=100",
        "--sim-jit-ms=300",
    ),
    _exhibit(
        "vllm-project/vllm#43078",
        "A regression of 5 % in tests of 3 s was a longer warm-up",
        "A test of three seconds",
        {Code.WINDOW_TOO_SHORT: "Suspect"},
        workloads=[open_loop(seconds=3)],
    ),
    # ---- Other answers than those compared
    _exhibit(
        "tenstorrent/vllm#344",
        "ignore_eos was sent and not obeyed",
        "The server ends answers at the eighth token of 24",
        _SHORT,
        "--sim-ignore-ignore-eos",
        "--sim-early-stop-after-tokens=8",
    ),
    _exhibit(
        "vllm-project/vllm#9349",
        "ignore_eos was sent with the first prompt only: answers of compared servers differed",
        "Requests without ignore_eos, to a server that ends them early",
        _SHORT,
        "--sim-early-stop-after-tokens=8",
        by_default="random prompts are sent with ignore_eos",
        workloads=[open_loop(ignoreEOS=False)],
    ),
)
