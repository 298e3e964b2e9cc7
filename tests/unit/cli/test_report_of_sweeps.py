"""`benchrun report` of sweeps: on files and on what kubectl gives."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, ResultDocument, RunIdentity
from benchrun.api.sweep import essence
from benchrun.cli.__main__ import TABLE_WIDTH, main
from benchrun.judge.sweep.judged_sweep import fitted
from benchrun.measure import role_timelines
from benchrun.plan import Owner
from unit.cli.fake_kubectl import FakeKubectl
from unit.judge.comparison.sides import row, run
from unit.measure.timelines import gauge_samples
from unit.plan.specs import concurrencies, spec_body, workload
from unit.report.finished_sweeps import (
    FinishedSweep,
    Measured,
    batches,
    finished_sweep,
)
from unit.report.going_on import run_body, running
from unit.stored_documents import stored_document
from unit.sweep import simulated
from unit.sweep.simulated import SimulatedCluster, SimulatedOperator
from unit.sweep.sweeps import NAME, THREE, a_run, ended, failed, sweep_body

Capture = pytest.CaptureFixture[str]
NO_RUN = 'Error from server (NotFound): benchmarkruns.benchrun.dev "seqs" not found'


@pytest.fixture
def body(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A sweep of three variants: a baseline, a faster one, and one that ran out of memory."""
    throughput = {"seqs-v1-r1": 1000.0, "seqs-v2-r1": 1250.0}
    monkeypatch.setattr(
        simulated,
        "figures",
        lambda name: essence(
            run(
                name, [row(repeats=5, cv=1.0, OutputThroughput=throughput[name])]
            ).status
        ),
    )
    cluster = SimulatedCluster(sweep_body(THREE))
    for name in throughput:
        cluster.runs[name] = a_run(name, status=ended())
    cluster.runs["seqs-v3-r1"] = a_run(
        "seqs-v3-r1", status=failed("OutOfGPUMemory", "CUDA out of memory")
    )
    SimulatedOperator(cluster).make_pass()
    return {
        "kind": "BenchmarkSweep",
        "metadata": {"name": NAME},
        "spec": cluster.spec,
        "status": cluster.status,
    }


@pytest.fixture
def file(tmp_path: Path, body: dict[str, Any]) -> str:
    """It holds a run of that name as well."""
    path = tmp_path / "sweeps.json"
    path.write_text(
        json.dumps(
            {
                "kind": "List",
                "items": [
                    {"kind": "BenchmarkRun", "metadata": {"name": NAME}},
                    body,
                ],
            }
        )
    )
    return str(path)


