"""The KV cache that a model's config.json describes.

The keys are those of the transformers library. For a missing key the default of the model's class
is taken, as in vLLM. An unknown kind of attention raises an error; nothing is guessed.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import contains
from typing import Any, Literal, NamedTuple, TypeVar

from benchrun.sizing.cache_layers import Layer, ModelShape, UnknownShape
from benchrun.sizing.known_models import (
    LAYERS_DIFFER,
    STATES_ONLY,
    WRAPPERS,
    Config,
    defaults,
    known_type,
    unknown_keys,
)

_Value = TypeVar("_Value", list[Any], dict[str, Any])
# Above every number that a model has: a larger one is a mistake, and slow to work with.
MOST = 10**12


# Single values of config.json. A value of the wrong type is an error that names its key, never a
# guess.
def whole(config: Config, name: str) -> int:
    """Return a whole number above 0 from a key; raise UnknownShape if there is none."""
    if (value := number_if_any(config, name)) is None:
        raise UnknownShape(
            f"config.json has no {name}, which the size of the KV cache needs: take the whole file "
            "from the model's repository"
        )
    if not isinstance(value, int):
        raise UnknownShape(f"{name} is {value!r}, expected a whole number above 0")
    return value


def whole_if_any(config: Config, name: str) -> int | None:
    """Return a whole number above 0, or None if the key is missing, null, false or 0.

    Raises UnknownShape for any other value.
    """
    return whole(config, name) if config.get(name) else None


def number_if_any(config: Config, name: str) -> float | None:
    """Return a number above 0 and at most MOST, or None if the key is missing.

    Raises UnknownShape for any other value.
    """
    if (value := config.get(name)) is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= MOST
    ):
        raise UnknownShape(
            f"{name} is {value!r}, expected a number above 0 and at most {MOST:g}"
        )
    return value


def value_if_any(config: Config, name: str, kind: type[_Value]) -> _Value | None:
    """Return a list or an object (`kind`), or None if the key is missing.

    Raises UnknownShape for a value of another type.
    """
    if (value := config.get(name)) is not None and not isinstance(value, kind):
        raise UnknownShape(
            f"{name} is {value!r}, expected {'a list' if kind is list else 'an object'}"
        )
    return value


_KINDS: Mapping[Literal["Full", "State"], tuple[str, ...]] = {
    "Full": ("full_attention", "attention", "full", "global", "chunked_attention"),
    "State": (
        "linear_attention",
        "mamba",
        "mamba2",
        "conv",
        "recurrent",
        "kda",
        "gdn",
        "ssm",
    ),
}
"""Kind -> names of layer types. Chunked attention counts as full: vLLM keeps every token, because
its hybrid cache manager is off for such models."""
_SLIDING = ("sliding_attention", "sliding_window", "sliding", "local", "swa")
_NOTHING = ("mlp", "moe", "no_op")
_PERIODS: Mapping[str, int] = {
    "gemma2": 2,
    "gemma3_text": 6,
    "gemma3": 6,
    "gemma3n_text": 5,
    "gemma4_text": 6,
    "cohere2": 4,
    "gpt_oss": 2,
    "olmo3": 4,
}
"""Number of layers in a period, whose last layer has full attention, for models whose config.json
lists no layer types."""
_WINDOW_EVERYWHERE = ("mistral", "mixtral", "phi3", "phimoe")
_OFF_UNLESS_SWITCHED_ON = ("qwen2", "qwen3")
"""Models with a window in config.json that is used only if use_sliding_window is set."""
_NEMOTRON = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


class Attention(NamedTuple):
    """The attention type of one layer."""

    kind: Literal["Full", "Sliding", "State"]
    window_tokens: int | None = None


def attention_of_layers(
    text: Config, *, model_type: str, count: int
) -> tuple[Attention, ...]:
    """Return the attention type of each layer that has a cache.

    Raises UnknownShape for an unknown layer type.
    """
    # Tokens that a layer with a window looks back; None if no layer has one.
    used = text.get(
        "use_sliding_window", not model_type.startswith(_OFF_UNLESS_SWITCHED_ON)
    )
    window = whole_if_any(text, "sliding_window") if used else None
    if window and model_type == "cohere2":
        window += 1
    sliding = Attention("Full") if window is None else Attention("Sliding", window)
    known = {
        name: Attention(kind) for kind, names in _KINDS.items() for name in names
    } | dict.fromkeys(_SLIDING, sliding)
    types = _types(
        text, model_type=model_type, count=count, has_window=window is not None
    )
    for name in types:
        if name not in known and name not in _NOTHING:
            raise UnknownShape(
                f"config.json has a layer of type {name!r}, which benchrun does not know"
            )
    return tuple(known[name] for name in types if name in known)


def _types(
    text: Config, *, model_type: str, count: int, has_window: bool
) -> list[str]:
    if (listed := _listed(text)) is not None:
        if len(listed) < count:
            raise UnknownShape(
                f"config.json lists the types of {len(listed)} layers, but "
                f"num_hidden_layers is {count}"
            )
        return listed[:count]
    if (is_full := _beside_states(text)) is not None:
        return [
            "full_attention" if is_full(n) else "linear_attention"
            for n in range(count)
        ]
    if model_type in LAYERS_DIFFER:
        raise UnknownShape(
            f"config.json does not list which layers of {model_type} have attention, "
            "which the size of "
            "the KV cache needs: take the whole file from the model's repository"
        )
    if not has_window:
        return ["full_attention"] * count
    if model_type.startswith(_OFF_UNLESS_SWITCHED_ON):
        first = whole_if_any(text, "max_window_layers") or 0
        return [
            "full_attention" if n < first else "sliding_attention"
            for n in range(count)
        ]
    period = (
        text.get("sliding_window_pattern")
        or text.get("_sliding_window_pattern")
        or _PERIODS.get(model_type)
    )
    if isinstance(period, str):
        if not {*period} <= {"L", "G"}:
            raise UnknownShape(
                f"sliding_window_pattern is {period!r}, expected only the letters L and G"
            )
        return [
            "sliding_attention"
            if period[n % len(period)] == "L"
            else "full_attention"
            for n in range(count)
        ]
    if period is None and model_type in _WINDOW_EVERYWHERE:
        return ["sliding_attention"] * count
    if period is None:
        raise UnknownShape(
            f"config.json does not list which layers of {model_type} have a window, which the size "
            "of the KV cache needs: take the whole file from the model's repository"
        )
    period = whole({"sliding_window_pattern": period}, "sliding_window_pattern")
    found = [
        "sliding_attention" if (n + 1) % period else "full_attention"
        for n in range(count)
    ]
    if model_type == "gemma4_text":
        found[-1] = "full_attention"
    return found


def _listed(text: Config) -> list[str] | None:
    """Return the type of each layer if config.json lists them one by one, else None."""
    types = value_if_any(text, "layer_types", list) or value_if_any(
        text, "layers_block_type", list
    )
    if types:
        return [str(each) for each in types]
    pattern = text.get("hybrid_override_pattern")
    return (
        [_NEMOTRON.get(letter, letter) for letter in pattern]
        if isinstance(pattern, str)
        else None
    )


def _beside_states(text: Config) -> Callable[[int], bool] | None:
    """Return a function that says whether layer n, from 0, has full attention.

    The other layers of the model keep a state. Returns None if config.json has no key for this.
    """
    if (interval := whole_if_any(text, "full_attention_interval")) is not None:
        return lambda n: (n + 1) % interval == 0
    if (period := whole_if_any(text, "attn_layer_period")) is not None:
        offset = whole_if_any(text, "attn_layer_offset") or 0
        return lambda n: n % period == offset
    for name in ("attn_layer_indices", "full_attn_idxs"):
        if (places := value_if_any(text, name, list)) is not None:
            return partial(contains, places)
    if (kinds := value_if_any(text, "attn_type_list", list)) is not None:
        return lambda n: n < len(kinds) and kinds[n] == 1
    # Kimi counts its layers from 1.
    states = value_if_any(
        value_if_any(text, "linear_attn_config", dict) or {}, "kda_layers", list
    )
    return None if states is None else lambda n: n + 1 not in states


# The whole cache, layer by layer.

_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys of the text part, which has the KV cache, in models for more than text."""
_KV_HEADS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
_CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_OTHER_NAMES = {
    "n_layer": "num_hidden_layers",
    "n_layers": "num_hidden_layers",
    "num_layers": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_heads": "num_attention_heads",
    "n_embd": "hidden_size",
    "d_model": "hidden_size",
}
"""Key names of GPT-2 and related models, ChatGLM and DBRX, with the usual names."""
_EXPERTS = (
    "num_experts",
    "moe_num_experts",
    "n_routed_experts",
    "num_local_experts",
)
_LATENT = (
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "kimi_k2",
    "kimi_linear",
    "glm4_moe_lite",
    "glm_moe_dsa",
    "longcat_flash",
    "pangu_ultra_moe",
    "axk1",
)
"""Models whose latent vectors vLLM caches without change (MLA)."""
_LATENT_KEYS = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
MAX_LAYERS = 10_000
_INDEX_BLOCK = 128
_INDEX_SCALE_BYTES = 4


