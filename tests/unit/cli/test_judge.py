"""`benchrun judge` on files and on what kubectl gives: the same rules, other lines, and what is
left of the records."""

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.cli.__main__ import main
from unit.cli.finished_runs import (
    UID,
    FinishedRun,
    finished_run,
    listed,
    measured,
    server_samples,
    with_timeline_chunk,
)
from unit.golden_messages import golden

Capture = pytest.CaptureFixture[str]
Judge = Callable[..., tuple[int, str]]
ONE_FAILED = [
    measured(0, failed=1),
    *(measured(sequence) for sequence in range(1, 4)),
]
"""Of 120 requests: 0.83 %, which the spec allows."""
SHORT_OUTPUT = [measured(sequence, output_percent=90) for sequence in range(4)]


def saved(folder: Path, run: FinishedRun) -> list[str]:
    """Arguments that name the files of the run."""
    (folder / "run.yaml").write_text(yaml.safe_dump(run.body), encoding="utf-8")
    (folder / "records").mkdir(exist_ok=True)
    (folder / "records" / "all.yaml").write_text(
        yaml.safe_dump(listed(run.config_maps)), encoding="utf-8"
    )
    return [
        "judge",
        "-f",
        str(folder / "run.yaml"),
        "--records",
        str(folder / "records"),
    ]


def without_document(run: FinishedRun) -> FinishedRun:
    """Return the run as a release without result documents has judged it."""
    del run.body["status"]["resultDocument"]
    return run


def printed(capture: Capture) -> str:
    """What was printed, errors too, without line breaks."""
    return " ".join(" ".join(capture.readouterr()).split())


def as_json(arguments: list[str], capture: Capture) -> Any:
    assert main([*arguments, "-o", "json"]) in (0, 4)
    return json.loads(capture.readouterr().out)


@pytest.fixture
def judge(tmp_path: Path, capsys: Capture) -> Judge:
    """The command on a run in files, with options: exit code and what it says."""

    def judged(run: FinishedRun, *options: str) -> tuple[int, str]:
        return main([*saved(tmp_path, run), *options]), printed(capsys)

    return judged


def test_the_same_thresholds_give_the_same_verdict(judge: Judge) -> None:
    code, output = judge(finished_run())
    assert code == 0
    golden(output)


def not_judged(run: FinishedRun) -> FinishedRun:
    """The run as it ends where the judge's process failed."""
    status = {
        key: run.body["status"][key] for key in ("phase", "conditions", "servers")
    }
    return replace(
        run, body={**run.body, "status": {**status, "verdict": "Unknown"}}
    )


def test_a_run_that_could_not_be_judged_when_it_ended_is_judged(
    tmp_path: Path, capsys: Capture
) -> None:
    run = finished_run(ONE_FAILED)
    now = as_json(saved(tmp_path, not_judged(run)), capsys)
    repeated = as_json(saved(tmp_path, run), capsys)
    assert now["verdict"] == "Valid"
    assert (now["results"], now["findings"]) == (
        repeated["results"],
        repeated["findings"],
    )
    assert (now["storedVerdict"], now["differences"]) == ("Unknown", [])


def test_the_table_is_that_of_the_report(tmp_path: Path, capsys: Capture) -> None:
    arguments = saved(tmp_path, finished_run())
    stored = yaml.safe_load((tmp_path / "run.yaml").read_text(encoding="utf-8"))[
        "status"
    ]["results"]
    now = as_json(arguments, capsys)["results"]
    assert [{**row, "findings": set(row["findings"])} for row in now] == [
        {**row, "findings": set(row["findings"])} for row in stored
    ]
    assert len(now) == 2


@pytest.mark.parametrize("name", ["max-failed-percent", "max_failed_percent"])
def test_a_stricter_threshold_makes_a_load_point_invalid(
    judge: Judge, name: str
) -> None:
    code, output = judge(finished_run(ONE_FAILED), "--threshold", f"{name}=0.5")
    assert code == 4
    assert "chat/rate=8: was" not in output
    golden(output)


def test_a_looser_threshold_makes_a_load_point_valid(judge: Judge) -> None:
    code, output = judge(
        finished_run(SHORT_OUTPUT), "--threshold", "output-suspect-percent=85"
    )
    assert code == 0
    golden(output)


def test_the_last_of_two_lines_stands(judge: Judge) -> None:
    lines = [
        "--threshold=max-failed-percent=0.5",
        "--threshold=max-failed-percent=1",
    ]
    assert judge(finished_run(ONE_FAILED), *lines)[0] == 0


