"""vLLM: how it is started, its endpoints, its metrics and the words of its log."""

import json

from benchrun_client.engines.engine import (
    Engine,
    Nodes,
    Profiler,
    Transfer,
    no_settings,
)
from benchrun_client.engines.vllm import launch, log, metric_names


def is_reset(body: str) -> bool:
    """Return whether the body of an answer with status 200 reports an emptied prefix cache.

    vLLM refuses while any block is in use, and reports that only in the body. Before 0.26 the body
    is empty: that counts as success, and the stage's hit ratio shows whether it was one.
    """
    if not body:
        return True
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and answer.get("success") is True


VLLM = Engine(
    name="vLLM",
    seen="real, CPU: 0.32; source: 0.33",
    command=(),  # the entry point of its images is the server
    module_before_serve=launch.API_SERVER,
    port=launch.PORT,
    user=launch.USER,
    weights=".safetensors",
    environment=launch.ENVIRONMENT,
    compile_caches=launch.COMPILE_CACHES,
    development_mode="VLLM_SERVER_DEV_MODE",
    nodes=Nodes(
        # its own guess is the address from which it would reach the internet
        address="VLLM_HOST_IP",
        args=launch.node_args,
        worker_args=("--headless",),
    ),
    transfer=Transfer(
        address="VLLM_NIXL_SIDE_CHANNEL_HOST",  # vLLM's own default is localhost
        args=launch.transfer_args,
    ),
    serve_args=launch.serve_args,
    owned_flag=launch.owned_flag,
    command_problem=launch.command_problem,
    refused_variables=launch.REFUSED_VARIABLES,
    flag_warnings=launch.FLAG_WARNINGS,
    flag_spellings=launch.FLAG_SPELLINGS,
    flag_separator="-",
    readable_flags=launch.READABLE_FLAGS,
    setting_flags=launch.SETTING_FLAGS,
    flags_off={},
    reported_settings=metric_names.REPORTED_SETTINGS,
    computed_settings={},
    loaded_adapters=launch.loaded_adapters,
    accepts_by_lot=launch.accepts_by_lot,
    default_block_tokens=16,
    evicts_blocks=True,
    default_running_step=128,  # 128 on a CPU, 256 or 1024 on GPUs
    health_path="/health",
    version_path="/version",
    version_key="version",
    answered_settings=no_settings,
    metrics_path="/metrics",
    unheard={},
    embeddings=True,
    cached_in_answers="--enable-prompt-tokens-details",
    # without external tiers the flag changes nothing
    reset_path="/reset_prefix_cache?reset_external=true",
    reset_remedy="the server needs VLLM_SERVER_DEV_MODE=1",
    profiler=Profiler(
        start_path="/start_profile",
        stop_path="/stop_profile",
        remedy="start it with --profiler-config (before vLLM 0.13: VLLM_TORCH_PROFILER_DIR)",
        enabled_by=launch.profiled,
        reader="vllm/trace_reader.py",
    ),
    is_reset=is_reset,
    series_begin="vllm:",
    sample_series=metric_names.SAMPLE_SERIES,
    counter_series=metric_names.COUNTER_SERIES,
    sample_sums={},
    counter_sums={},
    labelled_counters=metric_names.LABELLED_COUNTERS,
    counters_at_first_event=frozenset(),
    settings_series=("vllm:cache_config_info",),
    measured_settings=metric_names.MEASURED_SETTINGS,
    cache_tokens=metric_names.cache_tokens,
    cache_tokens_series=(),
    log_prefix=log.PREFIX,
    error_lines=None,
    cause_is_above=log.CAUSE_IS_ABOVE,
    log_causes=log.CAUSES,
    startup_phases=log.startup_phases,
    compilations=log.compilations,
)