def model_shape(config: Config) -> ModelShape:
    """Build the layers of a model's cache from its config.json. Raises UnknownShape."""
    part = _text_part(config)
    if part.get("is_encoder_decoder") or config.get("is_encoder_decoder"):
        raise UnknownShape(
            "an encoder-decoder model has a second cache, for the encoder, which benchrun can't "
            "compute"
        )
    model_type = known_type(part, config)
    text = _merged(part, model_type)
    count = whole(text, "num_hidden_layers")
    if count > MAX_LAYERS:
        raise UnknownShape(
            f"num_hidden_layers is {count:,}; no model has more than {MAX_LAYERS:,}"
        )
    layers, shared = _layers(text, model_type=model_type, count=count)
    caveats = [*_caveats(text, layers), *_unknown(part, config, count)]
    heads = whole(text, "num_attention_heads")
    experts = next(
        (found for each in _EXPERTS if (found := _experts(text, each))), 0
    )
    limit = _context(text, model_type)
    return ModelShape(
        model_type=model_type,
        layers=layers,
        query_heads=heads,
        dtype=_dtype(config, text),
        cache_dtype=_cache_dtype(config, text),
        weights_format=_weights_format(config, text),
        context_tokens=limit,
        default_tokens=_default_context(text, limit),
        plain_values=_plain_values(text, heads),
        hidden_layers=count,
        experts=experts,
        state_groups=_state_groups(text, layers),
        vocabulary=whole_if_any(part, "vocab_size")
        or whole_if_any(part, "padded_vocab_size"),
        mlp_size=_mlp_size(text, layers, experts),
        attention_size=_attention_size(text, layers, heads),
        weights_group=_weights_group(config, text),
        shared_layers=shared,
        caveats=tuple(caveats),
    )


