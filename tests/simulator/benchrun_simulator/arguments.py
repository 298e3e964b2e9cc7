"""The command line of `vllm serve` resolved into settings, with the flags of `sim_flags`.

Usage errors look and end like vLLM's (exit code 2); values that vLLM's configuration refuses raise
`Refusal` (exit code 1). Flags in `vllm_flags` are accepted and reported without effect.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from benchrun_simulator import kv_transfer, sim_flags, vllm_flags
from benchrun_simulator.dialects import in_vllms_words
from benchrun_simulator.refusals import (
    USAGE,
    check_bounds,
    kv_cache_too_small,
    model_folder_missing,
    model_length_too_large,
    model_not_cached,
)
from benchrun_simulator.settings import Settings

DEFAULT_MODEL = "Qwen/Qwen3-0.6B"
DEFAULT_MAX_MODEL_LEN = 8192
"""Where the model's folder has no config.json."""
DEFAULT_KV_TOKENS = 262_144
SUFFIXES = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
}
COMMANDS = "{chat,complete,serve,launch,bench,collect-env,download-kernels,preload,run-batch,snapshot}"
SECRETS = ("api_key", "hf_token")


def parse(
    arguments: list[str], *, environment: Mapping[str, str], program: str = "vllm"
) -> Settings:
    """Resolve a command line, which may begin with `serve`, into settings.

    `program` is its name in usage errors. Exits with code 2 on a usage error; raises `Refusal` for
    values that vLLM refuses.
    """
    words = arguments[1:] if arguments[:1] == ["serve"] else arguments
    parser = _parser(program)
    found, unknown = parser.parse_known_args(_normalised(in_vllms_words(words)))
    if unknown:
        # In vLLM the top-level parser complains about what the subcommand's parser left over.
        usage = f"usage: {program} "
        lines = (
            f"{usage}[-h] [-v]",
            " " * len(usage) + COMMANDS,
            " " * len(usage) + "...",
        )
        complaint = f"{program}: error: unrecognized arguments: {' '.join(unknown)}"
        sys.stderr.write("\n".join((*lines, complaint, "")))
        raise SystemExit(USAGE)
    return _resolve(
        found, declared=_declared(found, parser), environment=environment
    )