def lines(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def test_figures_then_changes_then_who_did_best(file: str, capsys: Capture) -> None:
    assert main(["report", NAME, "--sweep", "-f", file]) == 2, (
        "a run failed: the table has a hole"
    )
    output = lines(capsys.readouterr().out)
    assert output[0][:2] == ["seqs:", "Valid"]
    assert [
        "base",
        "chat/rate=4",
        "1",
        "9.4",
        "1000",
        "43",
        "11",
        "1440",
        "Valid",
    ] in output
    assert [
        "wide",
        "chat/rate=4",
        "1",
        "9.4",
        "1250",
        "43",
        "11",
        "1440",
        "Valid",
    ] in output
    assert ["wider", "chat/rate=4", "0", *"-----", "OutOfGPUMemory"] in output
    [change] = [
        line
        for line in output
        if line[:3] == ["wide", "chat/rate=4", "OutputThroughput"]
    ]
    assert (change[3:7], change[-1]) == (["1000", "1250", "+25.0", "%"], "Better")
    assert [
        "chat",
        "throughput",
        "wide",
        "chat/rate=4",
        "1250",
        "-",
        "0%",
    ] in output


def test_a_remark_explains_the_table(file: str, capsys: Capture) -> None:
    main(["report", NAME, "--sweep", "-f", file])
    output = " ".join(capsys.readouterr().out.split())
    assert (
        "against base, within one server: the intervals hold the noise of repeats"
        in output
    )
    assert "wider: OutOfGPUMemory in seqs-v3-r1: CUDA out of memory" in output


@pytest.mark.parametrize("options", [[], ["--sweep"]])
def test_a_report_by_name_queries_the_cluster_for_the_sweep(
    options: list[str], kubectl: FakeKubectl, body: dict[str, Any], capsys: Capture
) -> None:
    kubectl.fails("get", "benchmarkruns.benchrun.dev", NAME, error=NO_RUN)
    kubectl.answer(
        "get", "benchmarksweeps.benchrun.dev", NAME, out=json.dumps(body)
    )
    assert main(["report", NAME, "-n", "lab", *options]) == 2
    assert "against base" in capsys.readouterr().out


def test_where_a_run_has_its_name_the_option_says_which_is_meant(
    kubectl: FakeKubectl, body: dict[str, Any], capsys: Capture
) -> None:
    kubectl.gives(
        "get", "benchmarkruns.benchrun.dev", NAME, body=run_body(running())
    )
    kubectl.gives("get", "benchmarksweeps.benchrun.dev", NAME, body=body)
    assert main(["report", NAME]) == 0
    assert "against base" not in capsys.readouterr().out
    assert main(["report", NAME, "--sweep"]) == 2
    assert "against base" in capsys.readouterr().out


def test_a_sweep_that_was_not_looked_at_yet(
    kubectl: FakeKubectl, body: dict[str, Any], capsys: Capture
) -> None:
    kubectl.gives(
        "get",
        "benchmarksweeps.benchrun.dev",
        NAME,
        body={**body, "status": {"observedGeneration": -1}},
    )
    assert main(["report", NAME, "--sweep"]) == 0
    assert capsys.readouterr().out.startswith("seqs: Unknown")


def test_a_file_without_it_is_named(file: str, capsys: Capture) -> None:
    assert main(["report", "other", "--sweep", "-f", file]) == 1
    assert "holds no BenchmarkSweep other" in " ".join(
        capsys.readouterr().err.split()
    )
    assert main(["report", "other", "--sweep", "-f", f"{file}.none"]) == 1
    assert "No such file" in " ".join(capsys.readouterr().err.split())


def test_a_sweep_without_a_name_is_that_of_the_file(
    file: str, capsys: Capture
) -> None:
    assert main(["report", "--sweep", "-f", file]) == 2
    assert "against base" in capsys.readouterr().out
    assert main(["report", "--sweep"]) == 1
    assert "name a sweep, or a file with -f FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "options"),
    [("BenchmarkRun or BenchmarkSweep", []), ("BenchmarkSweep", ["--sweep"])],
    ids=["", "sweep"],
)
def test_a_name_that_is_none_is_answered_with_those_that_there_are(
    what: str, options: list[str], kubectl: FakeKubectl, capsys: Capture
) -> None:
    for resource in ("benchmarkruns", "benchmarksweeps"):
        error = f'Error from server (NotFound): {resource}.benchrun.dev "sqes" not found'
        kubectl.fails(
            "get",
            f"{resource}.benchrun.dev",
            "sqes",
            error=error,
            unless="--ignore-not-found",
        )
    kubectl.answer(
        "get", "benchmarksweeps.benchrun.dev", "sqes", "--ignore-not-found"
    )
    kubectl.gives("get", "benchmarkruns.benchrun.dev", body={"items": []})
    kubectl.gives(
        "get",
        "benchmarksweeps.benchrun.dev",
        body={"items": [{"metadata": {"name": "seqs"}}]},
    )
    assert main(["report", "sqes", "-n", "lab", *options]) == 1
    assert (
        capsys.readouterr().err
        == f"benchrun: there is no {what} sqes in namespace lab; did you mean seqs?\n"
    )


# ---- forms
# -----------------------------------------------------------------------------------------------------------


def written(folder: Path, found: FinishedSweep) -> str:
    path = folder / "sweep.json"
    path.write_text(json.dumps(found.body), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("code", "measured"),
    [
        (0, {"base": Measured()}),
        (4, {"base": Measured(verdict="Invalid")}),
        (2, {"base": Measured(), "wide": None}),
    ],
    ids=["Valid", "Invalid", "a run failed"],
)
@pytest.mark.parametrize(
    "form",
    [[], ["--markdown"], ["--html", "page.html"]],
    ids=["tables", "Markdown", "HTML"],
)
def test_the_exit_code_is_that_of_the_verdict(
    code: int,
    measured: dict[str, Measured | None],
    form: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        main(
            [
                "report",
                NAME,
                "-f",
                written(tmp_path, finished_sweep(measured)),
                *form,
            ]
        )
        == code
    )


def test_a_wide_table_is_as_wide_as_it_must_be(
    tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path, batches())
    assert main(["report", NAME, "-f", file]) == 0
    narrow = capsys.readouterr().out.splitlines()
    assert max(map(len, narrow)) <= TABLE_WIDTH
    assert "total tok/s" not in "".join(narrow)
    assert main(["report", NAME, "-f", file, "--wide"]) == 0
    wide = capsys.readouterr().out.splitlines()
    header = next(line for line in wide if line.startswith("variant  load point"))
    assert len(header) > TABLE_WIDTH
    assert lines("\n".join(wide[wide.index(header) :]))[1] == [
        *(
            "10000",
            "chat/rate=inf",
            "1",
            "20.3",
            "81.2",
            "81",
            "25400",
            "81",
            "43",
            "11",
            "1440",
        ),
        *("33", "491", "9.4%", "0.2%", "Valid"),
    ]


