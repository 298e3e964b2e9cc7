"""`benchrun check -f FILE`: everything that can be known of a benchmark before a GPU is asked for. Needs no cluster."""

from __future__ import annotations

import argparse
import json
from typing import Any

import yaml
from rich.console import Console

from benchrun.cli.errors import CommandError
from benchrun.cli.manifests import manifests_in
from benchrun.cli.memory_options import add_memory_options
from benchrun.cli.model_folder import config_path, shape_at, weights_beside
from benchrun.cli.run_files import LOADER
from benchrun.cli.show_check import as_json, show_check
from benchrun.preflight.manifests import CHECKS, CheckedObject, check_objects
from benchrun.preflight.run import Known
from benchrun.report.exit_codes import PASSED

FAULTY = 1
DESCRIPTION = """\
Check a manifest before it is applied: what the API server would refuse, flags that this version of vLLM does not have,
requests longer than the model's longest sequence, a KV cache too small for the load, requests too few for the percentiles;
and how large the run is.

The model's own limits are known with --model; room in the KV cache with --gpu-memory too."""
EPILOG = "exit codes: 0 nothing stands in the way; 1 something is wrong, or the file can't be read. Warnings are 0."


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "check",
        help="check a manifest before a GPU is asked for",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
    add("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Check the file and show what came out. Raises CommandError."""
    bodies = [yaml.load(manifest.text, Loader=LOADER) for manifest in manifests_in([options.file])]
    checked = check_objects(bodies, _known(options))
    if not any(each.kind in CHECKS for each in checked) and not _faulty(checked):
        raise CommandError(f"{options.file} holds no {' and no '.join(CHECKS)}")
    if options.output == "json":
        print(json.dumps(as_json(checked), indent=2))
    else:
        show_check(console, checked)
    return FAULTY if _faulty(checked) else PASSED


def _faulty(checked: tuple[CheckedObject, ...]) -> bool:
    return any(each.checked.has_errors for each in checked)


def _known(options: argparse.Namespace) -> Known:
    path = config_path(options.model) if options.model else None
    weights = options.weights
    return Known(
        shape=shape_at(path) if path is not None else None,
        gpu_bytes=options.gpu_memory,
        weights_bytes=weights_beside(path) if weights is None and path is not None else weights,
        overhead_bytes=options.overhead,
        vllm_version=options.vllm_version,
    )
