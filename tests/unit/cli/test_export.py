"""`benchrun export`: from what a run has stored to files, a file or standard output, and what is
said of the rest."""

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.api import BenchmarkRunStatus, Condition
from benchrun.cli.__main__ import main
from benchrun.plan import Owner, stage_config_map
from benchrun.report.export.formats import FORMATS
from benchrun_client.contract import StageRecord
from unit.decide.deliveries import sealed
from unit.golden_messages import golden
from unit.plan.specs import Json
from unit.report.export.runs import (
    CAPPED,
    CHAT,
    LOAD_POINTS,
    NAME,
    NAMESPACE,
    STAGES,
    UID,
    measured,
    row,
    run,
    spec,
    status,
)
from unit.stored_documents import stored_document

OWNER = Owner(namespace=NAMESPACE, name=NAME, uid=UID)
COMPLETE = Condition.model_validate(
    {"type": "Complete", "status": "True", "reason": "Measured"}
)
INVALID = [
    row(LOAD_POINTS[0]),
    row(LOAD_POINTS[1], "Invalid", ["RateNotAchieved"]),
    row(LOAD_POINTS[2]),
]
EVERY = [row(load_point, "Invalid") for load_point in LOAD_POINTS]


@dataclass(frozen=True)
class Said:
    """What the command left on its two streams, and how it ended."""

    code: int
    out: bytes
    err: str


Export = Callable[..., Said]


def stored(record: StageRecord) -> Json:
    return stage_config_map(OWNER, sealed(record), timeline=None)


def saved(
    folder: Path, of_status: BenchmarkRunStatus, stages: Sequence[str]
) -> list[str]:
    """Arguments that name the files of a run; `stages`: those whose records are kept."""
    document = run(of_status=of_status).document
    ref, config_map = stored_document(document, OWNER)
    of_status = of_status.model_copy(update={"result_document": ref})
    body = {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {
            "name": OWNER.name,
            "namespace": OWNER.namespace,
            "uid": OWNER.uid,
            "generation": 1,
        },
        "spec": spec().model_dump(mode="json", by_alias=True, exclude_none=True),
        "status": of_status.model_dump(
            mode="json", by_alias=True, exclude_none=True
        ),
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    items = [*(stored(measured(stage_id)) for stage_id in stages), config_map]
    (folder / "records.json").write_text(
        json.dumps({"kind": "List", "items": items}), encoding="utf-8"
    )
    return [
        "export",
        "-f",
        str(folder / "run.yaml"),
        "--records",
        str(folder / "records.json"),
    ]


@pytest.fixture
def export(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Export:
    """The command with options, on a run with rows and stages as told."""

    def exported(
        *options: str,
        rows: Any = None,
        stages: Sequence[str] = STAGES,
        ended: bool = True,
    ) -> Said:
        of_status = status(rows).model_copy(
            update={"conditions": (COMPLETE,) if ended else ()}
        )
        code = main([*saved(tmp_path, of_status, stages), *options])
        output = capsysbinary.readouterr()
        return Said(code, output.out, " ".join(output.err.decode().split()))

    return exported


def made(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
    )


def test_standard_output_is_the_export_alone(export: Export) -> None:
    output = export("--format=csv")
    assert (output.code, output.err) == (0, "")
    assert [
        each["stage"] for each in csv.DictReader(io.StringIO(output.out.decode()))
    ] == list(STAGES)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("csv", ["replicas.csv", "requests.csv", "servers.csv", "stages.csv"]),
        (
            "parquet",
            [
                "replicas.parquet",
                "requests.parquet",
                "servers.parquet",
                "stages.parquet",
            ],
        ),
        (
            "llm-d",
            sorted(
                f"benchmark_report_v0.2,_{each.replace('/', '-')}.yaml"
                for each in STAGES
            ),
        ),
        (
            "vllm",
            [
                *(
                    "capped-rate=40/run=0.json",
                    "capped-rate=40/summary.json",
                    "chat-concurrency=4/run=0.json",
                ),
                *(
                    "chat-concurrency=4/run=1.json",
                    "chat-concurrency=4/summary.json",
                ),
                *(
                    "first-concurrency=2/run=0.json",
                    "first-concurrency=2/summary.json",
                ),
            ],
        ),
    ],
)
def test_a_folder_gets_every_file_and_each_is_named(
    export: Export, tmp_path: Path, name: str, files: list[str]
) -> None:
    folder = tmp_path / "out"
    output = export(f"--format={name}", f"--output={folder}")
    assert output.code == 0
    assert made(folder) == files
    assert all(f"wrote {folder / each}" in output.err for each in files)


