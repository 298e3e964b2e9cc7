"""Sequences longer than the model is made for: vLLM refuses to start with them, unless it is told that they are meant."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun.sizing.engine import max_model_tokens
from benchrun.sizing.layers import ModelShape
from benchrun.sizing.serve_args import ServeArgs

ALLOW_LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
"""vLLM's variable for sequences longer than the model is made for."""


@dataclass(frozen=True, slots=True)
class BeyondContext:
    """A --max-model-len above the model's own limit."""

    is_meant: bool
    """Whether vLLM was told so: by its variable, or by overriding the model's configuration."""
    sentence: str


def beyond_context(args: ServeArgs, shape: ModelShape, *, is_allowed: bool) -> BeyondContext | None:
    """What is said of a limit beyond the model's; None: it is within, or one of both is not known. `is_allowed`: whether the
    variable ALLOW_LONGER is set. Raises UnreadableValue."""
    longest, made_for = max_model_tokens(args), shape.context_tokens
    if longest is None or made_for is None or longest <= made_for:
        return None
    said = f"--max-model-len {longest:,}, but the model is made for {made_for:,} tokens"
    if is_allowed or args.is_given("hf-overrides"):
        return BeyondContext(True, f"{said}: what is asked for beyond may come out as noise")
    remedy = f"lower it, give --hf-overrides with the RoPE scaling that is meant, or set {ALLOW_LONGER}=1"
    return BeyondContext(False, f"{said}: vLLM will not start; {remedy}")
