"""`BenchmarkRun.status`: what the operator found, and the judgement that becomes a part of it.

A status is always under 100 kB; `truncated` names the lists that were cut.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

from benchrun_client.contract import Axis, FilesStart, FilesState, UserStartMode
from benchrun_client.engines import EngineName
from pydantic import Field, WithJsonSchema

from benchrun.api.base import ATOMIC, StatusModel, entries
from benchrun.api.comparison import (
    THROUGHPUTS,
    Comparison,
    CostStatus,
    ThroughputOf,
    are_of_whole_answers,
)
from benchrun.api.conditions import Conditions, ConditionStatus, Reason
from benchrun.api.price import Price
from benchrun.api.queueing import QueueStatus
from benchrun.api.server_figures import LimitKind, RoleFigures, WaitingReason
from benchrun.api.verdicts import Severity, Verdict


class Startup(StatusModel):
    """Parts of the time to ready, in seconds, one after the other. What is not known is absent."""

    pod_seconds: float | None = Field(
        None,
        description="From scheduled to the container's start, in whole seconds.",
    )
    image_pull_seconds: float | None = None
    """The part of podSeconds that was the image pull; 0 if the node had the image."""
    download_seconds: float | None = Field(
        None, description="Downloading weights, if it took half a second."
    )
    load_seconds: float | None = Field(
        None, description="Making the model and loading its weights."
    )
    compile_seconds: float | None = Field(None, description="torch.compile.")
    warm_up_seconds: float | None = None
    """The rest of the engine's initialisation: profiling, KV cache, graph capture, warm-up; and
    compiling if vLLM does not report it separately."""
    model: FilesStart | None = None
    """Whether the claim of model.source.hub.cacheClaim had the model before this run. Absent: there
    is no such claim."""
    compiled: FilesStart | None = None
    """Warm: all that was compiled came from the compileCacheClaim. Cold: it was compiled. Absent:
    there is no such claim, or the log does not say."""


Phase = Literal[
    "Pending",
    "Suspended",
    "Preparing",
    "WaitingForNode",
    "Starting",
    "WarmingUp",
    "Running",
    "Collecting",
    "Completed",
    "Failed",
    "Cancelled",
]
Metrics = Annotated[dict[str, float | None], Field(max_length=160)]
STEADY_REQUESTS = "sent"
"""Key of `results[].steady`: requests sent in the steady parts of all stages."""
Interval = Annotated[
    list[float], Field(min_length=2, max_length=2, json_schema_extra=ATOMIC)
]
Evidence = Annotated[
    float | str | None,
    WithJsonSchema(
        {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}
    ),
]
"""A number or a word; the API server has no type for that."""
Numbers = Annotated[dict[str, Evidence], Field(max_length=12)]
MAX_FINDINGS = 128
"""Room for every code there is, and for the rules of the user's own."""
Codes = Annotated[
    list[Annotated[str, Field(max_length=60)]],
    Field(max_length=MAX_FINDINGS, json_schema_extra=ATOMIC),
]
StatusText = Annotated[str, Field(max_length=1024)]
MAX_ADDRESSES = 32
"""Most addresses of a role: of all its pods, and of as many pods that were replaced while they
loaded."""
Instant = Annotated[
    str, Field(max_length=32, json_schema_extra={"format": "date-time"})
]


class Estimate(StatusModel):
    """Stages, requests and GPU time, known as soon as the run is accepted."""

    stages: int = Field(
        description="Stages: load points x repeats; of a search or Auto the most there can be."
    )
    requests: int = Field(
        description="Measured requests in all; of a search or Auto the most there can be."
    )
    gpu_seconds: int | None = None
    """Least GPU time of the measurement, without start-up; absent if no load has a rate."""


# Kept of a run's compilations; of a server with more there is no entry.
MAX_COMPILATIONS = 300


class CompiledKernels(StatusModel):
    """Kernels that the server compiled while it served, by its log; absent without the log."""

    count: int = Field(description="Number of compilations.")
    at: list[float] = entries(MAX_COMPILATIONS, "Their times, in Unix seconds.")


