"""`benchrun check -f FILE`: find problems of a benchmark before it takes a GPU.

It needs no cluster.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import yaml
from rich.console import Console
from rich.text import Text

from benchrun.api import json_name
from benchrun.cli import (
    console_tables,
    errors,
    manifests,
    model_folder,
    shared_options,
)
from benchrun.cli.commands.kv_cache import add_memory_options
from benchrun.preflight.manifest_checks import CHECKS, Checked, Known, check_object
from benchrun.preflight.remark import LEVELS, Level
from benchrun.preflight.request_volume import Volume
from benchrun.report import exit_codes, tables

_WORDS: dict[Level, str] = {
    "Error": "error",
    "Warning": "warning",
    "Note": "note",
    "NotChecked": "not checked",
}
_VOLUME = (
    "runs",
    "stages",
    "requests",
    "gpus",
    "least_seconds",
    "warmup_seconds",
    "gpu_seconds",
)
_COLOURS: dict[Level, str] = {
    "Error": "red",
    "Warning": "yellow",
    "Note": "cyan",
    "NotChecked": "dim",
}


def show_check(console: Console, checked: Sequence[Checked]) -> None:
    """Print the remarks on each object, the worst first, and its size; then the counts by level."""
    for each in checked:
        console.print(
            Text.assemble(
                (each.name or "(no name)", "bold"), f"  {each.kind or 'no kind'}"
            )
        )
        if each.remarks:
            table = console_tables.empty_table("", "", "")
            for remark in sorted(
                each.remarks, key=lambda remark: LEVELS.index(remark.level)
            ):
                level = Text(_WORDS[remark.level], style=_COLOURS[remark.level])
                table.add_row(level, Text(remark.path), Text(remark.text))
            console.print(table)
        if each.volume is not None:
            console.print(
                volume_sentence(each.volume), markup=False, soft_wrap=True
            )
        console.print()
    counts = Counter(remark.level for each in checked for remark in each.remarks)
    shown = [level for level in LEVELS if counts[level] or level == "Error"]
    words = [
        _counted(counts[level], _WORDS[level], "" if level == "NotChecked" else "s")
        for level in shown
    ]
    console.print(", ".join(words), markup=False)


def as_json(checked: Sequence[Checked]) -> list[dict[str, object]]:
    return [
        {
            "kind": each.kind,
            "name": each.name,
            "remarks": [asdict(remark) for remark in each.remarks],
            "volume": {json_name(f): getattr(each.volume, f) for f in _VOLUME}
            if each.volume is not None
            else None,
        }
        for each in checked
    ]


def volume_sentence(volume: Volume) -> str:
    most = (
        "at most, if searches take all their probes" if volume.probe_stages else ""
    )
    if volume.repeated_stages:
        most = "at most, where nothing is decided before the budget ends"
    runs = f"{_counted(volume.runs, 'run')}, " if volume.runs > 1 else ""
    parts = [
        (
            f"{runs}{_counted(volume.stages, 'stage')}, "
            f"{_counted(volume.requests, 'request')} {most}"
        ).strip()
        + "."
    ]
    if volume.open_stages:
        others = (
            "; how long the other stages take depends on the server"
            if volume.stages > volume.open_stages
            else ""
        )
        parts.append(
            f"The stages at a finite rate take {tables.format_seconds(volume.least_seconds)} "
            f"at least{others}."
        )
    else:
        parts.append("How long they take depends on the server.")
    if volume.warmup_seconds:
        parts.append(
            f"Warm-up takes up to {tables.format_seconds(volume.warmup_seconds)}."
        )
    if volume.gpu_seconds is not None:
        gpus = "all GPUs" if volume.runs > 1 else _counted(volume.gpus, "GPU")
        parts.append(
            f"Measuring on {gpus} takes {volume.gpu_seconds:,} GPU-seconds at least; start-up is "
            "not counted."
        )
    return " ".join(parts)


def _counted(count: int, noun: str, plural: str = "s") -> str:
    return f"{count:,} {noun}{'' if count == 1 else plural}"


FAULTY = 1
SUMMARY = "check a manifest before it takes a GPU"
DESCRIPTION = (
    "Check a manifest before it is applied. The check finds what the API server "
    "would refuse, flags that this version of vLLM does not have, requests longer "
    "than the model's longest sequence, a KV cache too small for the load, and too "
    "few requests for the percentiles. It also shows how large the run is. The "
    "limits of the model are known only with --model, the room in its KV cache only "
    "with --gpu-memory as well."
)
EPILOG = "exit codes: 0 no errors (warnings allowed); 1 errors, or the file can't be read."


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-f",
        "--file",
        required=True,
        metavar="FILE",
        help="manifest with one or more objects; - reads standard input",
    )
    add(
        "--model",
        metavar="MODEL",
        help="folder of the model, or its config.json, as for `benchrun kv-cache`",
    )
    add_memory_options(parser)
    add(
        "--vllm-version",
        metavar="VERSION",
        help="engine version in the server's image, if its tag does not name it",
    )
    shared_options.add_output(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    bodies = [
        yaml.load(manifest.text, Loader=manifests.LOADER)
        for manifest in manifests.manifests_in([options.file])
    ]
    path = model_folder.config_path(options.model) if options.model else None
    if (weights := options.weights) is None and path is not None:
        weights = model_folder.weights_beside(path)
    known = Known(
        shape=model_folder.shape_at(path) if path is not None else None,
        gpu_bytes=options.gpu_memory,
        weights_bytes=weights,
        overhead_bytes=options.overhead,
        vllm_version=options.vllm_version,
    )
    checked = [check_object(body, known) for body in bodies]
    has_errors = any(each.has_errors for each in checked)
    if not has_errors and not any(each.kind in CHECKS for each in checked):
        raise errors.CommandError(
            f"{options.file} holds no {' and no '.join(CHECKS)}"
        )
    if options.output == "json":
        print(json.dumps(as_json(checked), indent=2))
    else:
        show_check(console, checked)
    return FAULTY if has_errors else exit_codes.PASSED