@pytest.mark.parametrize("name", ["out/", "already"])
def test_an_output_path_without_suffix_is_a_folder(
    export: Export, tmp_path: Path, name: str
) -> None:
    (tmp_path / "already").mkdir()
    export("--format=csv", f"--output={tmp_path}/{name}")
    assert made(tmp_path / name) == [
        "replicas.csv",
        "requests.csv",
        "servers.csv",
        "stages.csv",
    ]


@pytest.mark.parametrize(
    ("table", "rows"),
    [("requests", 80), ("servers", 4), ("replicas", 4), ("stages", 4)],
)
def test_a_file_gets_the_table_requested(
    export: Export, tmp_path: Path, table: str, rows: int
) -> None:
    file = tmp_path / "new" / "all.csv"
    output = export("--format=csv", f"--table={table}", f"--output={file}")
    assert f"wrote {file}" in output.err
    read = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))
    assert len(list(read)) == rows
    assert ("role" in (read.fieldnames or ())) == (table in ("servers", "replicas"))


def test_stages_can_be_chosen(export: Export) -> None:
    output = export("--format=llm-d", f"--stage={CAPPED}")
    assert (
        yaml.safe_load(output.out)["scenario"]["load"]["metadata"]["description"]
        == CAPPED
    )


# ---- what is left out
# --------------------------------------------------------------------------------------------------


def test_invalid_numbers_are_left_out_with_a_remark(export: Export) -> None:
    output = export("--format=vllm", rows=INVALID)
    assert [
        json.loads(line)["benchrun_stage"] for line in output.out.splitlines()
    ] == [s for s in STAGES if s != CAPPED]
    golden(output.err)


def test_with_the_option_they_are_there_and_marked(export: Export) -> None:
    output = export("--format=vllm", "--include-invalid", rows=INVALID)
    verdicts = {
        each["benchrun_stage"]: each["benchrun_verdict"]
        for each in map(json.loads, output.out.splitlines())
    }
    assert verdicts == {
        stage_id: "Invalid" if stage_id == CAPPED else "Valid"
        for stage_id in STAGES
    }
    assert output.err == ""


def test_where_nothing_can_be_trusted_nothing_is_exported(
    export: Export, tmp_path: Path
) -> None:
    output = export("--format=csv", f"--output={tmp_path / 'out'}", rows=EVERY)
    assert output.code == 1
    assert not (tmp_path / "out").exists()
    golden(output.err)


def test_records_that_are_gone_are_reported(export: Export) -> None:
    output = export("--format=csv", "--table=requests", stages=STAGES[:2])
    assert output.code == 0
    golden(output.err)


# ---- what can't be done
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--format=llm-d"],
            "4 stages make 4 reports: give a folder, or one stage with --stage",
        ),
        (
            ["--format=csv", "--stage=chat/concurrency=4/r3"],
            "there is no stage 'chat/concurrency=4/r3'; did you mean",
        ),
    ],
)
def test_an_impossible_option_is_reported(
    export: Export, options: list[str], sentence: str
) -> None:
    output = export(*options)
    assert (output.code, output.out) == (1, b"")
    assert f"benchrun: {sentence}" in output.err


def test_a_run_that_goes_on_has_nothing_to_export_yet(export: Export) -> None:
    output = export("--format=csv", ended=False)
    assert output.code == 1
    golden(output.err)