MAX_DEFAULTS = (
    24  # Entries of `defaults`; the last one stands for those that found no room.
)
Defaults = Annotated[
    dict[str, Annotated[str, Field(max_length=253)]],
    Field(default_factory=dict, max_length=MAX_DEFAULTS),
]


class ServerStatus(StatusModel):
    """The servers of one role, as they really ran."""

    role: str = Field(
        max_length=20,
        description="Role of these servers: server; or prefill, decode and proxy.",
    )
    engine: EngineName = Field(description="Engine of the run's servers.")
    ready: bool = Field(
        False, description="Whether the server answered a health check."
    )
    pod: str | None = Field(None, max_length=253, description="Name of the pod.")
    node: str | None = Field(None, max_length=253, description="Node it ran on.")
    addresses: list[Annotated[str, Field(max_length=64)]] = entries(MAX_ADDRESSES)
    """IP addresses of the pods that answered in this role, replaced pods last. Requests to other
    addresses give the finding WrongServer."""
    gpu: str | None = Field(None, max_length=253)
    """GPU model, if server.pod.nodeSelector names it; else gpuReason is set."""
    gpu_reason: str | None = Field(
        None, max_length=253, description="Why the GPU model is not known."
    )
    replicas: int = Field(
        1,
        description="Servers of this role. Other values are those of the first one, or sums.",
    )
    gpus: int = Field(0, description="GPUs of all servers of this role together.")
    image: str | None = Field(
        None, max_length=1024, description="Image in the spec."
    )
    image_digest: str | None = Field(
        None, max_length=1024, description="Image that really ran."
    )
    version: str | None = Field(
        None, max_length=100, description="The engine's version, from the server."
    )
    kv_cache_tokens: int | None = Field(
        None, description="Tokens the KV cache holds, from the server."
    )
    args: list[Annotated[str, Field(max_length=4096)]] = entries(
        140, "Arguments the server was started with."
    )
    reported: dict[str, Annotated[str, Field(max_length=253)]] = Field(
        default_factory=dict, max_length=60
    )
    """Settings the server reports of itself (vLLM's cache_config_info, llama.cpp's /props, the
    log)."""
    defaults: Defaults
    """What the platform's defaults (the chart's runs) set in these pods beside the spec."""
    seconds_to_ready: float | None = Field(
        None, description="From scheduled to healthy."
    )
    no_gpu_telemetry_reason: str | None = Field(None, max_length=253)
    """Why power, memory and clocks of its GPUs are not known although the operator is set up to
    read them."""
    compilations: CompiledKernels | None = None
    startup: Startup | None = Field(
        None, description="Where the time to ready went, for the first server."
    )
    restarts: int = Field(
        0, description="Restarts seen, of all servers of this role."
    )


def total_gpus(servers: Iterable[ServerStatus]) -> int:
    """Return the number of GPUs of all roles together.

    0: there are none, or they are not known, as behind an endpoint.
    """
    return sum(server.gpus for server in servers)


class ClientStatus(StatusModel):
    """The client that generated the load; figures of different clients are not comparable."""

    image: str | None = Field(
        None, max_length=1024, description="Image in the spec."
    )
    image_digest: str | None = Field(
        None, max_length=1024, description="Image that really ran."
    )
    release: str | None = Field(
        None,
        max_length=60,
        description="Release of benchrun that the client is of; absent: not known.",
    )
    engine: str | None = Field(
        None, max_length=60, description="Name of the load engine."
    )
    engine_version: str | None = Field(
        None, max_length=60, description="Version of the load engine."
    )
    shards: int | None = Field(
        None,
        description="Processes that sent each load (client.parallelism); absent: one.",
    )
    chat_template: str | None = Field(
        None, max_length=64, description="SHA-256 of spec.chatTemplate."
    )
    commit: str | None = Field(
        None,
        max_length=40,
        description="Commit of the tokenizer's repository on the hub.",
    )
    defaults: Defaults
    """What the platform's defaults (the chart's runs) set in the client's pods beside the spec."""


