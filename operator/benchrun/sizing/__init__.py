"""How much KV cache a model needs, and how much fits: vLLM's own arithmetic, from a model's
config.json. Pure."""

from benchrun.sizing.block_pool import *
from benchrun.sizing.cache_layers import *
from benchrun.sizing.config_json import *
from benchrun.sizing.demands import *
from benchrun.sizing.known_models import *
from benchrun.sizing.serve_args import *
from benchrun.sizing.sizing import *
