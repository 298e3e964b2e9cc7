"""What libraries cost that could do parts of benchrun, as a table: python -m dev.libraries FOLDER

Each is installed into a folder of its own below FOLDER and imported after what its process imports anyway. Packages that are
installed there anyway do not count. scipy's agreement with our statistics stands below the table.
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
COMMAND_HAS = "annotated-types markdown-it-py mdurl pydantic pydantic-core pygments pyyaml rich typing-extensions"
MODULES = {
    "judge": "benchrun.judge_process.job",
    "operator": "benchrun.runtime.main",
    "command": "benchrun.cli.__main__",
    "client": "benchrun_client.record_server",
}
LIBRARIES = """judge scipy scipy.special scipy.stats
operator pydantic-settings pydantic_settings
command kubernetes kubernetes.config kubernetes.dynamic:DynamicClient kubernetes.client:CustomObjectsApi
command lightkube lightkube
command kr8s kr8s
operator kubernetes kubernetes.aio.client:CoreV1Api kubernetes.aio.client:AppsV1Api kubernetes.aio.client:BatchV1Api
operator kubernetes-asyncio kubernetes_asyncio.client
operator lightkube lightkube
operator kr8s kr8s.asyncio
client prometheus-client prometheus_client
operator tenacity tenacity
operator backoff backoff
operator cel-python celpy
operator cel-expr-python cel_expr_python.cel
operator common-expression-language cel
operator python-cel cel"""
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
    locked = set(re.findall(r"^([a-z0-9-]+)==", LOCKED.read_text(encoding="utf-8"), re.MULTILINE))
    there = {"command": set(COMMAND_HAS.split()), "client": {"prometheus-client"}}  # vLLM has it
    print("| process | library | MB on disk | MiB resident | ms of CPU to import |\n|---|---|---|---|---|")
    for process, name, *modules in map(str.split, LIBRARIES.splitlines()):
        folder = Path(sys.argv[1]) / name
        if not folder.exists():
            options = ["-m", "pip", "install", "-q", "--no-compile", "--target", str(folder)]
            subprocess.run([sys.executable, *options, name], check=True)
        found = {each.metadata["Name"].lower().replace("_", "-"): each for each in distributions(path=[str(folder)])}
        files = [
            Path(str(f.locate())) for each in found.keys() - there.get(process, locked) for f in found[each].files or ()
        ]
        size = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
        command = [sys.executable, "-c", CHILD, str(folder), MODULES[process], *modules]
        runs = [map(float, subprocess.check_output(command, text=True).split()) for _ in range(3)]
        memory, time, before = map(median, zip(*runs, strict=True))
        row = f"{process} ({before:.0f} MiB) | {name} {found[name].version} | {size:.1f} | {memory:.1f} | {time:.0f}"
        print(f"| {row} |", flush=True)
    ts, confidences, freedoms = (0.01, 1.0, 5.0, 20.0), (0.01, 0.3, 0.9, 0.999), (1.5, 3.0, 8.0, 100.0, 1e4)
    p = max(abs(student_p_value(t, d) - 2 * stats.t.sf(t, d)) for t, d in product(ts, freedoms))
    f = max(abs(fisher_p_value(t, a, b) - stats.f.sf(t, a, b)) for t, a, b in product(ts, freedoms, freedoms))
    t = max(abs(student_quantile(c, d) / stats.t.ppf((1 + c) / 2, d) - 1) for c, d in product(confidences, freedoms))
    print(f"differences to scipy: p-values of t {p:.0e} and F {f:.0e}; quantiles of t {t:.0e} (relative)")


if __name__ == "__main__":
    main()
