"""`make demo` with real vLLM, as one types it: two workloads x two load points x two repeats
against one server, told live, shown as a table, and every word about how to go on holds."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.installed import HELM_FLAGS
from kit.kubectl import RUN, Namespace, Object, command
from kit.runs import OF_A_BUSY_MACHINE, children_selector, condition, is_finished

ROOT = Path(__file__).parents[2]
NAME = "e2e-quickstart"
DEFAULT = Namespace("default")

pytestmark = pytest.mark.timeout(1800)


@dataclass
class Demo:
    """What one run of it showed, and what the API server told meanwhile."""

    lines: list[str] = field(default_factory=list)
    told_at: list[float] = field(default_factory=list)
    """When each line came, by the monotonic clock."""
    states: list[Object] = field(default_factory=list)
    """Every state of the run."""
    finished_at: float = 0.0
    exit_code: int | None = None

    @property
    def run(self) -> Object:
        return self.states[-1]

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.run["status"]
        return found

    def at(self, pattern: str) -> list[int]:
        """Which lines look like this."""
        return [
            number
            for number, line in enumerate(self.lines)
            if re.match(pattern, line)
        ]

    def after(self, pattern: str) -> list[str]:
        """The lines below the only one that looks like this."""
        (number,) = self.at(pattern)
        return self.lines[number + 1 :]

    def follow(self) -> None:
        """Note every state of the run until it has ended."""

        def ended(run: Object) -> bool:
            self.states.append(run)
            return is_finished(run)

        DEFAULT.wait_for(RUN, NAME, ended, timeout_seconds=1700, what="finished")
        self.finished_at = time.monotonic()


def manifests() -> list[Object]:
    """The quickstart in a file with something else."""
    run = yaml.safe_load((ROOT / "examples/quickstart.yaml").read_text())
    run["metadata"]["name"] = NAME
    # Server and client share two cores here, at times with more: how late the client is, is not
    # what this test is about.
    run["spec"]["validity"] = {"severities": OF_A_BUSY_MACHINE}
    other = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME},
        "data": {"why": "a second object"},
    }
    return [other, run]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo, from its first line to its exit."""
    example = tmp_path_factory.mktemp("demo") / "example.yaml"
    example.write_text(yaml.safe_dump_all(manifests()))
    words = (
        "make",
        "--no-print-directory",
        "demo",
        f"EXAMPLE={example}",
        f"HELM_FLAGS={HELM_FLAGS}",
    )
    demo = Demo()
    with (
        ThreadPoolExecutor(1) as background,
        subprocess.Popen(
            words,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        following = None
        for line in process.stdout or ():
            demo.told_at.append(time.monotonic())
            demo.lines.append(line.rstrip())
            if line.startswith(f"benchmarkrun.benchrun.dev/{NAME} created"):
                following = background.submit(demo.follow)
        demo.exit_code = process.wait()
        assert following is not None, "\n".join(demo.lines[-50:])
        following.result(timeout=60)
    yield demo
    command(
        "kubectl",
        "delete",
        f"--filename={example}",
        "--namespace=default",
        "--ignore-not-found",
    )


def test_it_ends_well_with_eight_stages_measured_and_the_gpu_free(
    demo: Demo,
) -> None:
    assert demo.exit_code == 0, "\n".join(demo.lines[-50:])
    assert demo.at(f"configmap/{NAME} (created|unchanged)"), (
        "the example's other object"
    )
    status = demo.status
    assert condition(demo.run, "Complete")["status"] == "True", status
    assert condition(demo.run, "Ready")["status"] == "True", status["findings"]
    assert status["estimate"]["stages"] == 8
    assert len(status["results"]) == 4
    for row in status["results"]:
        assert row["repeats"] == row["repeatsPlanned"] == 2
        assert row["verdict"] in ("Valid", "Suspect"), row
        assert row["metrics"]["failed"] == 0
        assert row["metrics"]["output_throughput"] > 0
        assert (
            0
            < row["metrics"]["p50_ttft_ms"]
            <= row["metrics"]["p99_ttft_ms"]
            <= row["metrics"]["p99_e2el_ms"]
        )
        assert row["roles"][0]["prefixHitPercent"] == 0
    assert demo.run["metadata"].get("finalizers") is None
    ours = children_selector(demo.run)
    DEFAULT.wait_gone(
        "pods", selector=f"{ours},benchrun.dev/role=server", timeout_seconds=30
    )
    stored = DEFAULT.list("configmaps", selector=f"{ours},benchrun.dev/role=stage")
    digests = {
        json.loads(c["metadata"]["annotations"]["benchrun.dev/envelope"])["digest"]
        for c in stored
    }
    assert len(stored) == len(digests) == 8


def test_what_really_ran_is_in_the_status(demo: Demo) -> None:
    server = demo.status["servers"][0]
    assert server["version"].startswith("0.32")
    assert server["kvCacheTokens"] > 0
    assert server["imageDigest"]
    assert server["secondsToReady"] > 1


@pytest.mark.parametrize("figure", ["running", "waiting", "kvCachePercent"])
def test_live_figures_of_the_server_are_seen_changing(
    demo: Demo, figure: str
) -> None:
    live = [
        found
        for state in demo.states
        if (found := state.get("status", {}).get("live")) is not None
    ]
    seen = {figures[figure] for figures in live if figure in figures}
    assert len(seen) > 1, live
    assert max(seen) > 0, live


def test_each_stage_is_told_while_the_run_goes_on(demo: Demo) -> None:
    stages = demo.at(r"\d+:\d\d  stage \d/8 ")
    told = [
        re.fullmatch(
            r"\S+  stage (\d)/8 (\S+): (\S+) req/s, (\S+) tok/s, .*", demo.lines[n]
        )
        for n in stages
    ]
    assert [match and match[1] for match in told] == list("12345678"), [
        demo.lines[n] for n in stages
    ]
    assert len({match[2] for match in told if match}) == 8
    assert all(
        float(match[3]) > 0 and float(match[4]) > 0 for match in told if match
    )
    # Eight stages take more than a minute: the first was told long before the end, if each was told
    # at once.
    assert demo.told_at[stages[0]] < demo.finished_at - 30
    assert all(demo.told_at[number] < demo.finished_at for number in stages[:7])
    for phase in ("Preparing", "Starting", "Running"):
        assert demo.at(rf"\d+:\d\d  {phase} · 0/8 · "), demo.lines


def test_the_table_shows_the_numbers_of_the_status(demo: Demo) -> None:
    assert demo.at(rf"{NAME}: (Valid|Suspect) - measured all 4 load points")
    shown = {
        row.split()[0]: row.split()[1:3]
        for row in demo.after(r"load point +req/s +tok/s +TTFT p50 ")[:4]
    }
    measured = {
        row["loadPoint"]: row["metrics"]
        if row["throughputOf"] == "Stage"
        else row["steady"]
        for row in demo.status["results"]
    }
    assert shown.keys() == measured.keys()
    for load_point, (requests, tokens) in shown.items():
        assert float(requests) == pytest.approx(
            measured[load_point]["request_throughput"], rel=0.01
        )
        assert float(tokens) == pytest.approx(
            measured[load_point]["output_throughput"], rel=0.01
        )


def test_kubectl_get_shows_real_numbers_in_its_columns(demo: Demo) -> None:
    head = r"NAME +PHASE +PROGRESS +VERDICT +ANSWER +TOK/S +P99 TTFT +AGE"
    name, phase, progress, verdict, throughput, p99_ttft = demo.after(head)[
        0
    ].split()[:6]
    assert (name, phase, progress) == (NAME, "Completed", "8/8")
    assert verdict == demo.status["verdict"]
    headline = demo.status["headline"]
    assert throughput == headline["throughput"]
    assert p99_ttft == headline["p99TTFT"].split()[0]
    assert float(throughput.rstrip("?")) > 0
    assert float(p99_ttft.rstrip("?")) > 0


def test_what_it_says_about_looking_further_works_in_a_shell_that_knows_nothing(
    demo: Demo,
) -> None:
    below = demo.after("Look further:")
    script = [line for line in below[: below.index("Clean up:")] if line]
    assert len(script) == 7
    strange = {
        name: value for name, value in os.environ.items() if name != "KUBECONFIG"
    }
    strange["PATH"] = ":".join(
        part
        for part in os.environ["PATH"].split(":")
        if "benchrun-devcluster" not in part
    )
    done = subprocess.run(
        ["bash", "-exc", "\n".join(script)],
        cwd=ROOT,
        env=strange,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Measured" in done.stdout
    assert "load point" in done.stdout


def test_it_says_how_to_clean_up(demo: Demo) -> None:
    assert [line.strip() for line in demo.after("Clean up:") if line] == [
        "make devcluster-down"
    ]
