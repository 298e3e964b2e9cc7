"""Bytes of a head in each type that vLLM keeps a cache in."""

import pytest
from benchrun.sizing import KNOWN, Layer, UnknownCacheType, head_bytes, is_quantized

HEAD = Layer(kind="Full", heads=8, values=256)
LATENT = Layer(kind="Latent", heads=1, values=576)
INDEX = Layer(kind="Index", heads=1, values=132)


@pytest.mark.parametrize(
    ("dtype", "plain", "latent"),
    [
        ("float32", 1024, 2304),
        ("float", 1024, 2304),
        ("bfloat16", 512, 1152),
        ("float16", 512, 1152),
        ("half", 512, 1152),
        ("fp8", 256, 576),
        ("fp8_e4m3", 256, 576),
        ("fp8_e5m2", 256, 576),
        ("fp8_inc", 256, 576),
        ("int8_per_token_head", 256 + 8, 576 + 8),
        ("fp8_per_token_head", 256 + 8, 576 + 8),
        ("nvfp4", 128 + 16, 288 + 36),
        ("nvfp4_4over6", 128 + 16, 288 + 36),
    ],
)
def test_a_head_of_keys_and_values_and_a_latent_vector(
    dtype: str, plain: int, latent: int
) -> None:
    assert (head_bytes(HEAD, dtype), head_bytes(LATENT, dtype)) == (plain, latent)


@pytest.mark.parametrize(
    ("dtype", "size"), [("fp8_ds_mla", 512 + 16 + 128), ("nvfp4_ds_mla", 352)]
)
def test_deepseeks_formats_hold_a_latent_vector_with_its_scales(
    dtype: str, size: int
) -> None:
    assert head_bytes(LATENT, dtype) == size
    with pytest.raises(
        UnknownCacheType, match=rf"'{dtype}' is for latent vectors \(MLA\)"
    ):
        head_bytes(HEAD, dtype)


@pytest.mark.parametrize("dtype", sorted(KNOWN))
def test_an_index_key_is_what_it_is_in_every_type(dtype: str) -> None:
    assert head_bytes(INDEX, dtype) == 132


@pytest.mark.parametrize("dtype", ["fp9", "FP8", "auto", ""])
def test_of_an_unknown_type_those_that_are_known_are_listed(dtype: str) -> None:
    with pytest.raises(UnknownCacheType) as problem:
        head_bytes(HEAD, dtype)
    assert repr(dtype) in str(problem.value)
    assert str(problem.value).endswith(", ".join(sorted(KNOWN)))


@pytest.mark.parametrize("dtype", sorted({*KNOWN, "fp9"}))
def test_only_types_below_16_bits_are_quantised(dtype: str) -> None:
    assert is_quantized(dtype) is (dtype.startswith(("fp8", "int8", "nvfp4")))