class ModelStatus(StatusModel):
    """The model's files on the claim of model.source.hub.cacheClaim."""

    state: FilesState
    """Resolving: the hub is asked for the commit. Waiting: another run downloads it."""
    commit: str | None = Field(
        None, max_length=40, description="Commit that the servers are started with."
    )
    start: FilesStart | None = None
    """Warm: the claim already had the commit. Cold: the run waited for its download."""
    done_bytes: int = Field(0, description="Bytes that are there.")
    total_bytes: int = Field(0, description="Bytes of the commit; 0: not known.")
    problem: str | None = Field(
        None, max_length=300, description="Why the download is tried again."
    )
    completed_time: Instant | None = Field(
        None, description="When every file was there."
    )

    @property
    def in_words(self) -> str:
        """Return how far the claim is filled, for a sentence."""
        if self.problem is not None:
            return f"the download is tried again ({self.problem})"
        if self.state == "Waiting":
            return "another run downloads the model to this claim"
        if self.state == "Downloading" and self.total_bytes:
            done = f"{self.done_bytes / 1e9:.1f} of {self.total_bytes / 1e9:.1f} GB"
            return f"{done} of the model are downloaded"
        return "the hub is asked for the model's commit"


class Progress(StatusModel):
    """How far the measurement is."""

    stages_total: int = Field(
        description="Stages planned; while a search or Auto goes on the most there can be."
    )
    stages_done: int = Field(0, description="Stages whose record is stored.")
    stage: str | None = Field(None, max_length=160, description="Stage under way.")
    summary: str = Field(
        "",
        max_length=40,
        description="Done and total as text, for a printer column.",
    )


class Live(StatusModel):
    """Latest figures of the servers, while the run goes on."""

    at: Instant = Field(description="When they were read.")
    running: float | None = Field(
        None, description="Requests running, in all servers."
    )
    waiting: float | None = Field(
        None, description="Requests waiting, in all servers."
    )
    kv_cache_percent: float | None = Field(
        None, description="KV cache in use in the fullest server, in percent."
    )
    generation_tokens_per_second: float | None = Field(
        None, description="Output tokens a second."
    )
    prompt_tokens_per_second: float | None = Field(
        None, description="Prompt tokens a second."
    )
    preemptions: float | None = Field(
        None, description="Preemptions since the server started."
    )


class Headline(StatusModel):
    """The figures of the printer columns, from the first workload's best load point.

    This is the best Valid one, else the best Suspect one, marked with question marks. The best has
    the highest output throughput; among load points within 3 % of it, the lowest p99 TTFT. Load
    points that meet every objective are preferred.
    """

    load_point: str = Field(max_length=160, description="Which load point it is.")
    throughput: str = Field(max_length=40)
    """Output tokens a second, of embeddings those of the prompts; with a question mark if the load
    point is Suspect."""
    p99_ttft: str = Field(max_length=40)
    """99th percentile of TTFT, of embeddings of E2EL, in milliseconds. It has a question mark if
    there are too few requests to bound it, or if the load point is Suspect. It includes the wait in
    the client's queue if a cap may have held requests back."""


class Waiting(StatusModel):
    """Why requests waited in the server."""

    reason: WaitingReason = Field(description="None: hardly any requests waited.")
    sentence: StatusText = Field(description="The reason with its numbers.")
    evidence: Numbers = Field(
        default_factory=dict, description="The numbers of the sentence."
    )


class Bottleneck(StatusModel):
    """What limits the throughput: in a word, in a sentence and in numbers."""

    limit: LimitKind = Field(description="None: the server kept up.")
    sentence: StatusText = Field(description="The limit with its numbers.")
    evidence: Numbers = Field(
        default_factory=dict, description="The numbers of the sentence."
    )


