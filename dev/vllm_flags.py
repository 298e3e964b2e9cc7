"""Writes the flags of `vllm serve` and of `vllm bench serve`: `python dev/vllm_flags.py FOLDER`.

Run it with a Python that has the vLLM version. Of `vllm bench serve` only the names are written.
The file is named after the version; `benchrun check` compares server arguments with it.
"""

import argparse
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from vllm.benchmarks.serve import add_cli_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

try:  # 0.33 and later
    from vllm.entrypoints.common.cli_args import make_arg_parser
except ImportError:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser


def described(action: argparse.Action, names: list[str]) -> dict[str, object]:
    """Describe one flag: its names, how many values it takes, and which values are allowed."""
    takes = {0: "nothing", None: "one", "?": "maybe"}.get(action.nargs, "many")
    told: dict[str, object] = {
        "names": sorted(names, key=len, reverse=True),
        "takes": takes,
    }
    if action.choices:
        told["choices"] = [str(choice) for choice in action.choices]
    if takes == "one" and _takes_json(action):
        told["object"] = True
    return told


def _takes_json(action: argparse.Action) -> bool:
    """Return whether a flag's value is parsed as a JSON object.

    A JSON parser turns `{}` into an object, or refuses text that is not JSON and a bare number.
    """
    read = action.type
    if not callable(read) or read in (int, float, str):
        return False
    if not isinstance(_read(read, "{}"), str | None):
        return True
    return _read(read, "no JSON") is None and _read(read, "8") is None


def _read(read: Callable[[str], object], text: str) -> object:
    """Parse the text; return None if it is refused."""
    try:
        return read(text)
    except (argparse.ArgumentTypeError, ValueError, TypeError):
        return None


def client_options() -> list[str]:
    """Return the names of the options of `vllm bench serve`."""
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    return sorted(
        name for action in parser._actions for name in action.option_strings
    )


def main(folder: Path) -> None:
    """Write the table of the installed version into `folder`."""
    release = version("vllm").partition("+")[0]
    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    # Some names are accepted, and hidden from an action's own: --no-enable-x, from 0.33 on.
    names: dict[argparse.Action, list[str]] = {}
    for name, action in parser._option_string_actions.items():
        names.setdefault(action, []).append(name)
    flags = [described(action, of) for action, of in names.items()]
    lines = ",\n".join(
        json.dumps(flag)
        for flag in sorted(flags, key=lambda flag: str(flag["names"]))
    )
    client = json.dumps(client_options(), separators=(",", ":"))
    (folder / f"{release}.json").write_text(
        f'{{"version": "{release}", "client": {client}, "flags": [\n{lines}\n]}}\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