def _merged(part: Config, model_type: str) -> Config:
    """Return the text part with the defaults of its class, and with one name for each key.

    A key that is null counts as missing, and has no default.
    """
    own = {
        name: part[other] for other, name in _OTHER_NAMES.items() if other in part
    }
    usual = {
        _OTHER_NAMES.get(name, name): value
        for name, value in defaults()[model_type].items()
    }
    whole_text = usual | own | dict(part)
    return {name: value for name, value in whole_text.items() if value is not None}


def _layers(
    text: Config, *, model_type: str, count: int
) -> tuple[tuple[Layer, ...], int]:
    """Return the layers that have a cache, and how many layers use another layer's cache.

    Raises UnknownShape if no layer has a KV cache.
    """
    if model_type in STATES_ONLY:
        raise UnknownShape(
            f"{model_type} keeps states: no layer of this model has a KV cache"
        )
    heads = whole(text, "num_attention_heads")
    if model_type == "nemotron-nas":
        found = tuple(_of_blocks(text, heads=heads, count=count))
    elif "block_configs" in text:
        raise UnknownShape(
            f"config.json has block_configs, which benchrun can't read for model_type {model_type}"
        )
    else:
        attention = attention_of_layers(text, model_type=model_type, count=count)
        shared = whole_if_any(text, "num_kv_shared_layers") or 0
        if shared >= len(attention):
            raise UnknownShape(
                f"num_kv_shared_layers is {shared}, but the model has {len(attention)} layers"
            )
        found = tuple(
            layer
            for kind in attention[: len(attention) - shared]
            for layer in _caches(
                text, kind, model_type=model_type, query_heads=heads
            )
        )
    if model_type == "falcon_h1":  # Every layer has both an attention and a state.
        found += (Layer(kind="State", heads=0, values=0),) * count
    if not any(layer.kind != "State" for layer in found):
        raise UnknownShape("no layer of this model has a KV cache")
    return found, whole_if_any(text, "num_kv_shared_layers") or 0


