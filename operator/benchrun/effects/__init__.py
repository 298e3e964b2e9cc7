"""The outside world: the API server, metrics endpoints, clients, and the judge process."""

from benchrun.effects.clock import *
from benchrun.effects.connection import *
from benchrun.effects.errors import *
from benchrun.effects.judge_child import *
from benchrun.effects.kubernetes_api import *
from benchrun.effects.lease import *
from benchrun.effects.lookups import *
from benchrun.effects.pod_http import *
from benchrun.effects.turns import *
