"""Commands that read a run from its archive: a folder, without a cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from benchrun.archive import contents
from benchrun.cli.__main__ import main
from unit.archive.written import written
from unit.cli.finished_runs import finished_run
from unit.cli.test_interrupts import PYTHONPATH

Capture = pytest.CaptureFixture[str]
RUN = finished_run()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return the archive of the run."""
    return str(written(tmp_path / "archive", RUN))


def output(capsys: Capture, *arguments: str) -> str:
    """Return what a command prints that succeeds."""
    assert main([*arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("form", [[], ["--wide"], ["--markdown"]])
def test_it_is_reported_as_from_the_run_and_its_config_maps(
    folder: str, tmp_path: Path, capsys: Capture, form: list[str]
) -> None:
    file = tmp_path / "run.yaml"
    records = tmp_path / "records.yaml"
    file.write_text(yaml.safe_dump(RUN.body))
    records.write_text(yaml.safe_dump_all(RUN.config_maps))
    both = ["--records", str(records)]
    whole = output(capsys, "report", "-f", str(file), *both, *form)
    assert output(capsys, "report", "-f", folder, *form) == whole
    assert output(capsys, "report", "judged", "-f", folder, *form) == whole


def test_what_the_status_has_no_room_for_is_there_too(
    tmp_path: Path, capsys: Capture
) -> None:
    body = dict(RUN.body)
    cut = [{"field": "results", "total": 2, "included": 1}]
    rows = RUN.body["status"]["results"][:1]
    body["status"] = RUN.body["status"] | {"results": rows, "truncated": cut}
    folder = written(tmp_path, RUN, body=body)
    text = output(capsys, "report", "-f", str(folder))
    assert "note:" not in text
    assert "rate=8" in text


def test_single_requests_and_timelines_are_read(
    folder: str, capsys: Capture
) -> None:
    rows = output(
        capsys, "export", "-f", folder, "--format", "csv", "--table", "requests"
    )
    assert len(rows.splitlines()) == 1 + 4 * 120
    assert main(["judge", "-f", folder]) == 0


def test_other_commands_read_it_as_well(folder: str, capsys: Capture) -> None:
    assert "judged" in output(capsys, "get", "-f", folder)
    assert output(capsys, "compare", "judged", "judged", "-f", folder, "-o", "json")


def test_a_folder_without_an_index_is_no_archive(
    folder: str, capsys: Capture
) -> None:
    (Path(folder) / contents.INDEX).unlink()
    assert main(["report", "-f", folder]) == 1
    assert contents.INDEX in capsys.readouterr().err


def test_a_run_of_another_name_is_not_there(folder: str, capsys: Capture) -> None:
    assert main(["report", "other", "-f", folder]) == 1
    assert "judged" in capsys.readouterr().err
    assert main(["report", "judged", "-f", folder, "--sweep"]) == 1
    assert "sweep" in capsys.readouterr().err


def test_a_manifest_that_was_changed_is_refused(
    folder: str, capsys: Capture
) -> None:
    index = json.loads((Path(folder) / contents.INDEX).read_bytes())
    name = index["run"]["manifest"]["sha256"] + ".json"
    (Path(folder) / name).write_bytes(b"{}")
    assert main(["report", "-f", folder]) == 1
    assert name in capsys.readouterr().err


def test_a_record_that_is_gone_is_refused(folder: str, capsys: Capture) -> None:
    index = json.loads((Path(folder) / contents.INDEX).read_bytes())
    stage = next(e for e in index["configMaps"] if "record.json.gz" in e["files"])
    name = stage["files"]["record.json.gz"]["sha256"] + ".json.gz"
    (Path(folder) / name).unlink()
    assert main(["judge", "-f", folder]) == 1
    assert name in capsys.readouterr().err


def test_a_document_that_was_changed_leaves_the_status(
    tmp_path: Path, capsys: Capture
) -> None:
    cut = [{"field": "results", "total": 9, "included": 2}]
    body = RUN.body | {"status": RUN.body["status"] | {"truncated": cut}}
    folder = written(tmp_path, RUN, body=body)
    (folder / f"{RUN.body['status']['resultDocument']['sha256']}.json.gz").unlink()
    text = output(capsys, "report", "-f", str(folder))
    assert "note:" in text
    assert "judged: Valid" in text


def test_an_address_needs_the_extra_and_a_folder_does_not(
    folder: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "benchrun.archive.store", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert "judged: Valid" in output(capsys, "report", "-f", folder)
    assert main(["report", "-f", "s3://bucket/lab/judged-1"]) == 1
    assert "pipx install --force '.[archive]'" in capsys.readouterr().err


def test_an_address_with_credentials_is_refused(capsys: Capture) -> None:
    assert main(["report", "-f", "s3://key:secret@bucket/lab"]) == 1
    message = capsys.readouterr().err
    assert "-f" in message
    assert "secret" not in message


def test_the_command_imports_nothing_of_the_extra() -> None:
    script = "import benchrun.cli.__main__, sys; print('obstore' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
    )
    assert done.stdout == "False\n"