def _of_blocks(text: Config, *, heads: int, count: int) -> Iterator[Layer]:
    """Yield the layers of a model that an architecture search has pruned (block_configs).

    Some layers have no attention; each of the others has its own number of KV heads.
    """
    blocks = value_if_any(text, "block_configs", list)
    if blocks is None or len(blocks) != count:
        raise UnknownShape(
            f"block_configs has {len(blocks or ())} entries, expected one a layer ({count})"
        )
    for place, block in enumerate(blocks):
        attention = (
            value_if_any(block, "attention", dict)
            if isinstance(block, dict)
            else None
        )
        if attention is None or attention.get("replace_with_linear"):
            raise UnknownShape(
                f"block_configs[{place}] has a kind of attention that benchrun does not know"
            )
        if attention.get("no_op"):
            continue
        groups, rest = divmod(heads, whole(attention, "n_heads_in_group"))
        if rest or not groups:
            raise UnknownShape(
                f"block_configs[{place}].attention: n_heads_in_group does not divide {heads} heads"
            )
        yield Layer(kind="Full", heads=groups, values=2 * _head_size(text, heads))


def _experts(text: Config, name: str) -> int:
    value = text.get(name)
    return (
        whole({name: value[0]}, name)
        if isinstance(value, list) and value
        else (whole_if_any(text, name) or 0)
    )


def _state_groups(text: Config, layers: tuple[Layer, ...]) -> int | None:
    """Return the number of head groups of Mamba's states; None if the model has no such states."""
    if all(layer.kind != "State" for layer in layers):
        return None
    return whole_if_any(text, "mamba_n_groups") or whole_if_any(text, "n_groups")


def _unknown(part: Config, config: Config, count: int) -> Iterator[str]:
    """Yield a caveat for each setting in config.json that benchrun does not know."""
    if keys := unknown_keys(part, layers=count):
        yield (
            f"config.json has {', '.join(keys)}, which benchrun does not know: the KV "
            "cache may differ"
        )
    if part is not config and config.get("model_type") not in WRAPPERS:
        yield (
            f"benchrun knows only the text part of {config.get('model_type')!r}, of "
            f"type {part.get('model_type')!r}"
        )


def _dtype(config: Config, text: Config) -> str | None:
    found = next(
        (
            c[key]
            for c in (config, text)
            for key in ("dtype", "torch_dtype")
            if c.get(key)
        ),
        None,
    )
    return None if found is None else str(found).removeprefix("torch.")


def _plain_values(text: Config, heads: int) -> int:
    if text.get("kv_lora_rank") is None:
        return heads * 2 * _head_size(text, heads)
    return heads * sum(whole(text, name) for name in _LATENT_KEYS)


def _text_part(config: Config) -> Config:
    for name in _NESTED:
        inner = config.get(name)
        if isinstance(inner, Mapping):
            return _text_part(inner)
    return config


def _caches(
    text: Config, attention: Attention, *, model_type: str, query_heads: int
) -> list[Layer]:
    if attention.kind == "State":
        return [Layer(kind="State", heads=0, values=0)]
    if model_type in _LATENT and text.get("kv_lora_rank") is not None:
        latent = Layer(
            kind="Latent",
            heads=1,
            values=whole(text, "kv_lora_rank") + whole(text, "qk_rope_head_dim"),
        )
        if (size := whole_if_any(text, "index_head_dim")) is None:
            return [latent]
        return [
            latent,
            Layer(
                kind="Index",
                heads=1,
                values=size + size // _INDEX_BLOCK * _INDEX_SCALE_BYTES,
            ),
        ]
    if text.get("kv_lora_rank") is not None:
        raise UnknownShape(
            f"{model_type or 'the model'} has latent attention (kv_lora_rank) of a kind that "
            "benchrun does not know"
        )
    globally = attention.kind == "Full" and "global_head_dim" in text
    size = (
        whole(text, "global_head_dim")
        if globally
        else _head_size(text, query_heads)
    )
    heads = (
        whole_if_any(text, "num_global_key_value_heads")
        if globally and text.get("attention_k_eq_v")
        else None
    )
    if heads is None:
        is_single = text.get("multi_query") and not text.get(
            "new_decoder_architecture"
        )
        heads = 1 if is_single else _kv_heads(text, model_type, query_heads)
    return [
        Layer(
            kind=attention.kind,
            heads=heads,
            values=2 * size,
            window_tokens=attention.window_tokens,
        )
    ]


