"""TensorRT-LLM's `trtllm-serve`: how it is started, its endpoints, its metrics and its log.

Names of flags, paths and series come from TensorRT-LLM's source of autumn 2026, as of its release
1.4.0rc4 (`commands/serve.py`, `serve/openai_server.py`, `metrics/collector.py`). TensorRT-LLM was
never run: see `docs/engines.md`.
"""

from benchrun_client.engines.engine import Engine, StartupPhases, no_settings
from benchrun_client.engines.trtllm import launch, log, metric_names

TRTLLM = Engine(
    name="TensorRT-LLM",
    seen="source: 1.4.0rc4; simulated",
    command=launch.COMMAND,
    module_before_serve=None,
    port=launch.PORT,
    user=launch.USER,
    weights=".safetensors",
    environment=launch.ENVIRONMENT,
    compile_caches={},
    development_mode=None,
    nodes=None,
    transfer=None,
    serve_args=launch.serve_args,
    owned_flag=launch.owned_flag,
    command_problem=launch.command_problem,
    refused_variables={},
    flag_warnings={},
    flag_spellings=launch.FLAG_SPELLINGS,
    flag_separator="_",
    readable_flags=frozenset(launch.SETTING_FLAGS.values()),
    setting_flags=launch.SETTING_FLAGS,
    flags_off={},
    reported_settings=metric_names.REPORTED_SETTINGS,
    computed_settings={},
    loaded_adapters=lambda _: (),
    accepts_by_lot=lambda _: False,
    default_block_tokens=32,
    evicts_blocks=True,
    default_running_step=None,  # 2048, and less for some models
    health_path="/health",
    version_path="/version",
    version_key="version",
    answered_settings=no_settings,
    unheard={
        "priority": "it wants 0 to 1, and a queue by priority: name it in request.extraBody",
        "adapters": "name one adapter as lora_request in request.extraBody, for all requests",
    },
    # /metrics is JSON: the statistics of steps, each of which is told once.
    metrics_path="/prometheus/metrics",
    embeddings=False,
    cached_in_answers=None,
    reset_path=None,
    reset_remedy=(
        "set cachePolicy: Isolate, or turn the cache off with "
        "--set=kv_cache_config.enable_block_reuse=false"
    ),
    profiler=None,
    is_reset=lambda _: False,
    series_begin="trtllm_",
    sample_series=metric_names.SAMPLE_SERIES,
    counter_series=metric_names.COUNTER_SERIES,
    sample_sums={},
    counter_sums={},
    labelled_counters={},
    counters_at_first_event=frozenset(),
    settings_series=metric_names.SETTINGS_SERIES,
    measured_settings=metric_names.MEASURED_SETTINGS,
    cache_tokens=lambda _: None,
    cache_tokens_series=metric_names.CACHE_TOKENS_SERIES,
    log_prefix=log.PREFIX,
    error_lines=log.ERROR_LINES,
    cause_is_above=(),
    log_causes=log.CAUSES,
    startup_phases=lambda _: StartupPhases(),
    compilations=None,
)
