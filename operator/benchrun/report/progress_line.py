"""A run in one line, while it goes on."""

from __future__ import annotations

from benchrun.api.status import BenchmarkRunStatus
from benchrun.report.rows import figure


def progress_line(status: BenchmarkRunStatus) -> str:
    """Phase, stages done, what the servers are doing, and the sentence that says what is waited for."""
    parts: list[str] = [status.phase or "Pending"]
    if status.progress is not None:
        parts.append(status.progress.summary)
    if status.live is not None:
        live = status.live
        parts.append(
            f"running {figure(live.running)}, waiting {figure(live.waiting)}, KV {figure(live.kv_cache_percent, unit=' %')}, "
            f"{figure(live.generation_tokens_per_second)} tok/s"
        )
    if status.message:
        parts.append(status.message)
    return " · ".join(parts)