class Explanation(StatusModel):
    """The answer to a question that people ask of a load point."""

    question: Literal[
        "TrueRun", "Beginnings", "AnswerLength", "MaxModelLen", "StepTokens"
    ]
    """TrueRun: which repeat to use. Beginnings: which prompts were sent before. AnswerLength: why
    answers are short. MaxModelLen: whether max-model-len holds requests back. StepTokens: whether
    max-num-batched-tokens split a prompt."""
    answer: Literal[
        "PrefixCache",
        "Compilation",
        "Noise",
        "SentBefore",
        "TestRequest",
        "NewPrompts",
        "StopToken",
        "TokenLimit",
        "OneRequest",
        "NoneSplit",
        "Unknown",
    ]
    """Noise: the difference may be chance. TestRequest: only prompt 1 was sent before. OneRequest:
    max-model-len limits each request, not their sum. NoneSplit: no prompt is longer than a step."""
    sentence: StatusText = Field(description="The answer with its numbers.")
    evidence: Numbers = Field(
        default_factory=dict, description="The numbers of the sentence."
    )


ProfileLimit = Literal["Compute", "Memory", "Host", "Unknown"]


class ProfileStatus(StatusModel):
    """The bottleneck that the profile shows, by a rule of thumb."""

    limit: ProfileLimit = Field(description="Unknown: not certain.")
    sentence: StatusText = Field(
        description="Why it is the limit, or why there is no profile."
    )
    evidence: Numbers = Field(
        default_factory=dict, description="The numbers of the sentence."
    )
    kernels: Annotated[dict[str, float], Field(max_length=12)] = Field(
        default_factory=dict
    )
    """Percent of the time of all kernels, by kernel; on a CPU, by operator."""


class ObjectiveResult(StatusModel):
    """One objective at one load point."""

    metric: str = Field(
        max_length=10, description="TTFT, TPOT, ITL, E2EL, TTFRT or TTFAT."
    )
    percentile: str = Field(max_length=10, description="Percentile of the metric.")
    max_milliseconds: int = Field(description="The limit.")
    measured_milliseconds: float | None = None
    """What was measured; absent if nothing was, or if the percentile falls among failed requests.
    Under a rate and for traces, TTFT and E2EL count from when a request was due, so they include
    any wait in the client."""
    price: Price | None = None
    """What deciding it would take; absent if it is decided, or if that is not known."""
    outcome: Literal["Met", "Missed", "Inconclusive"]
    """Met or Missed: with 95 % certainty, for this server in these minutes; a failed request is
    above every limit. Inconclusive: the limit lies within the interval, or is too close to a value
    that was measured in one stretch of time (within a factor of 1.5), or the stage is too short, or
    its numbers can't be trusted."""


class WidthResult(StatusModel):
    """How wide the interval of a percentile is whose width the spec asks for."""

    metric: str = Field(max_length=10, description="The latency.")
    percentile: str = Field(max_length=10, description="Percentile of the metric.")
    percent: str = Field(max_length=24, description="The width asked for.")
    measured_percent: float | None = None
    """How far the farther end lies from the percentile, in percent; absent without an interval."""
    reached: bool = Field(
        False, description="Whether it is as narrow as asked for."
    )


