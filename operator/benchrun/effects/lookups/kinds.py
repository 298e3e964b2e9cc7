"""Every kind of look-up. A new one is a question in `benchrun.decide.lookups`, a file here, and a line below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchrun.decide.lookups import Compilations, EndpointPods, GpuExporter, Judging, LogTail, Question, ServerStart
from benchrun.effects.lookups.compilations import COMPILATIONS
from benchrun.effects.lookups.endpoint_pods import ENDPOINT_PODS
from benchrun.effects.lookups.gpu_exporter import GPU_EXPORTER
from benchrun.effects.lookups.judging import JUDGING
from benchrun.effects.lookups.log_tail import LOG_TAIL
from benchrun.effects.lookups.server_start import SERVER_START
from benchrun.effects.lookups.tools import Kind

KINDS: Mapping[type[Question[Any]], Kind] = {
    Compilations: COMPILATIONS,
    EndpointPods: ENDPOINT_PODS,
    GpuExporter: GPU_EXPORTER,
    Judging: JUDGING,
    LogTail: LOG_TAIL,
    ServerStart: SERVER_START,
}