@pytest.mark.parametrize(
    ("severity", "code", "sentence"),
    [
        pytest.param(
            "Off", 0, "was Suspect, now Valid: no OutputTooShort", id="off"
        ),
        pytest.param(
            "Note",
            0,
            "was Suspect, now Valid: OutputTooShort is less severe",
            id="less",
        ),
        pytest.param(
            "Invalid",
            4,
            "was Suspect, now Invalid: OutputTooShort is more severe",
            id="more",
        ),
    ],
)
def test_another_severity(
    judge: Judge, severity: str, code: int, sentence: str
) -> None:
    ended, output = judge(
        finished_run(SHORT_OUTPUT), "--severity", f"OutputTooShort={severity}"
    )
    assert (ended, f"chat/rate=8: {sentence}" in output) == (code, True)
    assert f"severities: OutputTooShort={severity}" in output


def test_severities_of_the_spec_stay_but_for_those_that_are_changed(
    tmp_path: Path, capsys: Capture
) -> None:
    overrides = [
        {"code": "OutputTooShort", "severity": "Off"},
        {"code": "TooFewSamples", "severity": "Off"},
    ]
    run = finished_run(SHORT_OUTPUT, validity={"severities": overrides})
    output = as_json(
        [*saved(tmp_path, run), "--severity=OutputTooShort=Note"], capsys
    )
    assert output["judge"]["overrides"] == [
        "OutputTooShort=Note",
        "TooFewSamples=Off",
    ]
    assert [finding["code"] for finding in output["findings"]] == ["OutputTooShort"]
    assert output["differences"] == [
        {
            "loadPoint": load_point,
            "was": "Valid",
            "now": "Valid",
            "appeared": ["OutputTooShort"],
            "gone": [],
            "sentence": f"{load_point}: still Valid: OutputTooShort",
        }
        for load_point in ("chat/rate=4", "chat/rate=8")
    ]


IN_THE_SECOND = (measured(1).first_send_unix_us / 1e6 + 1,)


def test_stored_compilations_are_found(judge: Judge) -> None:
    code, output = judge(finished_run(compilations=IN_THE_SECOND))
    assert (code, "judged: Suspect" in output) == (0, True)
    assert "NotChecked" not in output
    golden(output)


def test_a_log_that_tells_of_no_compiling_is_checked(judge: Judge) -> None:
    run = without_document(finished_run(compilations=IN_THE_SECOND))
    run.body["status"]["servers"][0]["compilations"] = {"count": 0, "at": []}
    _, output = judge(run)
    assert "NotChecked" not in output
    golden(output)


def test_compilations_that_were_not_kept_are_not_forgotten_silently(
    judge: Judge,
) -> None:
    run = without_document(finished_run(compilations=IN_THE_SECOND))
    del run.body["status"]["servers"][0]["compilations"]
    code, output = judge(run)
    assert code == 0
    golden(output)


# ---- records that are gone
# -------------------------------------------------------------------------------------------


def test_a_lost_record_is_reported_and_not_held_against_its_load_point(
    judge: Judge,
) -> None:
    code, output = judge(finished_run(kept=(0, 1, 2)))
    assert (code, "judged: Valid" in output) == (0, True)
    golden(output)


def test_a_load_point_without_any_record_is_not_judged(
    tmp_path: Path, capsys: Capture
) -> None:
    output = as_json(saved(tmp_path, finished_run(kept=(0, 2))), capsys)
    assert [row["loadPoint"] for row in output["results"]] == ["chat/rate=4"]
    golden(*output["notes"])


def test_a_stage_that_was_never_measured_stays_missing(
    tmp_path: Path, capsys: Capture
) -> None:
    run = finished_run([measured(0), measured(1), measured(2)], kept=(0, 1))
    output = as_json(saved(tmp_path, run), capsys)
    assert [
        (row["verdict"], "RecordMissing" in row["findings"])
        for row in output["results"]
    ] == [
        ("Valid", False),
        ("Invalid", True),
    ]
    golden(*output["notes"])


def test_a_timeline_that_was_cut_is_reported(judge: Judge) -> None:
    run = finished_run()
    run.body["status"]["truncated"] = [
        {"field": "timeline", "total": 5, "included": 3}
    ]
    golden(judge(run)[1])


def test_no_record_is_nothing_to_judge(judge: Judge) -> None:
    code, output = judge(finished_run(kept=()))
    assert code == 1
    golden(output)


def test_a_record_that_cannot_be_read_is_named(judge: Judge) -> None:
    run = finished_run()
    run.config_maps[3]["binaryData"]["record.json.gz"] = "bm90IGd6aXA="
    code, output = judge(run)
    assert code == 0
    golden(output)


def test_config_maps_of_others_are_passed_over(judge: Judge) -> None:
    run = finished_run()
    run.config_maps[1]["metadata"]["ownerReferences"][0]["uid"] = "uid-other"
    run.config_maps[3]["metadata"]["labels"]["benchrun.dev/role"] = "plan"
    assert "chat/rate=8: not judged" in judge(run)[1]


def test_a_record_of_another_run_is_not_believed(judge: Judge) -> None:
    run = finished_run(
        [
            measured(0),
            *(
                measured(s).model_copy(update={"run_uid": "uid-2"})
                for s in (1, 2, 3)
            ),
        ]
    )
    golden(judge(run)[1])