class Result(StatusModel):
    """One load point: a workload at one load, its repeats pooled."""

    load_point: str = Field(
        max_length=160,
        description="Workload and load point, for example chat/rate=4.",
    )
    workload: str = Field(max_length=40, description="Name of the workload.")
    axis: Axis = Field(description="What was varied.")
    value: str = Field(
        max_length=24,
        description="Requests a second (a decimal, or inf), or users.",
    )
    repeats: int = Field(description="Stages pooled.")
    repeats_planned: int = Field(description="Stages planned.")
    metrics: Metrics = Field(default_factory=dict)
    """Figures of whole stages under vLLM's own names, as vllm bench serve prints them, with five
    significant digits. With spec.cost also cost_per_million_output_tokens and
    cost_per_million_total_tokens; if the power of GPUs is known, output_tokens_per_joule."""
    intervals: Annotated[dict[str, Interval], Field(max_length=96)] = Field(
        default_factory=dict
    )
    """95 % intervals of percentiles of the steady part, in milliseconds, for this server in these
    minutes. They take into account that requests in a queue are alike."""
    uncertain: Codes = Field(default_factory=list)
    """Percentiles not to rely on: there are too few requests, or the stages are too short."""
    prices: Annotated[dict[str, Price], Field(max_length=96)] = Field(
        default_factory=dict
    )
    """What it would take to rely on these percentiles, where that is known."""
    steady: Metrics = Field(default_factory=dict)
    """The figures of the steady part: without the ramp at the start and the drain at the end.
    Tables, objectives, intervals and comparisons use these. Its seconds and requests are duration
    and sent; without sent some stage has no steady part, and latencies are of that whole stage.
    Under a rate without a cap, and for traces, latencies count from when requests were due."""
    throughput_of: ThroughputOf | None = None
    """Which throughput is compared, priced and shown. Plateau: the one in `steady`. Arrivals: the
    same, but it is not compared, since the request rate sets it. Stage, or absent: the one in
    `metrics`."""
    repeat_cv_percent: Annotated[dict[str, float], Field(max_length=16)] = Field(
        default_factory=dict
    )
    """Coefficient of variation of the repeats, by figure: the noise within one server."""
    user_start: UserStartMode | None = None
    """How the users of a closed loop began. Spread: over one expected round. Together: at once, in
    some repeat at least. Absent without users."""
    traffic: str | None = Field(
        None,
        max_length=80,
        description="Digest of all prompts: equal digests, equal traffic.",
    )
    sampling: str | None = Field(None, max_length=120)
    """How tokens were chosen: greedy, or the settings sent; absent: not known."""
    waiting: Waiting | None = Field(
        None, description="Why requests waited in the server."
    )
    bottleneck: Bottleneck | None = Field(
        None, description="The bottleneck of this load point."
    )
    explanations: list[Explanation] = entries(
        8,
        "Answers to questions about this load point, one entry a question.",
        key="question",
    )
    by_repeat: Annotated[
        dict[
            str,
            Annotated[list[float], Field(max_length=256, json_schema_extra=ATOMIC)],
        ],
        Field(max_length=16),
    ] = Field(default_factory=dict)
    """Figures of each repeat, in order. sequence: the repeat's place among all stages."""
    roles: list[RoleFigures] = entries(
        8, "What the servers' metrics endpoints reported meanwhile.", key="role"
    )
    objectives: list[ObjectiveResult] = entries(
        16, "The outcome of each objective at this load point."
    )
    widths: list[WidthResult] = entries(
        16, "The intervals whose width the spec asks for."
    )
    verdict: Verdict = Field(description="Whether these numbers can be trusted.")
    findings: Codes = Field(default_factory=list)
    """Codes of the findings at this load point; status.findings explains them."""

    @property
    def has_plateau(self) -> bool:
        """Return whether the throughput is taken from the steady part."""
        return (
            self.throughput_of in ("Plateau", "Arrivals")
            and THROUGHPUTS[0] in self.steady
        )

    @property
    def is_steady(self) -> bool:
        """Return whether every stage has a steady part, which latencies are of."""
        return STEADY_REQUESTS in self.steady

    def has_steady(self, key: str) -> bool:
        """Return whether `steady` has the figure that counts: see `has_plateau` for throughputs."""
        return key in self.steady and (self.has_plateau or key not in THROUGHPUTS)

    def figure(self, key: str) -> float | None:
        """Return a figure by its key in `metrics`: of the steady part if it has this figure.

        None if there is no such figure.
        """
        return self.steady[key] if self.has_steady(key) else self.metrics.get(key)

    @property
    def has_whole_answers(self) -> bool:
        """Return whether answers came as a whole and have no tokens (embeddings)."""
        return are_of_whole_answers(self.metrics, self.steady)

    @property
    def objectives_outcome(self) -> Literal["Met", "Missed", "Inconclusive"]:
        """Return the outcome of all objectives together."""
        outcomes = {objective.outcome for objective in self.objectives}
        if "Missed" in outcomes:
            return "Missed"
        return "Met" if outcomes == {"Met"} else "Inconclusive"


