"""`benchrun report` on files: as Markdown, as one HTML file, and what it says when it can't."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.api import packed_json, result_json
from benchrun.cli.__main__ import main
from unit.cli.fake_kubectl import FakeKubectl
from unit.cli.finished_runs import OWNER, FinishedRun, finished_run, listed
from unit.cli.test_interrupts import PYTHONPATH
from unit.golden_messages import golden
from unit.report.finished_sweeps import batches
from unit.stored_documents import stored_document

Capture = pytest.CaptureFixture[str]


def saved(folder: Path, run: FinishedRun, **status: Any) -> Path:
    """A file with the run, its status changed."""
    file = folder / "run.yaml"
    body = {**run.body, "status": {**run.body["status"], **status}}
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    (folder / "records.yaml").write_text(
        yaml.safe_dump(listed(run.config_maps)), encoding="utf-8"
    )
    return file


def test_the_table_of_a_file(tmp_path: Path, capsys: Capture) -> None:
    assert main(["report", "-f", str(saved(tmp_path, finished_run()))]) == 0
    assert "judged: Valid" in capsys.readouterr().out


def test_a_wide_report_lists_every_stage_and_whose_setting_each_is(
    tmp_path: Path, capsys: Capture
) -> None:
    file = str(saved(tmp_path, finished_run()))
    assert main(["report", "-f", file, "--wide"]) == 0
    output = [line.split() for line in capsys.readouterr().out.splitlines()]
    stages = [
        line[0]
        for line in output
        if line and line[0].startswith("chat/") and line[0].endswith(("/r1", "/r2"))
    ]
    assert stages == [
        "chat/rate=4/r1",
        "chat/rate=8/r1",
        "chat/rate=4/r2",
        "chat/rate=8/r2",
    ]
    assert ["requests", "120", "client", "workloads[chat].requests"] in output
    assert main(["report", "-f", file]) == 0
    assert "workloads[chat].requests" not in capsys.readouterr().out


def test_markdown_goes_to_standard_output(tmp_path: Path, capsys: Capture) -> None:
    assert (
        main(["report", "-f", str(saved(tmp_path, finished_run())), "--markdown"])
        == 0
    )
    assert capsys.readouterr().out.startswith("## judged: Valid\n\n")


def test_the_html_file_holds_its_charts(tmp_path: Path, capsys: Capture) -> None:
    file = saved(tmp_path, finished_run())
    page = tmp_path / "report.html"
    assert (
        main(
            [
                "report",
                "-f",
                str(file),
                "--records",
                str(tmp_path / "records.yaml"),
                "--html",
                str(page),
            ]
        )
        == 0
    )
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert text.count("<svg") > 5
    assert f"wrote {page}" in capsys.readouterr().out


def test_a_run_of_the_cluster_brings_its_document(
    tmp_path: Path, kubectl: FakeKubectl
) -> None:
    run = finished_run()
    page = tmp_path / "report.html"
    kubectl.answer("configmap", out=json.dumps(run.config_maps[-1]))
    kubectl.answer("judged", out=json.dumps(run.body))
    assert main(["report", "judged", "-n", "lab", "--html", str(page)]) == 0
    assert "TTFT: time to the first token" in page.read_text(encoding="utf-8")


def test_what_the_status_has_no_room_for_is_in_the_document(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    run = finished_run()
    cut = {
        **run.body["status"],
        "results": run.body["status"]["results"][:1],
        "truncated": [{"field": "results", "total": 2, "included": 1}],
    }
    kubectl.answer("configmap", out=json.dumps(run.config_maps[-1]))
    kubectl.answer("judged", out=json.dumps({**run.body, "status": cut}))
    assert main(["report", "judged"]) == 0
    output = capsys.readouterr().out
    assert "chat" in output
    assert "note:" not in output
    assert main(["get", "judged"]) == 0
    assert "cut" not in capsys.readouterr().out


@pytest.mark.parametrize("trouble", ["Forbidden", "Another", "OfAnother"])
def test_a_document_that_cannot_be_read_is_named_and_the_status_shown(
    trouble: str, kubectl: FakeKubectl, capsys: Capture
) -> None:
    run = finished_run()
    cut = [{"field": "results", "total": 9, "included": 2}]
    body = {**run.body, "status": {**run.body["status"], "truncated": cut}}
    config_map = run.config_maps[-1]
    if trouble == "Forbidden":
        kubectl.fails("configmap", error="Error from server (Forbidden): no")
    elif trouble == "Another":
        config_map["binaryData"]["result.json.gz"] = "bm90IGd6aXA="
        kubectl.answer("configmap", out=json.dumps(config_map))
    else:
        other = run.document.run.model_copy(update={"uid": "other"})
        document = run.document.model_copy(update={"run": other})
        ref, config_map = stored_document(document, OWNER)
        body["status"]["resultDocument"] = ref.model_dump(by_alias=True)
        kubectl.answer("configmap", out=json.dumps(config_map))
    kubectl.answer("judged", out=json.dumps(body))
    assert main(["report", "judged"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "judged: Valid" in output
    assert "note: the run's result document, in ConfigMap br-judged" in output


def test_a_document_alone_gives_table_page_and_summary(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    run = finished_run()
    file = tmp_path / "result.json"
    file.write_bytes(result_json(run.document))
    page = tmp_path / "report.html"
    kubectl.fails(error="no cluster")
    saved(tmp_path, run)
    outputs = []
    for source in (file, tmp_path / "run.yaml"):
        assert main(["report", "-f", str(source)]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert main(["report", "-f", str(file), "--html", str(page)]) == 0
    assert "TTFT: time to the first token" in page.read_text(encoding="utf-8")
    assert main(["get", "-f", str(file)]) == 0
    assert "judged" in capsys.readouterr().out


def test_a_packed_document_is_read_too(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "result.json.gz"
    file.write_bytes(packed_json(result_json(finished_run().document)))
    assert main(["report", "-f", str(file)]) == 0
    assert "judged: Valid" in capsys.readouterr().out


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"schema": "benchrun.result/2"}', id="another-version"),
        pytest.param(b'{"schema": "benchrun.result/1"}', id="no-run"),
        pytest.param(b'{"schema": "benchrun.result/1", "run": {', id="cut-short"),
        pytest.param(b"\x1f\x8b nothing", id="not-packed"),
    ],
)
def test_what_is_not_a_document_is_named_with_the_remedy(
    data: bytes, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(data)
    assert main(["report", "-f", str(file)]) == 1
    golden(capsys.readouterr().err)


def test_without_a_document_the_page_says_what_it_lacks(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert (
        main(
            [
                "report",
                "-f",
                str(saved(tmp_path, finished_run())),
                "--html",
                str(page),
            ]
        )
        == 0
    )
    assert "was not read" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("form", [["--html", "x.html"], ["--markdown"], []])
def test_the_exit_code_is_that_of_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    conditions = [
        {"type": "Complete", "status": "True", "reason": "x"},
        {"type": "Valid", "status": "False", "reason": "x"},
    ]
    assert (
        main(
            [
                "report",
                "-f",
                str(saved(tmp_path, finished_run(), conditions=conditions)),
                *form,
            ]
        )
        == 4
    )


def test_a_run_that_goes_on_has_no_page_yet(
    tmp_path: Path, capsys: Capture
) -> None:
    file = saved(tmp_path, finished_run(), conditions=[])
    page = tmp_path / "report.html"
    assert main(["report", "-f", str(file), "--html", str(page)]) == 1
    assert not page.exists()
    golden(capsys.readouterr().err)


def test_a_file_that_can_t_be_written_is_reported(
    tmp_path: Path, capsys: Capture
) -> None:
    file = saved(tmp_path, finished_run())
    assert (
        main(
            [
                "report",
                "-f",
                str(file),
                "--html",
                str(tmp_path / "no" / "such.html"),
            ]
        )
        == 1
    )
    golden(capsys.readouterr().err)


def test_without_the_extra_the_command_names_it(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "benchrun.cli.html_page", raising=False)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert (
        main(
            [
                "report",
                "-f",
                str(saved(tmp_path, finished_run())),
                "--html",
                str(tmp_path / "x.html"),
            ]
        )
        == 1
    )
    assert "pipx install --force '.[report,export]'" in capsys.readouterr().err


def test_the_other_forms_do_without_the_extra(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("vl_convert", "jinja2"):
        monkeypatch.setitem(sys.modules, module, None)
    assert (
        main(["report", "-f", str(saved(tmp_path, finished_run())), "--markdown"])
        == 0
    )
    assert "judged" in capsys.readouterr().out


def test_a_page_and_markdown_at_once_is_a_mistake(
    tmp_path: Path, capsys: Capture
) -> None:
    with pytest.raises(SystemExit):
        main(["report", "x", "--html", str(tmp_path / "x"), "--markdown"])
    assert "not allowed with" in capsys.readouterr().err


# ---- sweeps
# ----------------------------------------------------------------------------------------------------------


def test_a_sweep_is_reported_where_there_is_no_such_run(
    kubectl: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    error = (
        'Error from server (NotFound): benchmarkruns.benchrun.dev "seqs" not found'
    )
    kubectl.fails("get", "benchmarkruns.benchrun.dev", "seqs", error=error)
    kubectl.gives("get", "benchmarkruns.benchrun.dev", body={"items": []})
    kubectl.gives(
        "get", "benchmarksweeps.benchrun.dev", "seqs", body=batches().body
    )
    page = tmp_path / "sweep.html"
    assert main(["report", "seqs", "--html", str(page)]) == 0
    assert "compute is the limit" in page.read_text(encoding="utf-8")
    assert main(["report", "seqs", "--markdown"]) == 0
    assert "## seqs: Valid" in capsys.readouterr().out


def test_a_sweep_of_a_file(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(batches().body), encoding="utf-8")
    assert main(["report", "-f", str(file)]) == 0
    assert "seqs: Valid" in capsys.readouterr().out
    assert main(["report", "other", "-f", str(file)]) == 1
    assert "holds no BenchmarkRun" in capsys.readouterr().err


def test_the_command_imports_nothing_of_the_extra() -> None:
    script = (
        "import benchrun.cli.__main__, sys; print(*sorted({'vl_convert', 'jinja2'} & "
        "set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout == "\n"
