"""The thresholds of all rules, each with its reason.

The status of a run has a digest of the thresholds that were used to judge it.
"""

import hashlib
import json
from dataclasses import asdict, dataclass

from benchrun.api import BenchmarkRunSpec, Judge

JUDGE_VERSION = "1"  # Grows when a rule changes its meaning; a changed number shows in the digest.


PROFILE_HOST_PERCENT = 50.0
"""Percent of the profiled time without a running kernel. From this on the host is the limit:
starting kernels takes longer than the kernels themselves. No rule uses this or the next constant: a
profile is not judged, and no figure depends on it."""
PROFILE_STEP_TOKENS = {"GPU": (128, 256), "CPU": (16, 64)}
"""Tokens in a step, by device: up to the first number memory is the limit, from the second on
compute; between them neither is named. Operations per byte that a GPU is built for, with dense
16-bit matrices: 153 (A100), 203 (T4), 295 (H100), by their data sheets. A CPU has some 10, which is
20 tokens with 32-bit weights, and up to 60 with matrix units."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every number that a rule compares with."""

    max_failed_percent: float = 1.0
    """Percent of requests that failed. Mostly slow requests fail, and no latency contains them:
    above 1 %, the whole slowest percent may be missing from a p99. Set by the spec."""
    prefix_hits_suspect_percent: float = 1.0
    """Percent of prompt tokens found in a prefix cache. Up to 1 % is chance: short common
    beginnings, or a canary request that was sent twice."""
    prefix_hits_invalid_percent: float = 10.0
    """Percent of prompt tokens found in a prefix cache. With a tenth of them not computed, TTFT and
    throughput measure the cache as much as the model."""
    output_suspect_percent: float = 95.0
    """Received output tokens in percent of the expected ones. Without an end of sequence this is
    100 %; one answer in twenty may be short before the load differs."""
    output_invalid_percent: float = 80.0
    """Received output tokens in percent of the expected ones. With a fifth missing, E2EL and
    throughput belong to another workload. A count that is guessed from the text errs by less."""
    stopped_suspect_percent: float = 5.0
    """Percent of answers that ended at a stop token although lengths are fixed: with more, the
    shortest 5 % of E2EL are from such answers."""
    turns_lost_suspect_percent: float = 1.0
    """Percent of the turns of sessions that were not sent because one before them had failed. Late
    turns, with the longest prompts, are lost first: with 1 % of all, a tenth of them may be."""
    turns_lost_invalid_percent: float = 10.0
    """The same percent; with a tenth of the turns, the longest prompts are of another workload."""
    turns_left_out_suspect_percent: float = 5.0
    """Percent of recorded turns that the model's context can't hold: the longest ones, with all
    that come after them."""
    sessions_suspect_percent: float = 85.0
    """Mean sessions under way in percent of those asked for. With ten times as many sessions as are
    under way at once, the last ones take some 5 % while they run out."""
    reasoning_missing_suspect_percent: float = 50.0
    """Percent of answers without reasoning although thinking is on. Models skip it where a prompt
    is easy; if most do, the switch did not take, or the server sends reasoning as text."""
    reasoning_unasked_suspect_percent: float = 1.0
    """Percent of answers with reasoning although thinking is off. One such answer is longer than
    many others: up to 1 % they are beyond most percentiles."""
    aborted_suspect_percent: float = 0.5
    """Percent of requests that the servers aborted, equal to the limit of truncated answers: the
    client may count such a request as answered, with figures that are too small."""
    prompt_tokens_suspect_percent: float = 1.0
    """Difference between expected and received prompt tokens in percent. Prefill takes time in
    proportion to its tokens: below 1 % the difference moves no TTFT by more than repeats do."""
    in_step_note_percent: float = 33.0
    """Percent of a round (mean E2EL plus think time) in which all users begin a request: if they do
    so within a third of it, a prompt finds three times the usual queue."""
    in_step_ttft_factor: float = 2.0
    """The p90 of TTFT as a multiple of its p10: below it, no prompts of a burst wait for each
    other."""
    truncated_invalid_percent: float = 0.5
    """Percent of requests whose answers were truncated. It is half of the percentage that may fail,
    because such a request counts as answered and is in every latency, with figures that are too
    small."""
    token_difference_suspect_percent: float = 1.0
    """Difference between the token counts of client and server in percent. Both count exactly, so
    any difference is real; below 1 % it moves no throughput by more than repeats do."""
    chunks_a_token_note: float = 0.9
    """Chunks per output token: 1 with one token per chunk, 0.5 with two. Down to 0.9 the cause is a
    frontend that sometimes joins waiting tokens."""
    foreign_invalid_percent: float = 1.0
    """Percent of requests that are not the run's own. The run's requests never count twice; the
    limit allows a single probe in a long stage."""
    preempted_suspect_percent: float = 1.0
    """Percent of requests that were preempted. Above one request in a hundred a p99 shows
    preemption."""
    unknown_servers_invalid_percent: float = 1.0
    """Percent of answers that came from unknown servers. Each server counts all of its answers, so
    the threshold only allows a late count."""
    uneven_suspect_percent: float = 10.0
    """Distance of a server's requests from an equal share, in percent of that share: with a tenth
    more, the server reaches its limit a tenth earlier."""
    uneven_chance: float = 1e-4
    """Probability with which requests spread at random may be called uneven: once in 10,000 stages,
    so that it never shows in a run."""
    sent_rate_suspect_percent: float = 97.0
    """Sent rate in percent of the expected rate. A client that keeps up is exact; near capacity a
    queue changes several times as much as the rate."""
    sent_rate_invalid_percent: float = 90.0
    """Sent rate in percent of the expected rate. With a tenth missing, latencies belong to another
    load point."""
    concurrency_suspect_percent: float = 95.0
    """Mean requests in flight in percent of the expected users, less those that think. The next
    request leaves within microseconds of an answer, or when its user has thought: 5 % missing mean
    a late client or too few requests."""
    think_errors: float = 4.0
    """Standard errors of the mean think time, where think times are drawn, by which requests in
    flight may be fewer by chance."""
    queue_wait_note_ms: float = 5.0
    """Mean or p99 of the client's queue wait in milliseconds. The wait begins when a request is
    due: below this limit it is only how late a virtual machine wakes up, as in
    `client_lag_suspect_ms`."""
    queue_wait_note_percent: float = 1.0
    """The client's queue wait in percent of the mean latency: a shorter wait does not matter beside
    it."""
    ttft_gap_suspect_ms: float = 5.0
    """Milliseconds by which TTFT at the client exceeds the server's: HTTP, vLLM's tokenizer and a
    turn of an event loop take 1 to 4 ms."""
    ttft_gap_suspect_percent: float = 5.0
    """The TTFT gap in percent of the server's TTFT: beside a slow TTFT a few milliseconds don't
    matter."""
    path_suspect_ms: float = 2.0
    """Milliseconds of a round trip: a near network and the answer to a health check take up to 1
    ms."""
    path_round_trips: float = 2.0
    """Most round trips in a TTFT, beside the set-up of its connection, which is measured: one lets
    a prompt beyond the first TCP window of 10 segments through (RFC 6928: 14.6 kB), one is the
    request's own. The rest of the TTFT gap is not caused by the path."""
    # Lost TCP segments of a stage: this many are chance.
    lost_segments_suspect: float = 2.0
    lost_segments_suspect_percent: float = 0.5
    """Lost TCP segments in percent of the answers. A lost request is sent again after 200 ms or
    more (Linux's TCP_RTO_MIN): from 1 % on that is the p99."""
    client_lag_suspect_ms: float = 5.0
    """Least p99, in milliseconds, of how late the client sends or runs what is due: a virtual
    machine wakes up a few milliseconds late."""
    client_lag_suspect_percent: float = 8.0
    """The client's lag in percent of mean TTFT or of the mean time from first to last token,
    whichever is shorter: TTFT is late by the lag, TPOT by the lag over the tokens. Where 16
    processes burnt the cores of both client and server, a mean TTFT was late by 0.6 of the lag's
    p99, half of it caused by the server: 5 % in all."""
    client_cores_suspect: float = 0.9
    """CPU cores used by one client process. Its one event loop fills a core at most: then it sends
    and reads as fast as it can, not as the load says. This sign alone never makes a stage Invalid:
    gap and lag show its effect on the figures."""
    client_cores_with_gap: float = 0.6
    """CPU cores used by one client process, where TTFT at the client is longer than at the server:
    beyond half a core answers wait for each other."""
    client_turns: float = 5.0
    """Turns of the event loop in a TTFT: begin it, open a connection, send, read the headers, read
    the first token. The client does not cause a gap that is longer than this many times the p99
    lag, unless its core is full."""
    frontend_cores_suspect: float = 0.8
    """CPU cores used by one API server of vLLM. Its one event loop fills a core at most; close to
    that, requests wait before the engine."""
    client_invalid_factor: float = 3.0
    """Multiple of the gap and lag thresholds that makes a stage Invalid: overload grows faster than
    load does."""
    skew_suspect_ms: float = 20.0
    """Milliseconds between the starts of the client's first and last process, including the error
    of their clocks. Processes that wait for an instant wake up within a few milliseconds of it;
    with a larger difference the load does not begin as expected."""
    recomputed_suspect_percent: float = 50.0
    """Percent of the prompt tokens that the decode servers compute again. The last block of a
    prompt is always computed there, a large part of a short prompt; beyond half of the tokens, TTFT
    measures decode's own prefill more than the transfer."""
    recomputed_invalid_percent: float = 90.0
    """Percent of the prompt tokens that the decode servers compute again. With nine tenths computed
    twice, the server is not disaggregated."""
    proxy_added_suspect_ms: float = 5.0
    """Milliseconds that the proxy adds to the mean TTFT; alone it takes 1 to 2 ms."""
    proxy_added_suspect_percent: float = 5.0
    """Time that the proxy adds in percent of the mean TTFT: beside a slow TTFT a few milliseconds
    don't matter."""
    proxy_cores_suspect: float = 0.8
    """CPU cores used by the proxy. Its event loop fills a core at most; close to that, streams wait
    for each other."""
    idle_samples_percent: float = 50.0
    """Percent of samples in which one role is idle, and percent in which another role has a queue:
    both must be higher than this."""
    cold_start_factor: float = 3.0
    """First TTFTs as a multiple of the usual TTFT: prompt lengths rarely make that much difference,
    compiling always does."""
    cold_start_floor_ms: float = 100.0
    """Least milliseconds above the usual TTFT: opening the connections of a first wave takes tens
    of milliseconds."""
    throttled_suspect_percent: float = 5.0
    """Percent of a server's CPU periods that were throttled. In each of these the server and every
    stream stand still for up to 100 ms: from one period in twenty on, the pauses are in the p95 of
    the gaps between tokens."""
    cpu_waiting_suspect_percent: float = 5.0
    """Percent of the time that a server waited for a CPU: a server that always has work is slower
    by about as much."""
    warmup_batch_factor: float = 2.0
    """Largest batch as a multiple of the warm-up's: engines capture and compile for batch sizes in
    steps, which are no wider than that."""
    warmup_batch_errors: float = 4.0
    """Standard deviations of a Poisson count by which a batch may exceed the warm-up's: arrivals at
    a rate come in bursts, and a stage has hundreds of samples."""
    gpu_clock_suspect_percent: float = 3.0
    """Drop of the SM clock in percent. Decoding and prefill slow down with it, and half of the
    differences that users look for lie below 10 %."""
    gpu_clock_chance: float = 0.01
    """Significance level of a drop of the SM clock. A clock at rest has no noise at all, so the
    test only has to reject clocks that move with the power drawn."""
    gpu_slowed_suspect_percent: float = 1.0
    """Percent of renewed samples with a GPU slowed by the driver. No healthy GPU gets too hot; up
    to 1 % moves no mean."""
    gpu_power_cap_note_percent: float = 50.0
    """Percent of samples at the power limit. A GPU in full use reaches the limit now and then; if
    it does so most of the time, the limit sets every figure."""
    gpu_memory_margin_percent: float = 5.0
    """Percent of a GPU's memory used beyond vLLM's share of it: CUDA graphs, NCCL and CUDA come on
    top. Other processes can use only the rest: vLLM does not start if less than its share is
    free."""
    gpu_memory_margin_mib: float = 2048.0
    """Least margin in MiB: on small GPUs the same overheads are a larger part."""
    chance_of_alarm: float = 2e-4
    """False alarm rate of a significance test. A stage has about five tests, and each finding also
    needs an effect that matters, which the noise of a queue near its capacity often has: together
    they stay below one false alarm in a thousand stages."""
    requests_a_user: float = 10.0
    """Requests needed for each request in flight. With ten, the first and the last request of a
    user are a fifth, and these run beside too few others."""
    rounds_seconds: float = 120.0
    """Seconds of rounds that are enough if ten rounds take longer: then only as many rounds are
    needed as fit into it. The longer a round, the fewer are needed."""
    fewest_requests_a_user: float = 3.0
    """Fewest requests of a user, however long a round is: one in the ramp-up, one in the drain, and
    one beside the full load."""
    window_seconds: float = 10.0
    """Least seconds of a steady part. In less time a garbage collection or a rising clock is a part
    of the result, and there are ten samples at most."""
    steady_change_percent: float = 25.0
    """Change from the beginning of the plateau to its end in percent of the mean: a figure that
    moves by a quarter describes no single load."""
    first_part_percent: float = 5.0
    """Difference in percent between the first quarter of the steady part and the rest. Users look
    for differences of this size."""
    steady_tpot_percent: float = 8.0
    """Change of TPOT from the beginning of the plateau to its end in percent of the mean: a mean is
    off by half of its trend, by more where the trend began earlier, and users look for differences
    of 5 %. In clean stages of queues up to 0.95 of capacity the greatest change was 3.4 %."""
    steady_completed_percent: float = 97.0
    """Answers in percent of arrivals on a plateau with a rising queue: below this, capacity is
    short, and not just some requests longer."""
    standstill_factor: float = 10.0
    """Longest gap between tokens as a multiple of the usual gap: below it, a long prefill between
    them is no standstill."""
    standstill_suspect_percent: float = 3.0
    """Percent by which the requests that arrive during a standstill raise the mean TTFT, without
    the effect of the backlog: with the backlog it is 5 %, the size of the differences that users
    look for."""
    queue_growth_percent: float = 100.0
    """Growth of queue wait and TTFT in percent of their mean, where answers outlast the sending and
    no plateau is left: a growing batch causes less."""
    repeats_cv_percent: float = 10.0
    """Coefficient of variation of the repeats in percent: half of the differences that users look
    for between two configurations lie below 10 %."""
    drift_percent: float = 10.0
    """Change from the first repeat to the last in percent: with a larger change, the order of load
    points decides which one looks better."""
    drift_order_chance: float = 0.1
    """Probability with which repeats in a random order may pass for an ordered series. Four repeats
    are in order by chance once in twelve; the noise between them is tested separately, and an alarm
    needs both."""
    scrape_coverage_note_percent: float = 80.0
    """Samples in percent of the expected ones: means tolerate missing samples, maxima and short
    queues do not."""
    littles_law_suspect_percent: float = 15.0
    """Difference in percent between the requests at the servers and the requests that the client
    waits for. Network and frontend cause a smaller difference."""
    littles_law_floor_ms: float = 20.0
    """Least difference in milliseconds per request: beside very short requests the way to the
    server and back is not small."""
    littles_law_steps: float = 2.0
    """Least difference per request as a multiple of the p99 of ITL, which is a step that prefills:
    vLLM sets its gauges at the end of a step."""
    littles_law_errors: float = 4.0
    """Standard errors of the difference: a queue that varies is weak evidence."""
    littles_law_samples: float = 10.0
    """Least number of samples needed to estimate that standard error."""

    def digest(self) -> str:
        """Return the SHA-256 of all numbers with their names, in hexadecimal digits."""
        return hashlib.sha256(
            json.dumps(asdict(self), sort_keys=True).encode()
        ).hexdigest()


def thresholds_of(spec: BenchmarkRunSpec) -> Thresholds:
    """Return the default thresholds, replaced by those that the spec sets."""
    return Thresholds(max_failed_percent=float(spec.validity.max_failed_percent))


def judge_of(spec: BenchmarkRunSpec, thresholds: Thresholds | None = None) -> Judge:
    """Build `status.judge` of a run that was judged by these thresholds.

    None stands for the thresholds of the spec.
    """
    return Judge(
        version=JUDGE_VERSION,
        thresholds_digest=f"sha256:{(thresholds or thresholds_of(spec)).digest()}",
        overrides=[
            f"{rule.code}={rule.severity}" for rule in spec.validity.severities
        ],
    )