@pytest.mark.parametrize(
    ("columns", "is_pivot"),
    [(TABLE_WIDTH, False), (400, True)],
    ids=["too narrow", "wide enough"],
)
def test_changes_stand_side_by_side_where_no_load_point_is_cut(
    columns: int,
    is_pivot: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    load_points = [
        f"chat/concurrency={users}" for users in (8, 16, 32, 64, 128, 256, 512)
    ]
    template = spec_body(
        workloads=[workload(load=concurrencies(8, 16, 32, 64, 128, 256, 512))]
    )
    found = finished_sweep(
        {"base": Measured(), "other": Measured()},
        load_points=load_points,
        replications=3,
        template=template,
    )
    assert main(["report", NAME, "-f", written(tmp_path, found)]) == 0
    _, _, output = capsys.readouterr().out.partition("against base")
    headers, *rows = lines(output.partition("Pareto")[0])[1:]
    assert (headers[:2] == ["figure", "variant"]) is is_pivot
    words = [
        word for row in rows for word in row if word in ("Equivalent", "detected")
    ]
    assert len(words) == len(load_points) * len(found.status.results[-1].changes)
    assert "other" in output


def test_markdown_goes_to_standard_output(tmp_path: Path, capsys: Capture) -> None:
    assert (
        main(["report", NAME, "-f", written(tmp_path, batches()), "--markdown"])
        == 0
    )
    assert capsys.readouterr().out.startswith("## seqs: Valid\n\n")


def with_timeline(body: dict[str, Any]) -> dict[str, Any]:
    """Give a run a result document with a timeline; return its ConfigMap."""
    metadata = body["metadata"]
    owner = Owner(namespace="lab", name=metadata["name"], uid=metadata["uid"])
    samples = gauge_samples([(33.0, 9.0, 0.5)] * 20)
    document = ResultDocument(
        run=RunIdentity(namespace="lab", name=owner.name, uid=owner.uid),
        spec=BenchmarkRunSpec.model_validate(body["spec"]),
        timeline=role_timelines(samples, at_most=10),
    )
    ref, config_map = stored_document(document, owner)
    stored = ref.model_dump(by_alias=True)
    body["status"] = {**body["status"], "resultDocument": stored}
    return config_map


def test_a_page_shows_the_variants_over_time_by_what_their_runs_kept(
    tmp_path: Path,
) -> None:
    """Of the third variant nothing was kept."""
    found = batches()
    runs = [{**each, "spec": spec_body()} for each in found.runs]
    chunks = [with_timeline(each) for each in runs[:2]]
    files = {"sweep.json": [found.body, *runs], "kept.json": chunks}
    for name, items in files.items():
        (tmp_path / name).write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
            encoding="utf-8",
        )
    sweep, kept, page = (str(tmp_path / name) for name in (*files, "page.html"))
    assert (
        main(
            [
                "report",
                NAME,
                "--sweep",
                "-f",
                sweep,
                "--records",
                kept,
                "--html",
                page,
            ]
        )
        == 0
    )
    output = Path(page).read_text(encoding="utf-8")
    assert "Variants over time" in output
    assert "Samples of the servers of 10000, 80000, each" in output


def test_a_sweep_that_goes_on_has_no_page_yet(
    tmp_path: Path, capsys: Capture
) -> None:
    going_on = {
        "kind": "BenchmarkSweep",
        "metadata": {"name": NAME},
        "spec": sweep_body(),
        "status": {},
    }
    file = tmp_path / "s.json"
    page = tmp_path / "page.html"
    file.write_text(json.dumps(going_on), encoding="utf-8")
    assert main(["report", NAME, "-f", str(file), "--html", str(page)]) == 1
    assert "seqs has not ended" in capsys.readouterr().err
    assert not page.exists()


# ---- what the status had no room for
# ---------------------------------------------------------------------------------

MAX_BYTES = 7_500
"""In the place of 60,000: a table of 256 rows takes seconds to be drawn."""
FOUR = range(8, 12)
ROWS = 8 * len(FOUR)


