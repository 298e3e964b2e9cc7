"""llama.cpp's HTTP server: how it is started, its endpoints, its metrics and the words of its log.

Names of flags, paths and series were read from a running `llama-server` of build b10434; those that
it could not show on a CPU (GPU memory, the hub) come from its source.
"""

from collections.abc import Mapping

from benchrun_client.engines.engine import Engine
from benchrun_client.engines.llamacpp import launch, log, metric_names


def answered_settings(properties: Mapping[str, object]) -> Mapping[str, str]:
    """Return a server's settings from the answer of /props."""
    generation = properties.get("default_generation_settings")
    generation = generation if isinstance(generation, dict) else {}
    sampling = generation.get("params")
    sampling = sampling if isinstance(sampling, dict) else {}
    kind = properties.get("model_ftype")
    found = {
        "total_slots": properties.get("total_slots"),
        "n_ctx": generation.get("n_ctx"),  # Of one slot.
        "model_ftype": kind,
        **(weights_of(kind) if isinstance(kind, str) else {}),
        "speculation": sampling.get("speculative.types"),
    }
    return {
        name: str(value)
        for name, value in found.items()
        if isinstance(value, int | str)
    }


_UNQUANTIZED = {"all F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def weights_of(kind: str) -> Mapping[str, str]:
    """Return quantization and type of the weights, from the kind of a GGUF file.

    The type is returned only if all weights have it, so never for quantized ones.
    """
    dtype = _UNQUANTIZED.get(kind.removesuffix(" (guessed)"))
    if dtype is None:
        return {"quantization": kind}
    return {"quantization": "none", "dtype": dtype}


LLAMACPP = Engine(
    name="llama.cpp",
    seen="real, CPU: b10434",
    command=(),  # the entry point of its server images is llama-server
    module_before_serve=None,
    port=launch.PORT,
    user=launch.USER,
    weights=".gguf",
    environment=launch.ENVIRONMENT,
    development_mode=None,
    nodes=None,
    transfer=None,
    serve_args=launch.serve_args,
    owned_flag=launch.owned_flag,
    command_problem=launch.command_problem,
    refused_variables=launch.REFUSED_VARIABLES,
    flag_warnings=launch.FLAG_WARNINGS,
    flag_spellings=launch.FLAG_SPELLINGS,
    flag_separator="-",
    readable_flags=frozenset({*launch.SETTING_FLAGS.values(), "kv-unified"}),
    setting_flags=launch.SETTING_FLAGS,
    flags_off={},
    reported_settings=metric_names.REPORTED_SETTINGS,
    computed_settings=launch.COMPUTED_SETTINGS,
    loaded_adapters=lambda _: (),
    accepts_by_lot=lambda _: False,
    default_block_tokens=1,  # a slot finds any common beginning again
    evicts_blocks=False,  # a slot keeps what it had until another conversation takes it
    default_running_step=None,  # 1 in old releases, 4 in new ones
    health_path="/health",
    version_path="/props",
    version_key="build_info",
    answered_settings=answered_settings,
    metrics_path="/metrics",
    unheard={
        "priority": "its slots are first come, first served; remove it",
        "adapters": "start it with --lora, for all requests",
        "responseFormat": "set api: Chat",
    },
    embeddings=False,
    cached_in_answers=None,
    reset_path=None,
    reset_remedy="set cachePolicy: Isolate, or turn the cache off with --no-cache-prompt",
    profiler=None,
    is_reset=lambda _: False,
    series_begin="llamacpp:",
    sample_series=metric_names.SAMPLE_SERIES,
    counter_series=metric_names.COUNTER_SERIES,
    sample_sums=metric_names.SAMPLE_SUMS,
    counter_sums=metric_names.COUNTER_SUMS,
    labelled_counters={},
    counters_at_first_event=frozenset(),
    settings_series=(),
    measured_settings=frozenset(),
    cache_tokens=lambda _: None,
    cache_tokens_series=(),
    log_prefix=log.PREFIX,
    error_lines=log.ERROR_LINES,
    cause_is_above=(),
    log_causes=log.CAUSES,
    startup_phases=log.startup_phases,
    compilations=None,
    compile_caches={},
)