def test_chunks_of_the_timeline_count_once(tmp_path: Path, capsys: Capture) -> None:
    run = finished_run()
    twice = with_timeline_chunk(run, server_samples(measured(0)))
    (samples, repeated) = (
        as_json(saved(tmp_path, each), capsys)["results"][0]["roles"]
        for each in (run, twice)
    )
    assert samples == repeated
    assert samples[0]["samples"] > 20


def test_a_row_whose_codes_were_cut_is_compared_by_its_verdict(
    judge: Judge,
) -> None:
    run = without_document(finished_run(SHORT_OUTPUT))
    run.body["status"]["truncated"] = [
        {"field": "results[].findings", "total": 4, "included": 2}
    ]
    golden(
        judge(run, "--threshold", "window-seconds=60")[1],
        judge(run, "--severity", "OutputTooShort=Invalid")[1],
    )


def test_truncated_rows_have_few_figures(tmp_path: Path, capsys: Capture) -> None:
    run = without_document(finished_run(kept=(0, 1, 2)))
    del run.body["status"]["results"][1]
    output = as_json(saved(tmp_path, run), capsys)
    assert [row["loadPoint"] for row in output["results"]] == [
        "chat/rate=4",
        "chat/rate=8",
    ]
    assert (output["differences"], output["notes"]) == (
        [],
        ["chat/rate=8: not all of its records are kept"],
    )


# ---- what is asked
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [
        pytest.param("--threshold=max-failed=1", id="near"),
        pytest.param("--threshold=nonsense=1", id="all"),
        pytest.param("--threshold=max-failed-percent=x", id="no number"),
        pytest.param("--threshold=max-failed-percent=-1", id="negative"),
        pytest.param("--threshold=max-failed-percent=nan", id="nan"),
        pytest.param("--threshold=max-failed-percent", id="no value"),
        pytest.param("--severity=ColdStart", id="no severity"),
        pytest.param("--severity=Coldstart=Off", id="case"),
        pytest.param("--severity=ColdStart=Fatal", id="word"),
        pytest.param("--severity=RecordMissing=Off", id="fixed"),
    ],
)
def test_an_unknown_name_is_an_error(judge: Judge, option: str) -> None:
    code, text = judge(finished_run(), option)
    assert code == 1
    golden(text)


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        pytest.param("status", "conditions", [], id="a run that goes on"),
        pytest.param("spec", "fieldOfANewerOperator", 1, id="another version"),
    ],
)
def test_a_run_that_cannot_be_judged_is_an_error(
    judge: Judge, section: str, field: str, value: object
) -> None:
    run = finished_run()
    run.body[section][field] = value
    code, output = judge(run)
    assert code == 1
    golden(output)


def test_files_go_together(tmp_path: Path, capsys: Capture) -> None:
    assert main(saved(tmp_path, finished_run())[:3]) == 1
    assert "with -f, also give --records PATH" in printed(capsys)
    assert main(["judge"]) == 1
    assert "name a run, or a file with -f FILE" in printed(capsys)


def test_a_name_that_the_file_lacks_is_an_error(judge: Judge) -> None:
    code, output = judge(finished_run(), "other")
    assert (code, "holds judged;" in output) == (1, True)


def test_records_may_be_one_file_or_json(tmp_path: Path, capsys: Capture) -> None:
    run = finished_run()
    file = tmp_path / "cm.json"
    arguments = saved(tmp_path, run)[:3]
    file.write_text(json.dumps(listed(run.config_maps), indent=4), encoding="utf-8")
    assert main([*arguments, "--records", str(file)]) == 0
    golden(printed(capsys))


def test_without_files_kubectl_is_used(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished_run(ONE_FAILED)
    (tmp_path / "run.json").write_text(json.dumps(run.body), encoding="utf-8")
    (tmp_path / "cms.json").write_text(
        json.dumps(listed(run.config_maps)), encoding="utf-8"
    )
    (tmp_path / "document.json").write_text(
        json.dumps(run.config_maps[-1]), encoding="utf-8"
    )
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
        f"[ $2 = configmaps ] && exec cat {tmp_path}/cms.json\n"
        f"[ $2 = configmap ] && exec cat {tmp_path}/document.json\n"
        f"exec cat {tmp_path}/run.json\n",
        encoding="utf-8",
    )
    kubectl.chmod(kubectl.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert (
        main(["judge", "judged", "-n", "lab", "--threshold=max-failed-percent=0.5"])
        == 4
    )
    assert (tmp_path / "asked").read_text(encoding="utf-8").splitlines() == [
        "get benchmarkruns.benchrun.dev judged --output=json --namespace=lab",
        f"get configmap {run.body['status']['resultDocument']['configMap']} --output=json "
        "--namespace=lab",
        f"get configmaps --selector=benchrun.dev/run-uid={UID},benchrun.dev/role in "
        "(stage,timeline) "
        "--output=json --namespace=lab",
    ]
    golden(printed(capsys))