class DatasetStatus(StatusModel):
    """Data that was read for a workload, and how much of it was left out."""

    name: str = Field(
        max_length=60,
        description="Name of the workload; in a mix with the dataset's position, from 0.",
    )
    source: str = Field(
        max_length=160,
        description="The file, as the client calls it; the end of a long name.",
    )
    sha256: str = Field(
        max_length=64,
        description="Digest of its content: equal digests are equal data.",
    )
    rows_read: int = Field(description="Rows, lines or entries of the file.")
    rows_used: int = Field(
        description="Rows that this workload took, its warm-up included."
    )
    rows_dropped: Annotated[dict[str, int], Field(max_length=8)] = Field(
        default_factory=dict
    )
    """Rows that could not be used, by reason; only rows that the client checked are counted."""


class SearchResult(StatusModel):
    """The result of one search.

    Its bounds come from the judged load points, not from the client's own conclusion.
    """

    workload: str = Field(max_length=40, description="Name of the workload.")
    axis: Axis = Field(description="What was varied.")
    outcome: Literal[
        "Bracketed",
        "AtUpperBound",
        "NoneMet",
        "ProbeLimit",
        "Inconclusive",
        "Incomplete",
    ]
    """Bracketed: found, to the spec's tolerance. AtUpperBound: the search's highest load meets the
    objectives. NoneMet: not even the lowest load certainly meets them. ProbeLimit: maxProbes ended
    the search. Inconclusive: the bracket is wide, since load points within it are invalid or
    inconclusive, or no load was confirmed, or a confirmation contradicts an earlier stage.
    Incomplete: the search did not come to its end, or a record is missing."""
    lower: str | None = Field(None, max_length=24)
    """Highest load that met every objective in stages that confirmed it. The chance that it misses
    them is at most 2.5 %, over all that the search tried."""
    upper: str | None = Field(None, max_length=24)
    """Lowest load above `lower` that is not known to meet them; absent if the highest load does."""
    upper_outcome: Literal["Missed", "Inconclusive"] | None = None
    """Missed: an objective is missed there with 95 % certainty. Inconclusive: that is not certain,
    or the numbers there can't be trusted (too many requests failed, say)."""
    resolution_percent: float | None = Field(
        None, description="How far upper is above lower, in percent of lower."
    )
    probes: int = Field(description="Load points measured, confirmations included.")
    stages: int = Field(description="Stages measured.")
    sentence: StatusText = Field(description="The answer in a sentence.")


class UntilDecided(StatusModel):
    """What `repeats: Auto` decided, and what that took."""

    outcome: Literal["Decided", "BudgetEnded", "NotValid", "Incomplete"]
    """Decided: every objective is Met or Missed and every width is reached, at every load point.
    BudgetEnded: not at those that are `undecided`. NotValid: nor there, but the numbers of none of
    these can be trusted. Incomplete: the run ended before, or a record is missing."""
    undecided: Annotated[
        list[Annotated[str, Field(max_length=160)]],
        Field(max_length=16, json_schema_extra=ATOMIC),
    ] = Field(default_factory=list)
    """The first load points at which something is not decided."""
    stages: int = Field(description="Stages measured.")
    requests: int = Field(description="Requests sent in them.")
    requests_saved: int = Field(
        description="Requests of the most that it could take."
    )
    seconds: float = Field(description="From the first request to the last answer.")
    gpu_seconds: float | None = Field(
        None, description="The same times the GPUs; absent without any."
    )
    sentence: StatusText = Field(description="The answer in a sentence.")


