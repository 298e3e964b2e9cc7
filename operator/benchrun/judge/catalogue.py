"""All rules, in the order in which they are asked, and the text of every code."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.judge import (
    arrivals,
    client_load,
    compilation,
    drift,
    few_samples,
    foreign_traffic,
    idle_role,
    kv_transfer,
    missing_records,
    not_checked,
    out_of_step,
    output_short,
    preempted,
    prefix_cache,
    proxy_load,
    rejected,
    repeats,
    replicas,
    requests_failed,
    scraping,
    server_restarted,
    steady,
    token_counts,
    warm_up,
    window,
)
from benchrun.judge.finding import Code, Explanation
from benchrun.judge.rules import CellRule, RunRule, StageRule

STAGE_RULES: tuple[StageRule, ...] = (
    requests_failed.requests_failed,  # nothing else is worth reading if nothing was answered
    requests_failed.no_output,
    server_restarted.server_restarted,
    foreign_traffic.foreign_traffic,
    prefix_cache.prefix_cache,
    prefix_cache.cache_reset,
    kv_transfer.kv_recomputed,
    output_short.output_too_short,
    output_short.stream_truncated,
    rejected.requests_rejected,
    replicas.replicas_unequal,
    replicas.load_uneven,
    token_counts.token_counts_disagree,
    token_counts.chunks_are_not_tokens,
    preempted.preempted,
    arrivals.rate_not_achieved,
    arrivals.concurrency_not_reached,
    arrivals.queue_wait_hidden,
    arrivals.all_at_once,
    client_load.client_saturated,
    client_load.client_throttled,
    out_of_step.shards_out_of_step,
    proxy_load.proxy_saturated,
    idle_role.role_idle,
    compilation.compilation_in_window,
    compilation.cold_start,
    warm_up.warmup_incomplete,
    window.window_too_short,
    steady.not_steady_state,
    scraping.scrape_coverage,
    scraping.littles_law,
)
CELL_RULES: tuple[CellRule, ...] = (few_samples.too_few_samples, repeats.repeats_disagree)
RUN_RULES: tuple[RunRule, ...] = (drift.drift,)

EXPLANATIONS: Mapping[Code, Explanation] = {
    **requests_failed.EXPLANATIONS,
    **missing_records.EXPLANATIONS,
    **server_restarted.EXPLANATIONS,
    **foreign_traffic.EXPLANATIONS,
    **prefix_cache.EXPLANATIONS,
    **kv_transfer.EXPLANATIONS,
    **output_short.EXPLANATIONS,
    **rejected.EXPLANATIONS,
    **replicas.EXPLANATIONS,
    **token_counts.EXPLANATIONS,
    **preempted.EXPLANATIONS,
    **arrivals.EXPLANATIONS,
    **client_load.EXPLANATIONS,
    **out_of_step.EXPLANATIONS,
    **proxy_load.EXPLANATIONS,
    **idle_role.EXPLANATIONS,
    **compilation.EXPLANATIONS,
    **warm_up.EXPLANATIONS,
    **window.EXPLANATIONS,
    **steady.EXPLANATIONS,
    **scraping.EXPLANATIONS,
    **few_samples.EXPLANATIONS,
    **repeats.EXPLANATIONS,
    **drift.EXPLANATIONS,
    **not_checked.EXPLANATIONS,
}
