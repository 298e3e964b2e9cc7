"""What a check found, on a terminal and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchrun.preflight.manifests import CheckedObject
from benchrun.preflight.remark import LEVELS, Level, Remark
from benchrun.preflight.volume import Volume
from benchrun.report.durations import told

_WORDS: dict[Level, str] = {"Error": "error", "Warning": "warning", "Note": "note", "NotChecked": "not checked"}
_COLOURS: dict[Level, str] = {"Error": "red", "Warning": "yellow", "Note": "cyan", "NotChecked": "dim"}


def show_check(console: Console, checked: Sequence[CheckedObject]) -> None:
    """Object by object, the worst first; how large it is; at the end, how many of each."""
    for each in checked:
        console.print(Text.assemble((each.name or "(no name)", "bold"), f"  {each.kind or 'no kind'}"))
        if each.checked.remarks:
            console.print(_table(each.checked.remarks))
        if each.checked.volume is not None:
            console.print(volume_sentence(each.checked.volume), markup=False, soft_wrap=True)
        console.print()
    console.print(_count(remark for each in checked for remark in each.checked.remarks), markup=False)


def as_json(checked: Sequence[CheckedObject]) -> list[dict[str, object]]:
    """The same for programs."""
    return [
        {
            "kind": each.kind,
            "name": each.name,
            "remarks": [asdict(remark) for remark in each.checked.remarks],
            "volume": None if each.checked.volume is None else _volume(each.checked.volume),
        }
        for each in checked
    ]


def volume_sentence(volume: Volume) -> str:
    """How large a run is."""
    most = "at most, where searches take all their probes" if volume.probe_stages else ""
    runs = f"{_counted(volume.runs, 'run')}, " if volume.runs > 1 else ""
    parts = [f"{runs}{_counted(volume.stages, 'stage')}, {_counted(volume.requests, 'request')} {most}".strip() + "."]
    if volume.open_stages:
        others = ", the others as long as the server needs" if volume.stages > volume.open_stages else ""
        parts.append(f"Those at a finite rate take {told(volume.least_seconds)} at least{others}.")
    else:
        parts.append("How long they take depends on the server.")
    if volume.warmup_seconds:
        parts.append(f"Warm-up takes up to {told(volume.warmup_seconds)}.")
    if volume.gpu_seconds is not None:
        gpus = "all GPUs" if volume.runs > 1 else _counted(volume.gpus, "GPU")
        parts.append(f"Measuring on {gpus} takes {volume.gpu_seconds:,} GPU-seconds at least; start-up is not counted.")
    return " ".join(parts)


def _volume(volume: Volume) -> dict[str, object]:
    return {
        "runs": volume.runs,
        "stages": volume.stages,
        "requests": volume.requests,
        "gpus": volume.gpus,
        "leastSeconds": volume.least_seconds,
        "warmupSeconds": volume.warmup_seconds,
        "gpuSeconds": volume.gpu_seconds,
    }


def _table(remarks: Iterable[Remark]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for remark in sorted(remarks, key=lambda each: LEVELS.index(each.level)):
        table.add_row(Text(_WORDS[remark.level], style=_COLOURS[remark.level]), Text(remark.path), Text(remark.text))
    return table


def _count(remarks: Iterable[Remark]) -> str:
    counts = Counter(remark.level for remark in remarks)
    return ", ".join(
        f"{counts[level]} {_WORDS[level]}" if level == "NotChecked" else _counted(counts[level], _WORDS[level])
        for level in LEVELS
        if counts[level] or level == "Error"
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