class Finding(StatusModel):
    """Something wrong, or worth knowing, that a rule found in the run."""

    code: str = Field(
        max_length=60,
        description="Stable name of the rule that found it; see `benchrun explain CODE`.",
    )
    severity: Severity = Field(
        description="Invalid: the number is wrong. Suspect: it may be. Note: worth knowing."
    )
    default_severity: Severity | None = Field(
        None, description="Severity before validity.severities changed it."
    )
    count: int = Field(description="Stages it was found in.")
    worst_stage: str = Field(
        max_length=160, description="The stage where it is most marked."
    )
    evidence: Annotated[dict[str, Evidence], Field(max_length=24)] = Field(
        default_factory=dict
    )
    """The figures behind the finding, from worstStage."""
    sentence: StatusText = Field(
        description="The figures in words, as they were evaluated."
    )
    meaning: StatusText = Field("", description="What it does to the numbers.")
    remedy: StatusText = Field("", description="What to change.")


class Judge(StatusModel):
    """The rules that judged the run."""

    version: str = Field(max_length=40, description="Version of the rules.")
    thresholds_digest: str = Field(
        max_length=80, description="Digest of the thresholds of the rules."
    )
    overrides: list[Annotated[str, Field(max_length=80)]] = entries(32)
    """Severities that the spec changed, as code=severity."""


class EndingStatus(StatusModel):
    """Why the run ends early; absent once it has ended."""

    reason: str = Field(max_length=128, description="In one stable word.")
    message: StatusText = Field("", description="In a sentence.")


class Blocked(StatusModel):
    """What the run waits for within a time limit; absent while there is nothing."""

    by: Literal["Node", "Refusal", "Records"]
    """Node: no node can take a pod. Refusal: an object or a pod is refused. Records: records are
    refused."""
    since: Instant = Field(description="When it was first seen.")


class Truncated(StatusModel):
    """A list that was cut, and by how much."""

    field: str = Field(max_length=60, description="The list that was cut.")
    total: int = Field(description="Entries of the whole list.")
    included: int = Field(description="Entries that were kept.")


class ResultDocumentRef(StatusModel):
    """The ConfigMap with the run's result document."""

    config_map: str = Field(max_length=63, description="Its name.")
    sha256: str = Field(
        max_length=64, description="SHA-256 of the document, packed."
    )
    bytes: int = Field(description="Its size, packed.")


class RunInstants(StatusModel):
    """The times of the main events of a run, from acceptance to the release of the server."""

    accepted_time: Instant | None = Field(
        None, description="When the operator accepted the spec."
    )
    start_time: Instant | None = Field(None, description="First measured request.")
    scheduled_time: Instant | None = Field(
        None, description="When the server got its node."
    )
    server_ready_time: Instant | None = Field(
        None, description="First healthy answer of the server."
    )
    server_released_time: Instant | None = Field(
        None, description="When the deletion of the server was requested."
    )


