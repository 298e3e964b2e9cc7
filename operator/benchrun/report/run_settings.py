"""List the settings of the server and the settings of the client.

It also shows the KV cache as the server reported it at its start.
"""

import json
import re
from collections.abc import Iterator, Mapping

from benchrun_client.engines import ENGINES, EngineSetting

from benchrun.api import BenchmarkRunStatus, ServerStatus
from benchrun.measure.server_pressure import server_limits
from benchrun.names import ROLE_PROXY
from benchrun.observe import untrusted_json as raw
from benchrun.report.tables import ABSENT, Rows, figure
from benchrun.sizing import ServeArgs, UnreadableValue, serve_args

_OF_SERVERS = (
    EngineSetting.MAX_TOKENS,
    EngineSetting.MAX_RUNNING,
    EngineSetting.STEP_TOKENS,
    EngineSetting.MEMORY_SHARE,
    EngineSetting.PREFIX_CACHE,
    EngineSetting.CHUNKED_PREFILL,
    EngineSetting.TENSOR_PARALLEL,
    EngineSetting.BLOCK_TOKENS,
    EngineSetting.DTYPE,
    EngineSetting.QUANTIZATION,
    EngineSetting.KV_CACHE_DTYPE,
    EngineSetting.EAGER,
    EngineSetting.SPECULATION,
    EngineSetting.ATTENTION_KERNELS,
    EngineSetting.LOGS_REQUESTS,
)
_OF_WORKLOADS = ("requests", "load", "ignoreEOS", "sampling", "request")
_OF_MEASUREMENT = ("cachePolicy", "seed", "percentiles", "profile")
MAX_CHARS = 300


def settings_rows(spec: Mapping[str, object], status: BenchmarkRunStatus) -> Rows:
    """Build a table with one row for each setting that people ask about.

    `spec` is the run's spec as the API server returns it.
    """
    rows = [
        row
        for server in status.servers
        if server.role != ROLE_PROXY
        for row in _of_server(server)
    ]
    for workload in raw.mappings(spec.get("workloads")):
        name = raw.text(workload.get("name"))
        rows += [
            (each, _text(workload.get(each)), "client", f"workloads[{name}].{each}")
            for each in _OF_WORKLOADS
        ]
    rows.append(("repeats", _text(spec.get("repeats")), "client", "repeats"))
    rows += _of_platform(status)
    measurement = raw.mapping(spec.get("measurement"))
    rows += [
        (each, _text(measurement.get(each)), "client", f"measurement.{each}")
        for each in _OF_MEASUREMENT
    ]
    return Rows(("setting", "value", "side", "field"), tuple(rows))


def platform_text(defaults: Mapping[str, str]) -> str:
    """Format what the platform's defaults set in a role's pods: `nodeSelector {pool: gpu}`."""
    return "; ".join(f"{field} {value}" for field, value in defaults.items())


def _of_platform(status: BenchmarkRunStatus) -> list[tuple[str, ...]]:
    """Return a row for each field that the platform's defaults set in addition to the spec."""
    found = [
        ("server" if s.role == "server" else f"server ({s.role})", s.defaults)
        for s in status.servers
    ]
    if status.client is not None:
        found.append(("client", status.client.defaults))
    return [
        (field, value, side, "the platform's defaults")
        for side, defaults in found
        for field, value in defaults.items()
    ]


def _of_server(server: ServerStatus) -> Iterator[tuple[str, ...]]:
    """Yield the settings of a server as its arguments set them, else as the server reports them.

    A setting is shown under its flag. A setting for which the engine has no flag is shown under its
    own name, and only if the server reports it.
    """
    engine = ENGINES[server.engine]
    given = ServeArgs.of(server.args, engine)
    side = "server" if server.role == "server" else f"server ({server.role})"
    for setting in _OF_SERVERS:
        turns_on = given.flag(setting)
        reported = engine.reported(setting, server.reported)
        if (name := turns_on or engine.flags_off.get(setting)) is None:
            if reported is not None:
                yield (setting.value, f"{reported} (reported)", side, ABSENT)
            continue
        if setting in engine.computed_settings:
            yield (setting.value, _computed(setting, server), side, "server.args")
            continue
        is_on = given.switched(setting, default=True) == (turns_on is not None)
        switch = str(is_on).lower() if given.is_switched(setting) else None
        value = given.text(setting) or switch
        yield (
            name,
            value or (f"{reported} (reported)" if reported else "default"),
            side,
            ("server.args"),
        )


def _computed(setting: EngineSetting, server: ServerStatus) -> str:
    """Return a setting that follows from several flags, else as the server reports it."""
    engine = ENGINES[server.engine]
    try:
        value = ServeArgs.of(server.args, engine).whole(setting)
    except UnreadableValue:
        value = None
    reported = engine.reported(setting, server.reported)
    if value is not None:
        return str(value)
    return f"{reported} (reported)" if reported else "default"


def _text(value: object) -> str:
    """Format a value as YAML on one line, such as `{requestRates: [1, 4]}`."""
    return (
        "default"
        if value is None
        else json.dumps(value, ensure_ascii=False).replace('"', "")[:MAX_CHARS]
    )


def kv_cache_text(server: ServerStatus) -> str:
    """Return text such as `KV cache 416304 tokens in 50.8 GiB a GPU, 128 KiB a token and GPU`.

    The text is empty if the server does not report its KV cache. The bytes a token are the
    available memory divided by the tokens of one engine; compare them with what `benchrun kv-cache`
    computes.
    """
    tokens = server.kv_cache_tokens
    if tokens is None:
        return ""
    engines = server_limits(
        server.args, ENGINES[server.engine], server.reported
    ).engines  # `tokens` adds up their caches.
    each_rank = re.findall(
        r"[0-9]+(?:\.[0-9]+)?", server.reported.get("available_kv_cache_gib", "")
    )
    # vLLM measures nothing where the size was given (always on CPUs).
    given = (
        ENGINES[server.engine].reported(
            EngineSetting.KV_CACHE_BYTES, server.reported
        )
        or ""
    )
    gib = min(
        map(float, each_rank),
        default=int(given) / serve_args.GIB
        if re.fullmatch("[0-9]{1,15}", given)
        else 0.0,
    )
    each = (
        serve_args.memory(gib * serve_args.GIB * engines / tokens) if tokens else ""
    )
    size = (
        f" in {figure(gib)} GiB a GPU, {each} a token and GPU"
        if gib and each
        else ""
    )
    return f"KV cache {tokens} tokens{size}"
