"""A config.json sized with flags, in one call."""

from benchrun.sizing import ServeArgs, Sizing, engine_of, model_shape, sizing_of
from benchrun_client.engines import ENGINES
from unit.sizing.configs import Config

VLLM = ENGINES["VLLM"]


def sized(config: Config, *flags: str) -> Sizing:
    """Return the sizing of a model in a server with these flags."""
    shape = model_shape(config)
    return sizing_of(shape, engine_of(ServeArgs.of(flags, VLLM), shape))
