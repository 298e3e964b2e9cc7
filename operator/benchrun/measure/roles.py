"""Compute the figures of each server role over several stages, for the rows of results."""

from collections.abc import Sequence
from dataclasses import asdict

from benchrun_client.contract import StageRecord

from benchrun.api import TOKENS_PER_JOULE, RoleFigures
from benchrun.measure import counters
from benchrun.measure.exporters import GpuFigures, gpu_figures
from benchrun.measure.request_figures import rounded
from benchrun.measure.windows import Window, figures, rounded_figures
from benchrun.names import ROLE_PROXY


def role_figures(stage_windows: Sequence[Window]) -> list[RoleFigures]:
    """Return the server figures of each role, over all these stages."""
    found = []
    for role in dict.fromkeys(window.role for window in stage_windows):
        own = [window for window in stage_windows if window.role == role]
        gpus = asdict(gpu_figures(own))
        del gpus[TOKENS_PER_JOULE]
        found.append(rounded_figures(figures(own).model_copy(update=gpus)))
    return found


def proxy_role(records: Sequence[StageRecord]) -> list[RoleFigures]:
    """Return the figures of the proxy over all these stages.

    Empty if requests went straight to a server.
    """
    if (found := counters.proxy_figures(records)) is None:
        return []
    added_ms = rounded(found.added_mean_ms)
    cores = rounded(found.cores)
    return [RoleFigures(role=ROLE_PROXY, added_mean_ms=added_ms, cores=cores)]


def tokens_per_joule(
    gpus: GpuFigures, roles: Sequence[RoleFigures]
) -> dict[str, float | None]:
    """Return the output tokens per joule, as an entry of `metrics`.

    Empty if no exporter was read. The value is None if the power of any role is not known, because
    all roles worked for the tokens.
    """
    read = any(
        role.gpu_power_mean_watts is not None or role.no_power_reason is not None
        for role in roles
    )
    return {TOKENS_PER_JOULE: rounded(gpus.output_tokens_per_joule)} if read else {}
