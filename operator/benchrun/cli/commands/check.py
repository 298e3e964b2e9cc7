"""`benchrun check -f FILE`: everything that can be known of a benchmark before a GPU is asked for. Needs no cluster."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchrun.cli import arguments, errors, manifests, model_folder
from benchrun.cli.commands.kv_cache import add_memory_options
from benchrun.preflight.manifests import CHECKS, CheckedObject, Known, check_objects
from benchrun.preflight.remark import LEVELS, Level, Remark
from benchrun.preflight.volume import Volume
from benchrun.report import exit_codes, tables

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
        parts.append(f"Those at a finite rate take {tables.format_seconds(volume.least_seconds)} at least{others}.")
    else:
        parts.append("How long they take depends on the server.")
    if volume.warmup_seconds:
        parts.append(f"Warm-up takes up to {tables.format_seconds(volume.warmup_seconds)}.")
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


FAULTY = 1
DESCRIPTION = """\
Check a manifest before it is applied: what the API server would refuse, flags that this version of vLLM does not have,
requests longer than the model's longest sequence, a KV cache too small for the load, requests too few for the percentiles;
and how large the run is.

The model's own limits are known with --model; room in the KV cache with --gpu-memory too."""
EPILOG = "exit codes: 0 nothing stands in the way; 1 something is wrong, or the file can't be read. Warnings are 0."


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser = arguments.add_command(commands, "check", "check a manifest before a GPU is asked for", DESCRIPTION, EPILOG)
    add = parser.add_argument
    add(
        "-f",
        "--file",
        required=True,
        metavar="FILE",
        help="manifest, with one object or several; - reads standard input",
    )
    add("--model", metavar="MODEL", help="folder of the model or its config.json, as for `benchrun kv-cache`")
    add_memory_options(parser)
    add("--vllm-version", metavar="VERSION", help="version in the server's image, where its tag does not name it")
    arguments.add_output(parser)
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Check the file and show what came out. Raises CommandError."""
    bodies = [yaml.load(manifest.text, Loader=manifests.LOADER) for manifest in manifests.manifests_in([options.file])]
    checked = check_objects(bodies, _known(options))
    if not any(each.kind in CHECKS for each in checked) and not _faulty(checked):
        raise errors.CommandError(f"{options.file} holds no {' and no '.join(CHECKS)}")
    if options.output == "json":
        print(json.dumps(as_json(checked), indent=2))
    else:
        show_check(console, checked)
    return FAULTY if _faulty(checked) else exit_codes.PASSED


def _faulty(checked: tuple[CheckedObject, ...]) -> bool:
    return any(each.checked.has_errors for each in checked)


def _known(options: argparse.Namespace) -> Known:
    path = model_folder.config_path(options.model) if options.model else None
    weights = options.weights
    return Known(
        shape=model_folder.shape_at(path) if path is not None else None,
        gpu_bytes=options.gpu_memory,
        weights_bytes=model_folder.weights_beside(path) if weights is None and path is not None else weights,
        overhead_bytes=options.overhead,
        vllm_version=options.vllm_version,
    )