def _kv_heads(text: Config, model_type: str, query_heads: int) -> int:
    """Return the number of KV heads that config.json gives.

    If it gives none, return the number of query heads if the model's class does so, else raise
    UnknownShape.
    """
    if model_type == "dbrx":
        return whole(value_if_any(text, "attn_config", dict) or {}, "kv_n_heads")
    if (
        name := next((each for each in _KV_HEADS if each in text), None)
    ) is not None:
        return whole(text, name)
    if not defaults()[model_type] and model_type != "chatglm":
        raise UnknownShape(
            "config.json has no num_key_value_heads, which the size of the KV cache needs: take "
            "the whole file from the model's repository"
        )
    return query_heads


def _head_size(text: Config, query_heads: int) -> int:
    """Return how many numbers a head's key and its value have.

    Raises UnknownShape if the two differ: such a cache has a layout of its own.
    """
    size = whole_if_any(text, "head_dim") or whole_if_any(
        text, "hidden_size_per_head"
    )
    size = size or whole(text, "hidden_size") // query_heads
    if size == 0:
        raise UnknownShape(
            f"hidden_size is {text['hidden_size']}, too small for num_attention_heads {query_heads}"
        )
    if (values := whole_if_any(text, "v_head_dim")) not in (None, size):
        raise UnknownShape(
            f"a key has {size} numbers a head and a value {values} (v_head_dim); "
            "benchrun can't size such a cache"
        )
    return size


def _cache_dtype(config: Config, text: Config) -> str | None:
    """Return the KV cache type that a quantised checkpoint sets; None if it sets none."""
    keys = ("quantization_config", "compression_config")
    outer: Config = next(
        (
            c[key]
            for c in (config, text)
            for key in keys
            if isinstance(c.get(key), Mapping)
        ),
        {},
    )
    inner: Config = (
        outer["quantization"]
        if isinstance(outer.get("quantization"), Mapping)
        else outer
    )
    scheme = inner.get("kv_cache_scheme") or outer.get("kv_cache_scheme")
    if isinstance(scheme, Mapping):
        return "nvfp4" if scheme.get("num_bits") == 4 else "fp8"
    named = str(
        scheme
        or inner.get("kv_cache_quant_algo")
        or outer.get("kv_cache_quant_algo")
        or ""
    ).lower()
    return named if named in ("fp8", "nvfp4") else None


_IN_IT_ALREADY = (
    "su",
    "longrope",
    "llama3",
    "yarn",
    "deepseek_yarn",
    "deepseek_llama_scaling",
)
"""Kinds of RoPE scaling whose factor is already included in config.json's length."""


def _context(text: Config, model_type: str) -> int | None:
    """Return the longest sequence, in tokens, that the model is made for, or None.

    It is model_max_length if given, else the least of all such keys, times the factor of the older
    kinds of RoPE scaling. None if config.json has no such key.
    """
    lengths = [
        tokens
        for name in _CONTEXT
        if (tokens := number_if_any(text, name)) is not None
    ]
    if (own := number_if_any(text, "model_max_length")) is not None:
        lengths = [own]
    if not lengths:
        return None
    factor: float = 1
    for rope in _ropes(text):
        if rope_kind(rope) not in _IN_IT_ALREADY and "gemma3" not in model_type:
            factor = number_if_any(rope, "factor") or factor
    return int(min(lengths) * factor)


LENGTH_WHERE_NONE_IS_SAID = 2048  # Longest sequence in tokens that vLLM assumes.


def _default_context(text: Config, limit: int | None) -> int:
    """Return the longest sequence, in tokens, that vLLM accepts without --max-model-len.

    For LongRoPE that is the model's original length, before it was extended.
    """
    if any(rope_kind(rope) == "longrope" for rope in _ropes(text)):
        limit = whole_if_any(text, "original_max_position_embeddings") or limit
    return LENGTH_WHERE_NONE_IS_SAID if limit is None else limit


def _ropes(text: Config) -> list[Config]:
    """Return the RoPE settings: one for all layers, or one for each layer type."""
    rope = (
        value_if_any(text, "rope_parameters", dict)
        or value_if_any(text, "rope_scaling", dict)
        or {}
    )
    nested: list[Config] = [
        each for each in rope.values() if isinstance(each, dict)
    ]
    return nested or [rope]


