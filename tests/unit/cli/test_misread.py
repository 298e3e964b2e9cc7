"""Files, arguments and programs that are not what they should be: one line that names it, exit code
1, and no traceback."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.cli.__main__ import main
from benchrun.cli.cluster import Kubectl
from benchrun.cli.errors import CommandError, KubectlError, unknown
from benchrun.cli.manifests import config_maps_in, manifests_in, runs_in
from unit.cli.fake_kubectl import FakeKubectl
from unit.golden_messages import golden
from unit.preflight.checks import manifest

Capture = pytest.CaptureFixture[str]


def file(folder: Path, text: str | bytes, name: str = "m.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---- dates, which YAML takes for something else than Kubernetes does
# -------------------------------------------------


@pytest.mark.parametrize(
    "day",
    [
        "2026-02-30",
        "2026-13-45",
        "2026-01-01",
        "2026-01-01T00:00:00Z",
        "2026-1-1 0:0:0",
    ],
)
def test_what_looks_like_a_date_is_a_string(tmp_path: Path, day: str) -> None:
    run = f"apiVersion: benchrun.dev/v1alpha1\nkind: BenchmarkRun\nmetadata:\n  name: {day}\n"
    (found,) = manifests_in([str(file(tmp_path, run))])
    assert found.name == day
    assert [each.name for each in runs_in(tmp_path / "m.yaml")] == [day]


def test_a_label_with_a_date_is_no_fault_of_the_manifest(
    tmp_path: Path, capsys: Capture
) -> None:
    dated = manifest(metadata={"name": "chat", "labels": {"day": "DAY"}})
    path = file(tmp_path, yaml.safe_dump(dated).replace("DAY", "2026-02-30"))
    assert main(["check", "-f", str(path)]) == 0
    assert "0 errors" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("true", True),
        ("~", None),
        ("0x10", 16),
        ('"2026-01-01"', "2026-01-01"),
    ],
)
def test_other_values_are_what_they_were(
    tmp_path: Path, text: str, value: object
) -> None:
    path = file(
        tmp_path,
        f"kind: BenchmarkRun\nmetadata: {{name: a}}\nspec: {{x: {text}}}\n",
    )
    assert runs_in(path)[0].spec == {"x": value}


@pytest.mark.parametrize(
    "value", ["!!timestamp 2026-13-45", "!!int five", "!!float five"]
)
def test_a_value_that_is_not_of_its_type_names_the_file(
    tmp_path: Path, value: str, capsys: Capture
) -> None:
    path = file(
        tmp_path,
        f"kind: BenchmarkRun\nmetadata: {{name: a}}\nspec: {{x: {value}}}\n",
    )
    for command in (
        ["check", "-f", str(path)],
        ["run", "-f", str(path)],
        ["compare", "-f", str(path), "a", "b"],
    ):
        assert main(command) == 1
        output = capsys.readouterr().err
        assert output.startswith(f"benchrun: {path}")
        assert "Traceback" not in output


# ---- files of objects
# ------------------------------------------------------------------------------------------------

RUN = {
    "apiVersion": "benchrun.dev/v1alpha1",
    "kind": "BenchmarkRun",
    "metadata": {"name": "a"},
}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([RUN, MAP, RUN], id="documents"),
        pytest.param([{"kind": "List", "items": [RUN, MAP, RUN]}], id="a-list"),
        pytest.param(
            [{"kind": "List", "items": [RUN]}, {"items": [MAP, None, 7, RUN]}],
            id="lists-with-holes",
        ),
        pytest.param(
            [None, RUN, "words", ["list"], RUN, MAP], id="among-other-things"
        ),
    ],
)
def test_runs_and_config_maps_are_found_wherever_they_are(
    tmp_path: Path, bodies: list[object]
) -> None:
    path = file(tmp_path, yaml.safe_dump_all(bodies))
    assert [run.name for run in runs_in(path)] == ["a", "a"]
    assert [each["metadata"] for each in config_maps_in(path)] == [{"name": "m"}]


@pytest.mark.parametrize("items", ["null", "{}", "7", "words", "[]"])
def test_a_list_of_nothing_holds_no_run(tmp_path: Path, items: str) -> None:
    with pytest.raises(CommandError) as raised:
        runs_in(file(tmp_path, f"kind: List\nitems: {items}\n"))
    golden(str(raised.value))


def test_files_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.json", "c.yml", "d.txt", "e.yaml.bak", "README"):
        file(tmp_path, json.dumps({**MAP, "metadata": {"name": name}}), name)
    found: list[Any] = list(config_maps_in(tmp_path))
    assert [each["metadata"]["name"] for each in found] == [
        "a.json",
        "b.yaml",
        "c.yml",
    ]


def test_one_broken_file_of_a_folder_is_named(tmp_path: Path) -> None:
    file(tmp_path, json.dumps(MAP), "a.json")
    file(tmp_path, "a: [", "b.yaml")
    with pytest.raises(CommandError, match=r"b\.yaml: "):
        config_maps_in(tmp_path)


# ---- kubectl that is none
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message", ["", "Logged in as eve\n{}", "[]", "null", '{"a": ', "<html>"]
)
def test_a_kubectl_that_gives_no_object_is_named(
    message: str, kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.answer("get", out=message)
    for command in (["get"], ["get", "chat"], ["report", "chat"], ["logs", "chat"]):
        assert main(command) == 1
        output = capsys.readouterr().err
        assert repr(message[:100]) in output


def test_a_kubectl_that_is_killed_ended_without_a_word(
    kubectl: FakeKubectl,
) -> None:
    kubectl.answer("get", out='{"kind": ', code=137)
    with pytest.raises(KubectlError, match="kubectl failed"):
        Kubectl().get("chat")


def test_words_that_came_with_success_are_no_error(kubectl: FakeKubectl) -> None:
    kubectl.answer(
        "get", out='{"kind": "BenchmarkRun"}', error="Warning: v1alpha1 is old\n"
    )
    assert Kubectl().get("chat") == {"kind": "BenchmarkRun"}


def test_nobody_of_that_name_is_none_and_no_error(kubectl: FakeKubectl) -> None:
    kubectl.answer("get", out=" \n")
    assert Kubectl().find("chat") is None


# ---- arguments
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["five", "-1", "nan", "inf", "5%", ""])
def test_a_limit_that_is_no_percentage_says_what_one_is(
    limit: str, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "a", "b", f"--max-regression={limit}"])
    assert ended.value.code == 2
    assert f"argument --max-regression: {limit!r}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Drfit", "coldstart", "xyz", ""])
def test_an_unknown_name_is_answered_with_the_nearest_and_all(name: str) -> None:
    golden(str(unknown("finding", name, ["Drift", "ColdStart"])))


def test_several_near_names_are_all_shown_as_they_are_written() -> None:
    known = ["MaxFailed", "maxfailing", "MAXFAILS", "other"]
    output = str(unknown("line", "maxfaile", known))
    assert all(name in output.partition("?")[0] for name in known[:3])


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["frobnicate"],
        ["get", "--no-such"],
        ["run"],
        ["judge", "x", "-o", "xml"],
    ],
)
def test_a_mistaken_command_line_is_2_as_argparse_has_it(
    command: list[str], capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    assert "usage: benchrun" in capsys.readouterr().err


def test_labels_of_a_run_are_the_users_own(tmp_path: Path) -> None:
    labels = {"team": "x", "benchrun.dev/sweep": "s", "build": "7"}
    body = {"kind": "BenchmarkRun", "metadata": {"labels": labels}}
    (run,) = runs_in(file(tmp_path, json.dumps(body)))
    assert run.labels == (("build", "7"), ("team", "x"))
