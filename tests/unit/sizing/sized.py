"""A config.json sized with flags, in one call."""

from __future__ import annotations

from benchrun.sizing.config_json import model_shape
from benchrun.sizing.serve_args import ServeArgs
from benchrun.sizing.sizing import Sizing, sizing_of
from benchrun.sizing.vllm_settings import engine_of
from unit.sizing.configs import Config


def sized(config: Config, *flags: str) -> Sizing:
    """The sizing of a model in a server with these flags."""
    shape = model_shape(config)
    return sizing_of(shape, engine_of(ServeArgs.of(flags), shape))