@pytest.fixture(scope="module")
def large() -> FinishedSweep:
    """A sweep with more rows than fit, each with every figure; its last variant did not start."""
    server = {
        "running_mean": 123.4,
        "waiting_mean": 234.5,
        "kv_cache_max_percent": 98.7,
        "prefix_hit_percent": 1.2,
    }
    measured: dict[str, Measured | None] = {
        f"variant-{n:02d}": Measured(server=server) for n in range(7)
    }
    load_points = [f"{'w' * 12}/concurrency={users}" for users in FOUR]
    template = spec_body(workloads=[workload("w" * 12, load=concurrencies(*FOUR))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitted, "__kwdefaults__", {"max_bytes": MAX_BYTES})
        return finished_sweep(
            measured | {"lame": None},
            load_points=load_points,
            replications=2,
            template=template,
        )


def shown_rows(output: str) -> list[list[str]]:
    table, _, _ = output.partition("latencies in milliseconds")
    return [
        line
        for line in lines(table)
        if line and (line[0].startswith("variant-") or line[0] == "lame")
    ]


def test_rows_that_the_status_has_no_room_for_come_from_the_runs(
    kubectl: FakeKubectl, large: FinishedSweep, capsys: Capture
) -> None:
    assert {"results", "results[].metrics"} <= {
        cut.field for cut in large.status.truncated
    }
    kubectl.gives("get", "benchmarksweeps.benchrun.dev", NAME, body=large.body)
    kubectl.gives(
        "get",
        "benchmarkruns.benchrun.dev",
        f"--selector=benchrun.dev/sweep={NAME}",
        body={"items": large.runs},
    )
    assert main(["report", NAME, "--sweep", "--wide"]) == 2
    output = capsys.readouterr().out
    rows = shown_rows(output)
    assert len(rows) == ROWS
    assert all("98.7%" in row for row in rows if row[0] != "lame")
    assert "did not fit" not in output


def test_a_file_may_hold_the_sweep_and_its_runs(
    large: FinishedSweep,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # so that the table is in one piece
    file = tmp_path / "all.json"
    file.write_text(
        json.dumps({"kind": "List", "items": [large.body, *large.runs]})
    )
    assert main(["report", NAME, "-f", str(file)]) == 2
    assert len(shown_rows(capsys.readouterr().out)) == ROWS


@pytest.mark.parametrize(
    "gone", ["one run", "all runs", "figures of one", "somebody else's"]
)
def test_where_runs_are_gone_the_status_is_shown_with_what_is_missing(
    gone: str, large: FinishedSweep, tmp_path: Path, capsys: Capture
) -> None:
    runs = [dict(run) for run in large.runs]
    match gone:
        case "one run":
            runs = runs[1:]
        case "all runs":
            runs = []
        case "figures of one":
            runs[0]["status"] = {**runs[0]["status"], "results": "many"}
        case _:
            runs[0]["metadata"] = {**runs[0]["metadata"], "ownerReferences": []}
    file = tmp_path / "some.json"
    file.write_text(json.dumps({"kind": "List", "items": [large.body, *runs]}))
    assert main(["report", NAME, "-f", str(file)]) == 2
    output = capsys.readouterr().out
    assert len(shown_rows(output)) == len(large.status.results) < ROWS
    assert "did not fit into the status" in " ".join(output.split())


def test_who_may_not_read_runs_sees_the_status(
    kubectl: FakeKubectl, large: FinishedSweep, capsys: Capture
) -> None:
    kubectl.gives("get", "benchmarksweeps.benchrun.dev", NAME, body=large.body)
    kubectl.fails(
        "get",
        "benchmarkruns.benchrun.dev",
        error="Error from server (Forbidden): no",
    )
    assert main(["report", NAME, "--sweep"]) == 2
    assert len(shown_rows(capsys.readouterr().out)) == len(large.status.results)


def test_whoever_watched_it_sees_the_whole_table_too(
    kubectl: FakeKubectl, large: FinishedSweep, capsys: Capture
) -> None:
    kubectl.watch(large.body, target=NAME)
    kubectl.watch(
        run_body(running()), target=f"--selector=benchrun.dev/sweep={NAME}"
    )
    kubectl.gives("get", "benchmarksweeps.benchrun.dev", NAME, body=large.body)
    kubectl.gives(
        "get",
        "benchmarkruns.benchrun.dev",
        f"--selector=benchrun.dev/sweep={NAME}",
        body={"items": large.runs},
    )
    assert main(["watch", NAME, "--sweep", "--wide"]) == 2
    assert len(shown_rows(capsys.readouterr().out)) == ROWS


@pytest.mark.parametrize(
    "gone", ["benchmarksweeps.benchrun.dev", "benchmarkruns.benchrun.dev"]
)
def test_what_is_gone_after_watching_leaves_the_table_of_the_status(
    gone: str, kubectl: FakeKubectl, large: FinishedSweep, capsys: Capture
) -> None:
    kubectl.watch(large.body, target=NAME)
    kubectl.watch(
        run_body(running()), target=f"--selector=benchrun.dev/sweep={NAME}"
    )
    kubectl.fails("get", gone, error="Error from server (Forbidden): no")
    kubectl.gives("get", "benchmarksweeps.benchrun.dev", NAME, body=large.body)
    kubectl.gives("get", "benchmarkruns.benchrun.dev", body={"items": large.runs})
    assert main(["watch", NAME, "--sweep"]) == 2
    output = capsys.readouterr().out
    assert len(shown_rows(output)) == len(large.status.results) < ROWS
    assert "did not fit into the status" in " ".join(output.split())