@pytest.mark.parametrize(
    "options", [("--format=csv", "--table=requests"), ("--format=vllm",)]
)
def test_single_requests_need_the_records(
    export: Export, options: Sequence[str]
) -> None:
    output = export(*options, stages=[])
    assert (output.code, output.out) == (1, b"")
    assert "--records PATH" in output.err


def test_all_but_single_requests_needs_no_record(
    export: Export, tmp_path: Path
) -> None:
    output = export("--format=csv", f"--output={tmp_path / 'out'}", stages=[])
    assert made(tmp_path / "out") == ["replicas.csv", "servers.csv", "stages.csv"]
    assert output.code == 0
    golden(output.err)


def test_a_document_alone_is_exported_as_it_is_with_the_cluster(
    export: Export, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "result.json"
    assert export("--format=result", f"--output={file}").code == 0
    for name, *options in (
        ["csv", "--table=stages"],
        ["csv", "--table=servers"],
        ["csv", "--table=replicas"],
        ["llm-d", f"--stage={CHAT}"],
        ["result"],
    ):
        whole = export(f"--format={name}", *options)
        main(["export", "-f", str(file), f"--format={name}", *options])
        assert (whole.code, capsysbinary.readouterr().out) == (0, whole.out)


def test_a_run_without_a_document_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = status().model_copy(update={"conditions": (COMPLETE,)})
    arguments = saved(tmp_path, ended, STAGES)
    body = yaml.safe_load((tmp_path / "run.yaml").read_text(encoding="utf-8"))
    del body["status"]["resultDocument"]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    assert main([*arguments, "--format=csv"]) == 1
    golden(capsys.readouterr().err)


def test_a_path_that_cannot_be_written_is_named(
    export: Export, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("a file", encoding="utf-8")
    output = export("--format=csv", f"--output={tmp_path / 'plain' / 'x.csv'}")
    assert (output.code, str(tmp_path / "plain") in output.err) == (1, True)


def test_parquet_is_not_thrown_at_a_terminal(
    export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output = export("--format=parquet")
    assert (output.code, output.out) == (1, b"")
    assert "--output" in output.err


def refusal(
    export: Export, capsysbinary: pytest.CaptureFixture[bytes], name: str
) -> str:
    """What is said of a format that can't be had."""
    with pytest.raises(SystemExit) as ended:
        export(f"--format={name}")
    assert ended.value.code == 2
    return " ".join(capsysbinary.readouterr().err.decode().split())


def test_an_unknown_format_lists_the_known(
    export: Export, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    output = refusal(export, capsysbinary, "xls")
    assert all(name in output for name in ("'xls'", *FORMATS))


REGISTERED = """
from benchrun.report.export.formats import Format

def document(run, table):
    return " ".join(stage.id for stage in run.stages).encode()

names = Format("names of stages", files=lambda run: {"names.txt": document(run, "stages")}, document=document)
not_one = "names of stages"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package, as it is when it is installed."""
    site = tmp_path / "site"
    (site / "acme_exports-1.0.dist-info").mkdir(parents=True)
    (site / "acme_exports.py").write_text(REGISTERED, encoding="utf-8")
    entries = [
        "[benchrun.exports]",
        "names = acme_exports:names",
        "not-one = acme_exports:not_one",
        "gone = acme_gone:x",
    ]
    (site / "acme_exports-1.0.dist-info" / "entry_points.txt").write_text(
        "\n".join(entries), encoding="utf-8"
    )
    (site / "acme_exports-1.0.dist-info" / "METADATA").write_text(
        "Name: acme-exports\nVersion: 1.0\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(site)


@pytest.mark.usefixtures("package")
def test_another_package_may_register_a_format(
    export: Export, tmp_path: Path
) -> None:
    assert export("--format=names", f"--stage={CHAT}").out == CHAT.encode()
    export("--format=names", f"--output={tmp_path}/out/")
    assert made(tmp_path / "out") == ["names.txt"]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("name", ["not-one", "gone", "nams"])
def test_a_package_that_registers_something_else_is_named(
    name: str, export: Export, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    golden(refusal(export, capsysbinary, name))