def rope_kind(rope: Config) -> str:
    """Return the kind of a RoPE scaling, with "su" (LongRoPE's old name) as "longrope".

    Raises UnknownShape if it is not a string.
    """
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if not isinstance(kind, str):
        raise UnknownShape(f"rope_type is {kind!r}, expected a string")
    return "longrope" if kind == "su" else kind


def _quantization(config: Config, text: Config) -> Config | None:
    """Return what a checkpoint says about its quantised weights; None if they are plain."""
    for each in (config, text):
        for key in ("quantization_config", "compression_config"):
            if each.get(key) is not None:
                return value_if_any(each, key, dict) or {}
    return None


def _weights_format(config: Config, text: Config) -> str | None:
    """Return the method that a quantised checkpoint names; None if weights are not quantised.

    It is spelled as vLLM spells it. ModelOpt's own files name their producer instead.
    """
    if (quantization := _quantization(config, text)) is None:
        return None
    named = quantization.get("quant_method")
    producer = quantization.get("producer")
    if isinstance(producer, Mapping) and producer.get("name") == "modelopt":
        named = "modelopt"
    if not isinstance(named, str) or not named:
        return "of an unknown format"
    return named.lower().replace("compressed_tensors", "compressed-tensors")


def _mlp_size(text: Config, layers: tuple[Layer, ...], experts: int) -> int | None:
    """Return the size of the MLP that each layer has; None if layers differ, or it is not said."""
    size = text.get("intermediate_size")
    differ = (
        experts
        or "block_configs" in text
        or any(layer.kind == "State" for layer in layers)
    )
    return None if differ or type(size) is not int or size < 1 else size


def _attention_size(
    text: Config, layers: tuple[Layer, ...], query_heads: int
) -> int | None:
    """Return how many numbers the attention of each layer gives to its output weights.

    None if layers differ, or if what they keep does not tell the size of a head.
    """
    differ = "block_configs" in text or any(
        layer.kind not in ("Full", "Sliding") for layer in layers
    )
    sizes = {layer.values // 2 for layer in layers}
    return None if differ or len(sizes) != 1 else query_heads * sizes.pop()


_BESIDE_LAYERS = frozenset({
    "embed_tokens", "gate", "lm_head", "mm_projector", "multi_modal_projector", "router",
    "shared_expert_gate", "vision_model", "vision_tower", "visual",
})  # fmt: skip
"""Parts of modules' names whose weights no tensor parallelism divides along their rows."""


def _weights_group(config: Config, text: Config) -> int | None:
    """Return how many numbers of a row of quantised weights belong together, 1 if none do.

    Known are only formats for which vLLM refuses to divide them, of checkpoints that quantise MLP
    and attention of every layer. None if it is not known.
    """
    if (quantization := _quantization(config, text)) is None:
        return 1
    method = _weights_format(config, text)
    if method == "fp8":
        sizes = quantization.get("weight_block_size")
        found = sizes[-1] if isinstance(sizes, list) and sizes else sizes or 1
    elif method == "awq":
        found = quantization.get("q_group_size") or quantization.get("group_size")
        found = 1 if found == -1 else found
    else:
        return None
    if type(found) is not int or found < 1 or _some_layers_are_plain(quantization):
        return None
    return found


def _some_layers_are_plain(quantization: Config) -> bool:
    """Return whether weights within layers may not be quantised, by what a checkpoint lists."""
    lists = [
        quantization.get(key) or []
        for key in ("modules_to_not_convert", "ignored_layers", "ignore")
    ]
    named = [
        each
        for listed in lists
        for each in (listed if isinstance(listed, list) else [listed])
    ]
    return not all(
        isinstance(each, str)
        and (each.endswith("norm") or _BESIDE_LAYERS & {*each.split(".")})
        for each in named
    )


def _caveats(text: Config, layers: tuple[Layer, ...]) -> list[str]:
    found = []
    if count := sum(layer.kind == "State" for layer in layers):
        found.append(
            f"{count} layers keep a state of fixed size a sequence (Mamba or linear attention), "
            "which is not counted: "
            "less fits than shown"
        )
    if (
        len(
            {
                layer.heads * layer.values
                for layer in layers
                if layer.kind in ("Full", "Sliding")
            }
        )
        > 1
    ):
        found.append(
            "layers of different sizes share one pool, which vLLM packs in ways that depend on "
            "the GPU"
        )
    if text.get("num_nextn_predict_layers"):
        found.append(
            "layers for speculative decoding are not counted; they have a cache only "
            "if it is switched on"
        )
    return found
