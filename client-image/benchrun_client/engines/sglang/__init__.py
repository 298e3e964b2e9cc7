"""SGLang: how it is started, its endpoints, its metrics and the words of its log.

Names of flags, paths and series come from SGLang's source of 2025 and 2026 (`server_args.py`,
`http_server.py`, the metrics collectors). Short spellings of flags, the default page size and the
image were not checked against it, and SGLang was never run: see `docs/engines.md`.
"""

from benchrun_client.engines.engine import Engine, StartupPhases, no_settings
from benchrun_client.engines.sglang import launch, log, metric_names


def is_reset(body: str) -> bool:
    """Return whether the body of an answer with status 200 reports an emptied prefix cache."""
    return body.startswith("Cache flushed.")


SGLANG = Engine(
    name="SGLang",
    command=launch.COMMAND,
    module_before_serve=None,
    port=launch.PORT,
    user=launch.USER,
    environment=launch.ENVIRONMENT,
    compile_caches={},
    development_mode=None,  # a server always opens /flush_cache
    nodes=None,
    transfer=None,
    serve_args=launch.serve_args,
    owned_flag=launch.owned_flag,
    command_problem=launch.command_problem,
    refused_variables={},
    flag_warnings=launch.FLAG_WARNINGS,
    flag_spellings=launch.FLAG_SPELLINGS,
    readable_flags=frozenset(
        {*launch.SETTING_FLAGS.values(), *launch.FLAGS_OFF.values()}
    ),
    setting_flags=launch.SETTING_FLAGS,
    flags_off=launch.FLAGS_OFF,
    reported_settings={},
    computed_settings={},
    loaded_adapters=lambda _: (),
    accepts_by_lot=lambda _: False,
    default_block_tokens=1,
    default_running_step=None,
    health_path="/health",
    # Newer releases call it /server_info too; this is the name that all of them have.
    version_path="/get_server_info",
    version_key="version",
    answered_settings=no_settings,
    metrics_path="/metrics",
    unheard={
        "adapters": "name one adapter as lora_path in request.extraBody, for all requests"
    },
    reset_path="/flush_cache",
    reset_remedy="update SGLang",
    profiler=None,
    is_reset=is_reset,
    sample_series=metric_names.SAMPLE_SERIES,
    counter_series=metric_names.COUNTER_SERIES,
    sample_sums={},
    counter_sums={},
    labelled_counters={},
    counters_at_first_event=metric_names.AT_FIRST_EVENT,
    settings_series=None,
    measured_settings=frozenset(),
    cache_tokens=lambda _: None,
    cache_tokens_series="sglang:max_total_num_tokens",
    log_prefix=log.PREFIX,
    error_lines=None,
    cause_is_above=(),
    log_causes=log.CAUSES,
    startup_phases=lambda _: StartupPhases(),
    compilations=None,
)
