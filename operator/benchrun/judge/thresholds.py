"""The thresholds of all rules, with their reasons.

The status of a run has the digest of its thresholds.
"""

import hashlib
import json
from dataclasses import asdict, dataclass

from benchrun.api import BenchmarkRunSpec, Judge

JUDGE_VERSION = (
    "1"  # Grows when a rule changes its meaning; a change of a number shows in the digest.
)


PROFILE_HOST_PERCENT = 50.0
"""Of the profiled time, without a kernel: then what starts kernels takes longer than they do. These
are of no rule: a profile is not judged, and no figure depends on it."""
PROFILE_STEP_TOKENS = {"GPU": (128, 256), "CPU": (16, 64)}
"""Up to the first memory is the limit, from the second on compute; between them neither is said.
Operations a byte that a GPU is built for, with dense 16-bit matrices: 153 (A100), 203 (T4), 295
(H100), by their data sheets. A CPU: some 10, which is 20 tokens with weights of 32 bits, and up to
60 with matrix units."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every number that a rule compares with."""

    max_failed_percent: float = 1.0
    """Failed requests, which are the slow ones, are in no latency: above 1 % a p99 can be wrong by
    its width. Set by the spec."""
    prefix_hits_suspect_percent: float = (
        1.0  # Up to 1 % is chance: short common beginnings, a canary sent twice.
    )
    prefix_hits_invalid_percent: float = 10.0
    """With a tenth of the prompt tokens not computed, TTFT and throughput measure the cache as much
    as the model."""
    output_suspect_percent: float = 95.0
    """Of the expected tokens. Without an end of sequence it is 100 %; one answer in twenty may be
    short before the load differs."""
    output_invalid_percent: float = 80.0
    """With a fifth missing, E2EL and throughput are those of another workload. A count that is
    guessed from the text errs by less."""
    stopped_suspect_percent: float = 5.0
    """Of the answers, at a stop token though lengths are fixed: with more, the shortest 5 % of E2EL
    are theirs."""
    aborted_suspect_percent: float = 0.5
    """As of truncated answers: the client may count such a request as answered, with figures that
    are too small."""
    prompt_tokens_suspect_percent: float = 1.0
    """Prefill takes time in proportion to its tokens: below 1 % it moves no TTFT by more than
    repeats do."""
    in_step_note_percent: float = 33.0
    """Of a round, in which all users begin: where they meet in a third of it, a prompt finds three
    times the usual queue."""
    in_step_ttft_factor: float = (
        2.0  # From p10 to p90 of TTFT: without it, no prompts of a burst wait for each other.
    )
    truncated_invalid_percent: float = 0.5
    """Half of what may fail: such a request counts as answered and is in every latency, by figures
    that are too small."""
    token_difference_suspect_percent: float = 1.0
    """Both sides count exactly, so any difference is real; below 1 % it moves no throughput by more
    than repeats do."""
    chunks_a_token_note: float = 0.9
    """One token a chunk gives 1, two a chunk give 0.5. Down to 0.9 it is a frontend that sometimes
    joins waiting tokens."""
    foreign_invalid_percent: float = (
        1.0  # Own requests never count twice: it allows a single probe in a long stage.
    )
    preempted_suspect_percent: float = 1.0  # Above one request in a hundred a p99 shows preemption.
    unknown_servers_invalid_percent: float = 1.0
    """Of the answers, by unknown servers. Each server counts all of its answers, so the threshold
    only allows a late count."""
    uneven_suspect_percent: float = (
        10.0  # Off an equal share: with a tenth more, the limit comes a tenth earlier.
    )
    uneven_chance: float = 1e-4
    """How often requests spread at random may be called uneven: once in 10,000 stages, so that it
    never shows in a run."""
    sent_rate_suspect_percent: float = 97.0
    """Of the expected rate. A client that keeps up is exact; near capacity a queue changes several
    times as much as the rate."""
    sent_rate_invalid_percent: float = (
        90.0  # With a tenth missing, latencies are those of another load point.
    )
    concurrency_suspect_percent: float = 95.0
    """Of the expected users, less those that think. The next request leaves within microseconds of
    an answer, or when its user has thought: 5 % mean a late client or too few requests."""
    think_errors: float = 4.0
    """Standard errors of the mean think time, where it is drawn: by so much less is in flight by
    chance."""
    queue_wait_note_ms: float = 5.0
    """Of mean or p99. The wait counts from when a request was due: below it is how late a virtual
    machine wakes up, as in `client_lag_suspect_ms`."""
    queue_wait_note_percent: float = 1.0  # Of the mean latency: less does not matter beside it.
    ttft_gap_suspect_ms: float = 5.0
    """Of TTFT at the client beyond the server's: HTTP, vLLM's tokenizer and a turn of an event loop
    take 1 to 4 ms."""
    ttft_gap_suspect_percent: float = (
        5.0  # Of the server's TTFT: beside a slow one a few milliseconds don't matter.
    )
    path_suspect_ms: float = (
        2.0  # Of a round trip: a near network and the answer to a health check take up to 1 ms.
    )
    path_round_trips: float = 2.0
    """In a TTFT at most, beside the set-up of its connection, which is measured: one lets a prompt
    beyond the first TCP window of 10 segments through (RFC 6928: 14.6 kB), one is the request's
    own. What the gap has beyond these is not the path's."""
    lost_segments_suspect: float = 2.0  # TCP segments of a stage: this many are chance.
    lost_segments_suspect_percent: float = 0.5
    """Of the answers. A lost request is sent again after 200 ms or more (Linux's TCP_RTO_MIN): from
    1 % on that is the p99."""
    client_lag_suspect_ms: float = 5.0
    """p99 of how late the client sends or runs what is due, at least: a virtual machine wakes up a
    few milliseconds late."""
    client_lag_suspect_percent: float = 8.0
    """Of the shorter one of mean TTFT and mean time from first to last token: TTFT is late by the
    lag, TPOT by the lag over the tokens. Where 16 processes burnt the cores of both, a mean TTFT
    was late by 0.6 of the lag's p99, half of it the server's: 5 % in all."""
    client_cores_suspect: float = 0.9
    """A process. It has one event loop, which fills a core at most: then it sends and reads as fast
    as it can, not as the load says. It never makes a stage Invalid by itself: gap and lag show its
    effect on the figures."""
    client_cores_with_gap: float = 0.6
    """A process, where TTFT at the client is longer than at the server: beyond half a core answers
    wait for each other."""
    client_turns: float = 5.0
    """Turns of the event loop in a TTFT: to begin it, open a connection, send, read the headers,
    read the first token. A gap that is longer than so many lags at p99 is not the client's, unless
    its core is full."""
    frontend_cores_suspect: float = 0.8
    """An API server of vLLM. Its one event loop fills a core at most; close to that, requests wait
    before the engine."""
    client_invalid_factor: float = (
        3.0  # Times the thresholds of gap and lag: overload grows faster than load does.
    )
    skew_suspect_ms: float = 20.0
    """Between the first and the last of a client's processes to begin, with the error of their
    clocks. Processes that wait for an instant wake up within a few milliseconds of it; beyond that
    the beginning of the load is not the expected one."""
    recomputed_suspect_percent: float = 50.0
    """Of the prompt tokens at the decode servers. The last block of a prompt is always computed
    there, a large part of a short prompt; beyond half of it, TTFT measures decode's own prefill
    more than the transfer."""
    recomputed_invalid_percent: float = (
        90.0  # With nine tenths computed twice it is no disaggregated server.
    )
    proxy_added_suspect_ms: float = (
        5.0  # To the mean time to first token, by a proxy that alone takes 1 to 2 ms.
    )
    proxy_added_suspect_percent: float = (
        5.0  # Of the mean TTFT: beside a slow one a few milliseconds don't matter.
    )
    proxy_cores_suspect: float = (
        0.8  # Its event loop fills a core at most; close to that, streams wait for each other.
    )
    idle_samples_percent: float = (
        50.0  # Of samples: one role is idle in more of them, and another has a queue.
    )
    cold_start_factor: float = (
        3.0  # Times the usual TTFT: prompt lengths rarely make that much, compiling always does.
    )
    cold_start_floor_ms: float = 100.0
    """And at least this much above the usual: opening the connections of a first wave takes tens of
    milliseconds."""
    throttled_suspect_percent: float = 5.0
    """Of a server's CPU periods. In each it stands still for up to 100 ms, and every stream with
    it: from one in twenty on, the pauses are in the p95 of the gaps between tokens."""
    cpu_waiting_suspect_percent: float = (
        5.0  # Of the time: a server that always has work is slower by about as much.
    )
    warmup_batch_factor: float = 2.0
    """Engines capture and compile for batch sizes in steps, which are no wider than that."""
    warmup_batch_errors: float = 4.0
    """Standard deviations of a Poisson count: arrivals of a rate come in bursts, and a stage has
    hundreds of samples."""
    gpu_clock_suspect_percent: float = 3.0
    """Of the SM clock. Decoding and prefill slow down with it, and half of what users look for lies
    below 10 %."""
    gpu_clock_chance: float = 0.01
    """A clock at rest has no noise at all, so the test only has to hold back clocks that move with
    the power drawn."""
    gpu_slowed_suspect_percent: float = (
        1.0  # Of renewed samples. No healthy GPU gets too hot; up to 1 % moves no mean.
    )
    gpu_power_cap_note_percent: float = 50.0
    """A GPU in full use reaches its power limit now and then; most of the time, and the limit sets
    every figure."""
    gpu_memory_margin_percent: float = 5.0
    """Of a GPU's memory, beyond vLLM's share of it: CUDA graphs, NCCL and CUDA come on top. Others
    can have what the share leaves, as vLLM does not start where less than its share is free."""
    gpu_memory_margin_mib: float = 2048.0  # At least: on small GPUs these are a larger part.
    chance_of_alarm: float = 2e-4
    """False alarm rate of a significance test. A stage has about five tests, and each finding also
    needs an effect that matters, which noise of a queue near its capacity often has: together they
    stay below one stage in a thousand."""
    requests_a_user: float = 10.0
    """Requests for each in flight at a time: the first and the last of a user run beside too few
    others, and are a fifth of ten."""
    rounds_seconds: float = 120.0
    """As many rounds of answers as fit are enough where ten take longer: the more a round is worth,
    the fewer there need be."""
    fewest_requests_a_user: float = (
        3.0  # However long a round is: ramp-up, drain, and one beside the full load.
    )
    window_seconds: float = 10.0
    """In less time a garbage collection or a rising clock is a part of the result, and there are
    ten samples at most."""
    steady_change_percent: float = 25.0
    """From the begin of the plateau to its end, of the mean: a figure that moves by a quarter
    describes no single load."""
    first_part_percent: float = 5.0
    """Between the first quarter of the steady part and the rest: what users look for."""
    steady_tpot_percent: float = 8.0
    """The same of TPOT: a mean is off by half of its trend, by more where it began before, and 5 %
    is what users look for. In clean stages of queues up to 0.95 of capacity the greatest was 3.4
    %."""
    steady_completed_percent: float = 97.0
    """Answers in percent of arrivals on a plateau with a rising queue: below it capacity is short,
    not just some requests longer."""
    standstill_factor: float = (
        10.0  # Times the usual gap between tokens: a long prefill between them is no standstill.
    )
    standstill_suspect_percent: float = 3.0
    """Of the mean TTFT, by those that arrived meanwhile, without what the backlog adds: with that,
    5 % is what users look for."""
    queue_growth_percent: float = 100.0
    """Growth of TTFT, of its mean, where answers outlast the sending and no plateau is left: more
    than a growing batch causes."""
    repeats_cv_percent: float = (
        10.0  # Half of what users look for between two configurations lies below 10 %.
    )
    drift_percent: float = (
        10.0  # From first repeat to last: then their order decides which load point looks better.
    )
    drift_order_chance: float = 0.1
    """How often repeats in a random order may pass for an ordered series. Four repeats in order
    happen by chance once in twelve; the noise between them is tested separately, and both together
    make an alarm."""
    scrape_coverage_note_percent: float = (
        80.0  # Of those expected: means tolerate it, maxima and short queues do not.
    )
    littles_law_suspect_percent: float = 15.0
    """Between the requests at the servers and those the client waits for. Network and front end
    explain less."""
    littles_law_floor_ms: float = (
        20.0  # Per request: beside very short ones the way to the server and back is not small.
    )
    littles_law_steps: float = (
        2.0  # Of the p99 of ITL, a step that prefills: vLLM sets its gauges at the end of one.
    )
    littles_law_errors: float = (
        4.0  # Standard errors of the difference: a queue that varies is weak evidence.
    )
    littles_law_samples: float = 10.0  # Samples needed to estimate that error.

    def digest(self) -> str:
        """Return the SHA-256 of all numbers with their names, in hexadecimal digits."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def thresholds_of(spec: BenchmarkRunSpec) -> Thresholds:
    """Return the default thresholds, with those that the spec sets."""
    return Thresholds(max_failed_percent=float(spec.validity.max_failed_percent))


def judge_of(spec: BenchmarkRunSpec, thresholds: Thresholds | None = None) -> Judge:
    """Build `status.judge` of a run that was judged by these thresholds.

    None stands for the spec's own.
    """
    return Judge(
        version=JUDGE_VERSION,
        thresholds_digest=f"sha256:{(thresholds or thresholds_of(spec)).digest()}",
        overrides=[f"{rule.code}={rule.severity}" for rule in spec.validity.severities],
    )
