"""Prints the disk, memory and CPU cost of libraries: `python -m dev.libraries FOLDER`.

Each library could replace a part of benchrun. It is installed into a folder of its own below FOLDER
and imported after everything that its process imports anyway. Packages that the process needs
anyway do not count. Below the table of costs stands how far scipy differs from benchrun's own
statistics.
"""

import re
import subprocess
import sys
from importlib.metadata import distributions
from itertools import product
from pathlib import Path
from statistics import median

from benchrun.measure.significance import fisher_p_value, student_quantile
from benchrun_client.contract import student_p_value
from scipy import stats

LOCKED = Path(__file__).parents[1] / "requirements/operator.txt"
COMMAND_HAS = (
    "annotated-types markdown-it-py mdurl pydantic pydantic-core pygments pyyaml rich "
    "typing-extensions"
)
COMMAND = "benchrun.cli.__main__"
CLIENT = "benchrun_client.record_server"
LIBRARIES = """benchrun.judge_process.messages scipy scipy.special scipy.stats
benchrun.runtime.main pydantic-settings pydantic_settings
benchrun.cli.__main__ kubernetes kubernetes.config kubernetes.dynamic:DynamicClient \
kubernetes.client:CustomObjectsApi
benchrun.cli.__main__ lightkube lightkube
benchrun.cli.__main__ kr8s kr8s
benchrun.runtime.main kubernetes kubernetes.aio.client:CoreV1Api kubernetes.aio.client:AppsV1Api \
kubernetes.aio.client:BatchV1Api
benchrun.runtime.main kubernetes-asyncio kubernetes_asyncio.client
benchrun.runtime.main lightkube lightkube
benchrun.runtime.main kr8s kr8s.asyncio
benchrun_client.record_server prometheus-client prometheus_client
benchrun.runtime.main tenacity tenacity
benchrun.runtime.main backoff backoff
benchrun.runtime.main cel-python celpy
benchrun.runtime.main cel-expr-python cel_expr_python.cel
benchrun.runtime.main common-expression-language cel
benchrun.runtime.main python-cel cel"""
CHILD = """
import importlib, pkgutil, sys, time
folder, base, *modules = sys.argv[1:]
importlib.import_module(base)
sys.path.append(folder)
resident = lambda: int(open("/proc/self/statm").read().split()[1]) / 256
before, start = resident(), time.process_time()
for module in modules: pkgutil.resolve_name(module)
print(resident() - before, 1000 * (time.process_time() - start), before)
"""


def main() -> None:
    locked = set(
        re.findall(
            r"^([a-z0-9-]+)==", LOCKED.read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    # vLLM has it
    there = {
        COMMAND: set(COMMAND_HAS.split()),
        CLIENT: {"prometheus-client"},
    }
    print(
        "| process | library | MB on disk | MiB resident | ms of CPU to import "
        "|\n|---|---|---|---|---|"
    )
    for process, name, *modules in map(str.split, LIBRARIES.splitlines()):
        folder = Path(sys.argv[1]) / name
        if not folder.exists():
            options = [
                "-m",
                "pip",
                "install",
                "-q",
                "--no-compile",
                "--target",
                str(folder),
            ]
            subprocess.run([sys.executable, *options, name], check=True)
        found = {
            each.metadata["Name"].lower().replace("_", "-"): each
            for each in distributions(path=[str(folder)])
        }
        files = [
            Path(str(f.locate()))
            for each in found.keys() - there.get(process, locked)
            for f in found[each].files or ()
        ]
        size = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
        command = [sys.executable, "-c", CHILD, str(folder), process, *modules]
        runs = [
            map(float, subprocess.check_output(command, text=True).split())
            for _ in range(3)
        ]
        memory, time, before = map(median, zip(*runs, strict=True))
        row = (
            f"{process} ({before:.0f} MiB) | {name} {found[name].version} | {size:.1f} | "
            f"{memory:.1f} | {time:.0f}"
        )
        print(f"| {row} |", flush=True)
    ts = (0.01, 1.0, 5.0, 20.0)
    confidences = (0.01, 0.3, 0.9, 0.999)
    freedoms = (1.5, 3.0, 8.0, 100.0, 1e4)
    p = max(
        abs(student_p_value(t, d) - 2 * stats.t.sf(t, d))
        for t, d in product(ts, freedoms)
    )
    f = max(
        abs(fisher_p_value(t, a, b) - stats.f.sf(t, a, b))
        for t, a, b in product(ts, freedoms, freedoms)
    )
    t = max(
        abs(student_quantile(c, d) / stats.t.ppf((1 + c) / 2, d) - 1)
        for c, d in product(confidences, freedoms)
    )
    print(
        f"differences to scipy: p-values of t {p:.0e} and F {f:.0e}; quantiles of t {t:.0e} "
        "(relative)"
    )


if __name__ == "__main__":
    main()
