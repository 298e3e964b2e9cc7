"""`benchrun doctor --pods` on the embedded cluster: the operator lives, and a pod shows what only
a pod can."""

import json
from pathlib import Path

import pytest
import yaml
from benchrun.cli.__main__ import main
from kit.kubectl import Namespace
from kit.runs import simulated_run


@pytest.mark.timeout(180)
def test_a_namespace_that_can_run_it_is_told_so(
    namespace: Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(simulated_run("chat")), encoding="utf-8")
    command = ["doctor", "-f", str(path), "-n", namespace.name, "-o", "json"]
    code = main([*command, "--pods", "--timeout=90"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    by_name = {each["name"]: each for each in checks}
    problems = [each for each in checks if each["state"] == "Problem"]
    assert (code, problems) == (0, [])
    for name in ("operator", "lease", "schema", "rights", "operator-rights", "dns"):
        assert by_name[name]["state"] == "Ok", by_name[name]
    started = [each for each in checks if each["name"] == "started"]
    assert [each["state"] for each in started] == ["Ok"], started
    assert {each["state"] for each in checks if each["name"] == "pod"} == {"Ok"}
    namespace.wait_gone("pods", selector="benchrun.dev/doctor", timeout_seconds=60)


@pytest.mark.timeout(180)
def test_an_image_that_is_not_there_is_a_problem_and_its_pod_goes(
    namespace: Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = simulated_run("chat", client={"image": "nowhere.invalid/client:1"})
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(run), encoding="utf-8")
    command = ["doctor", "-f", str(path), "-n", namespace.name, "-o", "json"]
    assert main([*command, "--pods", "--timeout=90"]) == 7
    checks = json.loads(capsys.readouterr().out)["checks"]
    (started,) = [each for each in checks if each["name"] == "started"]
    assert started["state"] == "Problem"
    assert "spec.client.image" in started["remedy"]
    namespace.wait_gone("pods", selector="benchrun.dev/doctor", timeout_seconds=60)