class BenchmarkRunStatus(RunInstants):
    """What the operator found."""

    observed_generation: int = Field(
        -1, description="Generation of the spec this status is about; -1: none yet."
    )
    phase: Phase | None = Field(
        None,
        description="Current phase, for people; programs read the conditions.",
    )
    conditions: Conditions = Field(
        (), description="Observations about the run, one a type."
    )
    message: StatusText | None = Field(
        None, description="What the run waits for, or why it ended; in a sentence."
    )
    answer: str | None = Field(None, max_length=64)
    """Objectives (Met, Missed, Undecided), then the baseline's gate (NotRegressed, Regressed,
    Undecided; with one server a side NotRegressedHere, RegressedHere)."""
    completion_time: Instant | None = Field(
        None, description="When the run ended, in whatever way."
    )
    ending: EndingStatus | None = None
    blocked: Blocked | None = None
    queue: QueueStatus | None = None
    estimate: Estimate | None = Field(None, description="How large the run is.")
    servers: list[ServerStatus] = entries(
        8, "The servers, one entry a role.", key="role"
    )
    client: ClientStatus | None = None
    model: ModelStatus | None = None
    datasets: list[DatasetStatus] = entries(16, key="name")
    """What the prompts were made of, if a file or the hub was read."""
    cost: CostStatus | None = None
    progress: Progress | None = Field(
        None, description="How far the measurement is."
    )
    live: Live | None = Field(
        None, description="Latest figures of the servers, while the run goes on."
    )
    headline: Headline | None = None
    results: list[Result] = entries(
        64, "The numbers, one entry a load point.", key="loadPoint"
    )
    searches: list[SearchResult] = entries(16, key="workload")
    """The highest load that met the objectives, one entry a workload with load.search."""
    until_decided: UntilDecided | None = None
    profile: ProfileStatus | None = Field(
        None, description="The result of measurement.profile."
    )
    findings: list[Finding] = entries(
        MAX_FINDINGS,
        "What was found wrong with the measurement, one entry a code.",
        key="code",
    )
    verdict: Verdict | None = None
    """The worst verdict of all load points; of a search only the load that it found counts."""
    judge: Judge | None = Field(None, description="The rules that judged the run.")
    judge_attempts: int | None = None
    """Judgements begun by operators that did not see the measurement begin. Their number is
    limited, since judging may be what ends these operators. Absent once the run has ended."""
    comparison: Comparison | None = Field(
        None, description="Comparison with the baseline."
    )
    results_ref: str | None = Field(None, max_length=253)
    """Label selector of the ConfigMaps with the records."""
    result_document: ResultDocumentRef | None = None
    """Where everything that was found is stored uncut; absent where it could not be stored."""
    log_tail: str | None = Field(
        None,
        max_length=8192,
        description="Last lines of the server's log when it failed.",
    )
    truncated: list[Truncated] = entries(
        20, "Lists above that were cut to keep this object small.", key="field"
    )

    def judged(self, found: "Judgement") -> "BenchmarkRunStatus":
        """Return the status with the results of a judgement; the caller sets `truncated`."""
        return self.model_copy(
            update={
                "client": found.client,
                "cost": found.cost,
                "datasets": found.datasets,
                "results": found.results,
                "searches": found.searches,
                "until_decided": found.until_decided,
                "findings": found.findings,
                "verdict": found.verdict,
                "headline": found.headline,
                "judge": found.judge,
                "comparison": found.comparison,
                "profile": found.profile,
            }
        )


MAX_REFUSED = 16  # Refusals kept as text; all are counted.
MAX_REFUSED_CHARS = 300

_Text = Annotated[str, Field(max_length=4096)]


class Judgement(StatusModel):
    """A run as it was judged. The defaults are for a run in which nothing was measured."""

    results: list[Result] = entries(64)
    searches: list[SearchResult] = entries(16)
    until_decided: UntilDecided | None = None
    findings: list[Finding] = entries(MAX_FINDINGS)
    verdict: Verdict = "Unknown"
    headline: Headline | None = None
    profile: ProfileStatus | None = None
    judge: Judge | None = None
    cost: CostStatus | None = None
    datasets: list[DatasetStatus] = entries(16)
    client: ClientStatus | None = None
    """The client of the judge's job, with engine, version and shards; None if nothing was
    measured."""
    comparison: Comparison | None = None
    not_regressed: ConditionStatus | None = None
    """Status of the condition NotRegressed, whose message is that of the comparison; None if
    nothing was compared."""
    not_regressed_reason: _Text = ""
    # None if the spec has no objectives.
    objectives_met: ConditionStatus | None = None
    # Message of the condition: which were not met, and where.
    objectives_message: _Text = ""
    valid_reason: str = Field(Reason.INVALID_LOAD_POINTS, max_length=128)
    """Reason of the condition Valid, for a run that was measured to its end."""
    message: _Text = ""  # Message of a run that was measured to its end.
    # In all stages: the run has failed, though it was measured to its end.
    all_requests_failed: bool = False
    diagnostic: Annotated[str, Field(max_length=1000)] | None = None
    """The server's answer to one more request, sent if every request of a stage failed."""
    measured_anything: bool = False  # Whether there is one record at least.
    truncated: list[Truncated] = entries(20)
    refused: list[Annotated[str, Field(max_length=MAX_REFUSED_CHARS)]] = entries(
        MAX_REFUSED
    )
    """The first records or timeline parts that were left out because they can't be read or have a
    wrong digest."""
    refused_count: int = 0  # How many.
    duration_seconds: float = 0.0  # What judging took.
