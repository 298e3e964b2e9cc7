"""The manifests of `examples/`, as a person applies them, and what the command prints of them."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import yaml

from kit.kubectl import RUN, SWEEP, Namespace, Object
from kit.runs import condition, is_finished

FOLDER = Path(__file__).parents[2] / "examples"
LATENCIES = ("ttft", "tpot", "itl", "e2el")
PERCENTILES = ("50", "95", "99")
KINDS = {"BenchmarkRun": RUN, "BenchmarkSweep": SWEEP}
COLUMNS = 400  # wide enough that no load point of a table takes two lines
# where to keep the reports of each, to read them
REPORTS = os.environ.get("REPORTS_DIR")


def example(file: str) -> dict[str, Object]:
    """Return the objects of an example file, by name."""
    return {
        body["metadata"]["name"]: body
        for body in yaml.safe_load_all((FOLDER / file).read_text())
    }


def measured(
    namespace: Namespace, kind: str, name: str, *, timeout_seconds: float
) -> Object:
    """Return the status of a run or sweep that has completed."""
    found = namespace.wait_for(
        KINDS[kind],
        name,
        is_finished,
        timeout_seconds=timeout_seconds,
        what="finished",
    )
    if REPORTS is not None:
        _keep_reports(namespace, found, Path(REPORTS))
    assert condition(found, "Complete")["status"] == "True", found["status"]
    status: Object = found["status"]
    return status


def _keep_reports(namespace: Namespace, found: Object, folder: Path) -> None:
    """Write an object and its report as text, Markdown and HTML; for a sweep, its runs' too."""
    folder.mkdir(parents=True, exist_ok=True)
    name = found["metadata"]["name"]
    (folder / f"{name}.json").write_text(json.dumps(found, indent=1))
    (folder / f"{name}.txt").write_text(
        benchrun(namespace, "report", name, "--wide").text
    )
    (folder / f"{name}.md").write_text(
        benchrun(namespace, "report", name, "--markdown").text
    )
    benchrun(namespace, "report", name, f"--html={folder / name}.html")
    for run in namespace.list(RUN, selector=f"benchrun.dev/sweep={name}"):
        _keep_reports(namespace, run, folder)


def rows(status: Object) -> dict[str, Object]:
    """Return the results of a status by load point."""
    return {row["loadPoint"]: row for row in status["results"]}


def finding(status: Object, code: str) -> Object:
    """Return the one finding of that code."""
    found = [each for each in status["findings"] if each["code"] == code]
    assert len(found) == 1, status["findings"]
    only: Object = found[0]
    return only


def explanation(row: Object, question: str) -> Object:
    """Return the answer of a row to that question."""
    found = [each for each in row["explanations"] if each["question"] == question]
    assert len(found) == 1, row
    only: Object = found[0]
    return only


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command printed, and its exit code."""

    text: str
    exit_code: int

    def table(self, *headers: str) -> list[dict[str, str]]:
        """Return the rows of the first table whose headers begin with these."""
        lines = [
            re.split(r"\s{2,}", line.strip()) for line in self.text.splitlines()
        ]
        start = next(
            (
                n
                for n, load_points in enumerate(lines)
                if tuple(load_points[: len(headers)]) == headers
            ),
            None,
        )
        assert start is not None, f"no table {headers} in:\n{self.text}"
        rows = takewhile(
            lambda load_points: len(load_points) == len(lines[start]),
            lines[start + 1 :],
        )
        return [
            dict(zip(lines[start], load_points, strict=True))
            for load_points in rows
        ]


def benchrun(namespace: Namespace, *arguments: str) -> Printed:
    """Run the command in this namespace; the caller judges its exit code."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchrun.cli",
            *arguments,
            f"--namespace={namespace.name}",
        ],
        env={**os.environ, "COLUMNS": str(COLUMNS)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not done.stderr, done.stderr
    return Printed(done.stdout, done.returncode)
