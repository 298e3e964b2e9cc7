"""SGLang: how it is started, its endpoints, its metrics and the words of its log.

Names of flags, paths, series and settings come from the source of SGLang 0.5.23 (`arg_groups`,
`http_server.py`, the metrics collectors). SGLang was never run: see `docs/engines.md`.
"""

from collections.abc import Mapping

from benchrun_client.engines.engine import Engine
from benchrun_client.engines.sglang import launch, log, metric_names


def is_reset(body: str) -> bool:
    """Return whether the body of an answer with status 200 reports an emptied prefix cache."""
    return body.startswith("Cache flushed.")


def answered_settings(answer: Mapping[str, object]) -> Mapping[str, str]:
    """Return a server's settings from the answer of /get_server_info.

    It has all arguments, some of them secret, with what the server chose in place of those that
    were not given. Only settings known by name are taken.
    """
    found = {name: answer.get(name) for name in metric_names.ANSWERED_SETTINGS}
    states = answer.get("internal_states")
    first = states[0] if isinstance(states, list) and states else None
    if isinstance(first, dict):
        found[metric_names.MAX_RUNNING] = first.get(metric_names.MAX_RUNNING)
    return {
        name: str(value)
        for name, value in found.items()
        if isinstance(value, bool | int | float | str)
    }


SGLANG = Engine(
    name="SGLang",
    seen="source: 0.5.23; simulated",
    command=launch.COMMAND,
    module_before_serve=None,
    port=launch.PORT,
    user=launch.USER,
    weights=".safetensors",
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
    flag_separator="-",
    readable_flags=frozenset(
        {*launch.SETTING_FLAGS.values(), *launch.FLAGS_OFF.values()}
    ),
    setting_flags=launch.SETTING_FLAGS,
    flags_off=launch.FLAGS_OFF,
    reported_settings=metric_names.REPORTED_SETTINGS,
    computed_settings={},
    loaded_adapters=lambda _: (),
    accepts_by_lot=lambda _: False,
    default_block_tokens=1,
    evicts_blocks=True,
    default_running_step=None,
    health_path="/health",
    # Releases from 0.5.6 on prefer /server_info; this is the name that all of them have.
    version_path="/get_server_info",
    version_key="version",
    answered_settings=answered_settings,
    metrics_path="/metrics",
    unheard={
        "adapters": "name one adapter as lora_path in request.extraBody, for all requests"
    },
    embeddings=False,
    cached_in_answers="--enable-cache-report",
    reset_path="/flush_cache",
    reset_remedy="update SGLang",
    profiler=None,
    is_reset=is_reset,
    series_begin="sglang:",
    sample_series=metric_names.SAMPLE_SERIES,
    counter_series=metric_names.COUNTER_SERIES,
    sample_sums={},
    counter_sums={},
    labelled_counters={},
    counters_at_first_event=metric_names.AT_FIRST_EVENT,
    settings_series=(),
    measured_settings=frozenset(),
    cache_tokens=lambda _: None,
    cache_tokens_series=("sglang:max_total_num_tokens",),
    log_prefix=log.PREFIX,
    error_lines=None,
    cause_is_above=(),
    log_causes=log.CAUSES,
    startup_phases=log.startup_phases,
    compilations=None,
)