def human_readable_int(text: str) -> int:
    """Read `32768`, `32k` (decimal) or `32K` (binary), as vLLM does."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", text.strip())
    if not match:
        return int(text)
    number, suffix = match.groups()
    if suffix.isupper() and "." in number:
        raise argparse.ArgumentTypeError(
            f"Decimals are not allowed with binary suffixes like {suffix}. "
            f"Did you mean to use {number}{suffix.lower()} instead?"
        )
    return int(float(number) * SUFFIXES[suffix])


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(
            f"usage: vllm serve [model_tag] [options]\n{self.prog}: error: {message}\n"
        )
        raise SystemExit(USAGE)


def _normalised(words: list[str]) -> list[str]:
    """Write flags in one way.

    `--max_model_len` becomes `--max-model-len`, and `--x.member value` becomes `--x {}`.
    """
    normalised: list[str] = []
    remaining = iter(words)
    for word in remaining:
        name, equals, value = word.partition("=")
        if not name.startswith("--"):
            normalised.append(word)
        elif "." in name:
            normalised += [name.partition(".")[0].replace("_", "-"), "{}"]
            if not equals:
                next(remaining, None)
        else:
            normalised.append(name.replace("_", "-") + equals + value)
    return normalised


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(prog=f"{program} serve", argument_default=None)
    parser.add_argument("model_tag", nargs="?")
    _add_effective_flags(parser)
    sim_flags.add_sim_flags(parser)
    _add_reported_flags(parser)
    return parser


def _add_effective_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model")
    add("--served-model-name", nargs="+")
    add("--host", default="0.0.0.0")
    add("--port", type=int, default=8000)
    add("--headless", action="store_true")
    add("--api-key", nargs="+")
    add("--max-model-len", type=human_readable_int)
    add("--max-num-seqs", type=int, default=256)
    add("--max-num-batched-tokens", type=human_readable_int, default=2048)
    add("--max-num-queued-reqs", type=int)
    add("--max-num-queued-tokens", type=int)
    add("--stream-interval", type=int, default=1)
    add("--block-size", type=int, default=16)
    add("--sim-kv-tokens", type=human_readable_int, default=None)
    add(
        "--enable-prefix-caching",
        action=argparse.BooleanOptionalAction,
        default=True,
    )
    add("--tensor-parallel-size", "-tp", type=int, default=1)
    add(
        "--gpu-memory-utilization",
        "--device-memory-utilization",
        type=float,
        default=0.92,
    )
    add("--seed", type=int, default=0)
    add("--tokenizer")
    add("--disable-log-stats", action="store_true")
    add(
        "--enable-prompt-tokens-details",
        action=argparse.BooleanOptionalAction,
        default=False,
    )
    add("--kv-transfer-config", type=kv_transfer.config)


def _add_reported_flags(parser: argparse.ArgumentParser) -> None:
    def add(names: list[str], **form: Any) -> None:
        for name in names:
            parser.add_argument(*name.split("|"), **form)

    add(vllm_flags.SWITCHES, action="store_true")
    add(vllm_flags.BOOLEANS, action=argparse.BooleanOptionalAction)
    add(vllm_flags.INTEGERS, type=int)
    add(vllm_flags.FLOATS, type=float)
    add(vllm_flags.TEXTS)
    add(vllm_flags.LISTS, nargs="+")
    add(vllm_flags.JSONS, type=json.loads)


def _declared(
    found: argparse.Namespace, parser: argparse.ArgumentParser
) -> dict[str, object]:
    given = {
        name: value
        for name, value in vars(found).items()
        if value != parser.get_default(name)
    }
    return {
        name: "***" if name in SECRETS else value for name, value in given.items()
    }


def _resolve(
    found: argparse.Namespace,
    *,
    declared: dict[str, object],
    environment: Mapping[str, str],
) -> Settings:
    model = found.model_tag or found.model or DEFAULT_MODEL
    folder = _model_folder(model, found.revision or "main", environment)
    config = _config(folder)
    max_model_len = _max_model_len(
        found.max_model_len, config.get("max_position_embeddings"), environment
    )
    check_bounds({name: getattr(found, name) for name in _BOUNDED})
    kv_tokens = found.sim_kv_tokens or max(DEFAULT_KV_TOKENS, max_model_len)
    if kv_tokens < max_model_len:
        raise kv_cache_too_small(
            max_model_len=max_model_len, kv_tokens=kv_tokens, **_kv_bytes(config)
        )
    return Settings(
        engine=found.sim_engine,
        model=model,
        served_names=tuple(found.served_model_name or [model]),
        root=found.sim_root or model,
        host=found.host,
        port=found.port,
        headless=found.headless,
        version=found.sim_version,
        api_keys=_api_keys(found, environment),
        development_mode=environment.get("VLLM_SERVER_DEV_MODE", "0")
        not in ("", "0"),
        max_model_len=max_model_len,
        max_sequences=found.max_num_seqs,
        max_batched_tokens=found.max_num_batched_tokens,
        max_queued_requests=found.max_num_queued_reqs,
        max_queued_tokens=found.max_num_queued_tokens,
        stream_interval=found.stream_interval,
        block_size=found.block_size,
        kv_tokens=kv_tokens,
        prefix_caching=found.enable_prefix_caching,
        kv_transfer=kv_transfer.transfer(
            found.kv_transfer_config, fails=found.sim_kv_transfer_fails
        ),
        gpu_memory_utilization=found.gpu_memory_utilization,
        seed=found.seed,
        jitter_seconds=found.sim_jitter_ms / 1e3,
        timing=sim_flags.timing(found),
        disturbances=sim_flags.disturbances(found),
        prefill_serial=found.sim_prefill_serial,
        reasoning_tokens=found.sim_reasoning_tokens,
        thinks_anyway=found.sim_thinks_anyway,
        ignores_schema=found.sim_ignores_schema,
        pooling=found.runner == "pooling",
        adapters=tuple(each.partition("=")[0] for each in found.lora_modules or ()),
        preempted_request=found.sim_preempt_at_request,
        frontend_seconds=found.sim_frontend_ms / 1e3,
        template_tokens=found.sim_template_tokens,
        way_seconds=found.sim_way_ms / 1e3,
        foreign=sim_flags.foreign(found),
        load_seconds=found.sim_load_seconds,
        log_stats=not found.disable_log_stats,
        prompt_tokens_details=found.enable_prompt_tokens_details,
        request_log=found.sim_log_requests,
        tokenizer_folder=Path(found.tokenizer or folder),
        faults=sim_flags.faults(found),
        declared=declared,
    )


_BOUNDED = (
    *(
        "gpu_memory_utilization",
        "block_size",
        "tensor_parallel_size",
        "max_num_seqs",
        "max_num_batched_tokens",
    ),
    *("max_num_queued_reqs", "max_num_queued_tokens", "stream_interval"),
)


def _api_keys(
    found: argparse.Namespace, environment: Mapping[str, str]
) -> tuple[str, ...]:
    keys = found.api_key or [environment.get("VLLM_API_KEY", "")]
    return tuple(key for key in keys if key)


def _model_folder(
    model: str, revision: str, environment: Mapping[str, str]
) -> Path:
    """Return where a model's files are; of a hub that would be asked, a folder of its name.

    Raises Refusal if a path is no folder, or if a name is not in the cache while the hub is off.
    """
    if Path(model).is_dir():
        return Path(model)
    if model.startswith("/"):
        raise model_folder_missing(model)
    if environment.get("HF_HUB_OFFLINE") != "1":
        return Path(model)
    home = Path(environment.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    cache = Path(environment.get("HF_HUB_CACHE", home / "hub"))
    stored = cache / f"models--{model.replace('/', '--')}"
    named = stored / "refs" / revision
    commit = named.read_text() if named.is_file() else revision
    if not (folder := stored / "snapshots" / commit).is_dir():
        raise model_not_cached()
    return folder


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    return json.loads(file.read_text()) if file.is_file() else {}


def _kv_bytes(config: Mapping[str, Any]) -> dict[str, int]:
    """Return the bytes of a token's key and value over all layers, in 16 bits.

    Empty for a model whose configuration does not tell.
    """
    try:
        size_of_head = config["hidden_size"] // config["num_attention_heads"]
        return {
            "bytes_per_token": 2
            * 2
            * config["num_hidden_layers"]
            * config["num_key_value_heads"]
            * size_of_head
        }
    except KeyError:
        return {}


def _max_model_len(
    asked: int | None, derived: int | None, environment: Mapping[str, str]
) -> int:
    if asked is None or asked == -1:
        return derived or DEFAULT_MAX_MODEL_LEN
    if (
        derived is not None
        and asked > derived
        and not environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN")
    ):
        raise model_length_too_large(asked, derived)
    return asked
