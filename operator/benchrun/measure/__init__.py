"""Metrics pages and records made into samples, windows, percentiles and cells. Pure."""

from benchrun_client.contract import (
    InFlight as InFlight,
    NoPlateau as NoPlateau,
    Plateau as Plateau,
    find_plateau as find_plateau,
    in_flight as in_flight,
)

from benchrun.measure.batches import *
from benchrun.measure.counters import *
from benchrun.measure.exporters import *
from benchrun.measure.metrics_page import *
from benchrun.measure.request_figures import *
from benchrun.measure.response_to_load import *
from benchrun.measure.server_pressure import *
from benchrun.measure.significance import *
from benchrun.measure.timeline import *
from benchrun.measure.windows import *
