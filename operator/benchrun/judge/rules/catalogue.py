"""All rules, in the order in which they are asked, and the text of every code."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.judge.rules import (
    answers,
    client,
    failed_requests,
    kv_cache,
    load,
    replicas,
    rule,
    sample_size,
    scraping,
    server_identity,
    steady_state,
    warm_up,
)
from benchrun.judge.rules.finding import Code, Explanation
from benchrun.judge.rules.rule import CellRule, RunRule, StageRule

STAGE_RULES: tuple[StageRule, ...] = (
    failed_requests.requests_failed,  # nothing else is worth reading if nothing was answered
    failed_requests.no_output,
    server_identity.wrong_server,
    server_identity.wrong_model,
    server_identity.server_restarted,
    server_identity.foreign_traffic,
    kv_cache.prefix_cache,
    kv_cache.cache_reset,
    kv_cache.kv_recomputed,
    answers.output_too_short,
    answers.stream_truncated,
    failed_requests.requests_rejected,
    replicas.replicas_unequal,
    replicas.load_uneven,
    answers.token_counts_disagree,
    answers.chunks_are_not_tokens,
    kv_cache.preempted,
    load.rate_not_achieved,
    load.concurrency_not_reached,
    load.queue_wait_hidden,
    load.all_at_once,
    client.client_saturated,
    client.client_throttled,
    client.shards_out_of_step,
    replicas.proxy_saturated,
    replicas.role_idle,
    warm_up.compilation_in_window,
    warm_up.cold_start,
    warm_up.warmup_incomplete,
    steady_state.window_too_short,
    steady_state.not_steady_state,
    scraping.scrape_coverage,
    scraping.littles_law,
)
CELL_RULES: tuple[CellRule, ...] = (sample_size.too_few_samples, sample_size.repeats_disagree)
RUN_RULES: tuple[RunRule, ...] = (steady_state.drift,)

EXPLANATIONS: Mapping[Code, Explanation] = {
    **failed_requests.EXPLANATIONS,
    **sample_size.EXPLANATIONS,
    **server_identity.EXPLANATIONS,
    **kv_cache.EXPLANATIONS,
    **answers.EXPLANATIONS,
    **replicas.EXPLANATIONS,
    **load.EXPLANATIONS,
    **client.EXPLANATIONS,
    **warm_up.EXPLANATIONS,
    **steady_state.EXPLANATIONS,
    **scraping.EXPLANATIONS,
    **rule.EXPLANATIONS,
}
