"""The settings with which a server really ran, in words that do not depend on its engine.

What the server reports of itself counts (its routes, its log), else what its arguments say. What
neither says is not known: a default is never assumed, because it differs between releases, GPUs and
models.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from benchrun_client.engines import ENGINES, Engine, EngineSetting

from benchrun.api import ServerStatus
from benchrun.sizing import ServeArgs, UnreadableValue, tokens_of

MAX_CHARS = 60  # Most characters of a value.
OFF, ON = "off", "on"


class Effective(NamedTuple):
    """The value of a setting, and who says so."""

    value: str
    source: Literal["Reported", "Args"]


def effective_settings(
    server: ServerStatus, args: Sequence[str] | None = None
) -> Mapping[EngineSetting, Effective]:
    """Return the settings of a server that are known, in the order of `EngineSetting`.

    `args` are the words that it was started with, if the status does not have them all.
    """
    engine = ENGINES[server.engine]
    given = given_settings(tuple(server.args if args is None else args), engine)
    found: dict[EngineSetting, Effective] = {}
    for setting in (each for each in EngineSetting if each.effects):
        reported = engine.reported(setting, server.reported)
        value = None if reported is None else neutral(setting, reported)
        if value is not None:
            found[setting] = Effective(value, "Reported")
        elif setting in given:
            found[setting] = Effective(given[setting], "Args")
    if server.kv_cache_tokens is not None:
        each = server.kv_cache_tokens // _processes(found)
        found[EngineSetting.KV_CACHE_TOKENS] = Effective(str(each), "Reported")
    return _like_the_weights(found)


@lru_cache(maxsize=128)
def given_settings(
    args: tuple[str, ...], engine: Engine
) -> Mapping[EngineSetting, str]:
    """Return the settings that a server's arguments give, as `neutral` spells them.

    Results are cached: the runs of a comparison have few different arguments, which are read again
    and again.
    """
    given = ServeArgs.of(args, engine)
    found = {setting: _given(setting, given) for setting in EngineSetting}
    return {setting: value for setting, value in found.items() if value is not None}


def _given(setting: EngineSetting, given: ServeArgs) -> str | None:
    if setting in given.engine.computed_settings:
        try:
            number = given.whole(setting)
        except UnreadableValue:
            return None
        return None if number is None else str(number)
    text = given.text(setting)
    if text is not None:
        return neutral(setting, text)
    if not given.is_switched(setting):
        return None
    return ON if given.switched(setting, default=True) else OFF


def _processes(found: Mapping[EngineSetting, Effective]) -> int:
    known = found.get(EngineSetting.DATA_PARALLEL)
    return _whole_or(known.value, 1) if known is not None else 1


def _whole_or(text: str, otherwise: int) -> int:
    """Return the whole number above 0 that the text has, else `otherwise`."""
    try:
        return tokens_of(text) or otherwise
    except ValueError:
        return otherwise


def _like_the_weights(
    found: dict[EngineSetting, Effective],
) -> Mapping[EngineSetting, Effective]:
    """Replace the type `auto` of a KV cache by that of the weights, which the server then takes.

    Any other setting that is still `auto` is left out, because it is not known.
    """
    cache = found.get(EngineSetting.KV_CACHE_DTYPE)
    weights = found.get(EngineSetting.DTYPE)
    if cache is not None and cache.value == AUTO and weights is not None:
        found[EngineSetting.KV_CACHE_DTYPE] = weights
    return {setting: each for setting, each in found.items() if each.value != AUTO}


AUTO = "auto"
_TYPES = {
    "half": "float16",
    "float": "float32",
    "f16": "float16",
    "fp16": "float16",
    "f32": "float32",
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp8": "fp8_e4m3",
}
"""Other name of a type -> its usual one."""
_WORDS = {"true": ON, "false": OFF, "none": "none", "null": "none", "": "none"}


def shortened(text: str) -> str:
    """Return the value; one above `MAX_CHARS` is cut, and ends with a digest of the whole value."""
    if len(text) <= MAX_CHARS:
        return text
    mark = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    return f"{text[: MAX_CHARS - len(mark) - 4]}... {mark}"


def neutral(setting: EngineSetting, text: str) -> str | None:
    """Return a setting's value in the spelling used for all engines; None if it was cut off."""
    if setting is EngineSetting.SPECULATION:
        found = _speculation(text)
        return None if found is None else shortened(found)
    short = shortened(text.strip())
    if (known := _WORDS.get(short.lower())) is not None:
        return known
    if setting in (EngineSetting.DTYPE, EngineSetting.KV_CACHE_DTYPE):
        name = short.lower().removeprefix("torch.")
        return _TYPES.get(name, name)
    for read in _NUMBERS:
        try:
            return read(short)
        except ValueError:
            continue
    return short


_NUMBERS: tuple[Callable[[str], str], ...] = (
    lambda text: str(tokens_of(text)),
    lambda text: f"{float(text):g}",
)


def _speculation(text: str) -> str | None:
    """Return how tokens are guessed, by which model, and how many: `eagle3 of org/m, 4 tokens`.

    vLLM takes JSON.
    """
    if not text.lstrip().startswith("{"):
        return _WORDS.get(text.strip().lower(), text.strip())
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return None
    named = [each for key in ("method", "model") if (each := given.get(key))]
    tokens = given.get("num_speculative_tokens")
    if not named or type(tokens) is not int:
        return None
    if not all(isinstance(each, str) for each in named):
        return None
    return f"{' of '.join(named)}, {tokens} tokens"
