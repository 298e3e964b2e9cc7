"""`benchrun compare` on files and on what kubectl gives."""

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from benchrun.api import (
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    Bottleneck,
    Change,
    ComparedLoadPoint,
    ComparedRun,
    Comparison,
    ResultDocument,
    RunIdentity,
    RunInstants,
    result_json,
)
from benchrun.cli.__main__ import main
from benchrun.cli.console_tables import COMPARISON_WIDTH, show_comparison
from rich.console import Console
from unit.cli.stored_runs import body, unmeasured_noise, written
from unit.golden_messages import golden

LOAD_POINTS = ("chat/rate=1", "chat/rate=4")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Runs before and after a change that made TTFT worse, and three fresh servers of each."""
    servers = [body(f"old-{n}", MeanTTFT=43.0 + n / 10) for n in range(3)]
    servers += [body(f"new-{n}", MeanTTFT=60.0 + n / 10) for n in range(3)]
    runs = [
        body("old", load_points=LOAD_POINTS),
        body("new", load_points=LOAD_POINTS, MeanTTFT=60.0),
        body("other", load_points=LOAD_POINTS),
        *servers,
    ]
    return written(tmp_path / "runs.yaml", *runs, unmeasured_noise("once"))


def test_a_table_of_100_columns_and_what_it_rests_on(
    file: str, capsys: Capture
) -> None:
    assert (
        main(
            [
                "compare",
                "-f",
                file,
                "old",
                "new",
                "-m",
                "OutputThroughput",
                "-m",
                "MeanTTFT",
            ]
        )
        == 0
    )
    output = capsys.readouterr().out.splitlines()
    assert [line.split() for line in output[1:6]] == [
        [
            "load",
            "point",
            "figure",
            "baseline",
            "value",
            "change",
            "interval",
            "word",
        ],
        [
            "chat/rate=1",
            "OutputThroughput",
            "1200",
            "1200",
            "+0.0",
            "%",
            "-2.0",
            "to",
            "+2.0",
            "not",
            "detected",
        ],
        [
            "chat/rate=1",
            "MeanTTFT",
            "43",
            "60",
            "+39.5",
            "%",
            "+36.7",
            "to",
            "+42.4",
            "Worse",
        ],
        [
            "chat/rate=4",
            "OutputThroughput",
            "1200",
            "1200",
            "+0.0",
            "%",
            "-2.0",
            "to",
            "+2.0",
            "not",
            "detected",
        ],
        [
            "chat/rate=4",
            "MeanTTFT",
            "43",
            "60",
            "+39.5",
            "%",
            "+36.7",
            "to",
            "+42.4",
            "Worse",
        ],
    ]
    assert max(map(len, output)) <= 100
    assert "Within one server" in " ".join(" ".join(output).split())
    golden(output[0])


def test_fresh_servers_are_listed_with_commas(file: str, capsys: Capture) -> None:
    assert (
        main(
            [
                "compare",
                "-f",
                file,
                "old-0,old-1,old-2",
                "new-0,new-1,new-2",
                "-m",
                "MeanTTFT",
            ]
        )
        == 0
    )
    assert "Between servers" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("code", "verdict", "after", "limit"),
    [
        pytest.param(
            3,
            "regressed on these two servers: a figure",
            "new",
            "10",
            id="regressed",
        ),
        pytest.param(
            6, "undecided, one server a side:", "other", "10", id="not regressed"
        ),
        pytest.param(
            6,
            "undecided, one server a side:",
            "new",
            "60",
            id="within a wider limit",
        ),
        pytest.param(
            6,
            "underpowered:",
            "other",
            "0.5",
            id="the noise is larger than the limit",
        ),
        pytest.param(6, "inconclusive:", "once", "10", id="no idea of the noise"),
    ],
)
def test_the_gate_decides_the_exit_code(
    file: str, capsys: Capture, code: int, verdict: str, after: str, limit: str
) -> None:
    assert (
        main(
            [
                "compare",
                "-f",
                file,
                "old",
                after,
                "-m",
                "MeanTTFT",
                "--max-regression",
                limit,
            ]
        )
        == code
    )
    assert verdict in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "after", "limit"), [(3, "new", "10"), (0, "other", "10")]
)
def test_a_gate_with_one_server_a_side_passes_if_the_user_says_that_one_is_enough(
    file: str, capsys: Capture, code: int, after: str, limit: str
) -> None:
    gated = ["-m", "MeanTTFT", "--max-regression", limit, "--one-server-is-enough"]
    assert main(["compare", "-f", file, "old", after, *gated]) == code
    output = " ".join(capsys.readouterr().out.split())
    assert "holds for these two servers only" in output
    assert "--one-server-is-enough" not in output


@pytest.mark.parametrize(("code", "after"), [(3, "new"), (0, "old")])
def test_a_gate_with_several_servers_a_side_keeps_its_words(
    tmp_path: Path, capsys: Capture, code: int, after: str
) -> None:
    ttft = {"old": 43.0, "new": 60.0}
    sides = [
        [body(f"{name}{n}", MeanTTFT=ttft[name] + n / 100) for n in range(4)]
        for name in ttft
    ]
    file = written(tmp_path / "runs.yaml", *sides[0], *sides[1])
    before = "old0,old1"
    others = {"old": "old2,old3", "new": "new0,new1"}
    gated = ["-m", "MeanTTFT", "--max-regression", "10", "-o", "json"]
    assert main(["compare", "-f", file, before, others[after], *gated]) == code
    assert (
        json.loads(capsys.readouterr().out)["gate"]
        == {3: "Regressed", 0: "NotRegressed"}[code]
    )


@pytest.mark.parametrize(
    ("outcome", "least"), [("Equivalent", "3"), ("NoDetectableDifference", "1")]
)
def test_the_least_change_that_matters_and_the_least_that_is_found(
    file: str, capsys: Capture, outcome: str, least: str
) -> None:
    assert (
        main(
            [
                "compare",
                "-f",
                file,
                "old",
                "other",
                "-o",
                "json",
                "-m",
                "MeanTTFT",
                "--equivalence",
                least,
            ]
        )
        == 0
    )
    output = json.loads(capsys.readouterr().out)
    assert output["outcome"] == outcome
    assert output["detectablePercent"] == pytest.approx(
        2.45, abs=0.02
    )  # Two load points, CV 1 % over 5 repeats.


def test_json_for_programs(file: str, capsys: Capture) -> None:
    assert (
        main(["compare", "-f", file, "old", "new", "-o", "json", "-m", "MeanTTFT"])
        == 0
    )
    output = json.loads(capsys.readouterr().out)
    assert (output["outcome"], output["scope"], output["gate"]) == (
        "Worse",
        "WithinOneServer",
        None,
    )
    assert [
        run["name"] for side in ("baseline", "candidate") for run in output[side]
    ] == [
        "old",
        "new",
    ]
    assert output["baseline"][0]["digest"].startswith("sha256:")
    assert output["loadPoints"][0]["changes"][0]["changePercent"] == pytest.approx(
        39.53, abs=0.01
    )


@pytest.fixture
def steps(tmp_path: Path) -> str:
    """Two sizes of a step under all requests at once: more runs, and no more comes out."""
    runs = [
        body(name, load_points=("chat/rate=inf", "chat/rate=4"))
        for name in ("small", "large")
    ]
    for run, running, usage in zip(runs, (33, 267), (9.4, 78), strict=True):
        for row in run["status"]["results"]:
            row["roles"] = [
                {
                    "role": "server",
                    "runningMean": running,
                    "kvCacheMaxPercent": usage,
                }
            ]
    return written(tmp_path / "steps.yaml", *runs)


def test_a_limit_that_both_sides_together_show_stands_under_the_table(
    steps: str, capsys: Capture
) -> None:
    assert (
        main(["compare", "-f", steps, "small", "large", "-m", "OutputThroughput"])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    golden(lines[4])
    output = " ".join(line.strip() for line in lines)
    assert output.count("is the limit") == 1
    golden(output)


def test_limits_for_programs(steps: str, capsys: Capture) -> None:
    assert main(["compare", "-f", steps, "small", "large", "-o", "json"]) == 0
    (limit,) = json.loads(capsys.readouterr().out)["limits"]
    assert (
        limit["loadPoint"],
        limit["limit"],
        limit["evidence"]["runningHigh"],
    ) == (
        "chat/rate=inf",
        "Compute",
        267,
    )


def test_what_is_not_comparable_says_why(file: str, capsys: Capture) -> None:
    assert main(["compare", "-f", file, "old", "once"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    golden(output)


def test_traffic_that_differs_is_reported(tmp_path: Path, capsys: Capture) -> None:
    other = body("b")
    other["status"]["results"][0]["traffic"] = "another"
    main(
        [
            "compare",
            "-f",
            written(tmp_path / "two.yaml", body("a"), other),
            "a",
            "b",
        ]
    )
    golden(capsys.readouterr().out)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["old", "gone"], id="unknown name"),
        pytest.param(["old", ","], id="no name"),
    ],
)
def test_a_run_that_is_not_there_is_an_error(
    file: str, capsys: Capture, arguments: list[str]
) -> None:
    assert main(["compare", "-f", file, *arguments]) == 1
    golden(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        pytest.param(
            "holds no BenchmarkRun",
            "kind: Pod\nmetadata: {name: a}\n",
            id="other objects",
        ),
        pytest.param("holds no BenchmarkRun", "- 1\n- 2\n", id="no object"),
        pytest.param("holds no BenchmarkRun", "", id="empty"),
        pytest.param("runs.yaml", "a: [\n", id="not YAML"),
        pytest.param(
            "runs.yaml", "!!python/object/apply:os.getcwd []\n", id="code"
        ),
    ],
)
def test_a_file_without_runs_is_an_error(
    tmp_path: Path, capsys: Capture, message: str, text: str
) -> None:
    path = tmp_path / "runs.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["compare", "-f", str(path), "a", "b"]) == 1
    assert message in capsys.readouterr().err.replace("\n", "")


def test_a_name_may_not_mean_two_runs(tmp_path: Path, capsys: Capture) -> None:
    files = [
        written(tmp_path / f"{n}.yaml", body("a", MeanTTFT=float(n)))
        for n in (40, 50)
    ]
    assert main(["compare", "-f", files[0], "-f", files[1], "a", "a"]) == 1
    golden(capsys.readouterr().err)


def test_a_run_of_another_version_is_an_error(
    tmp_path: Path, capsys: Capture
) -> None:
    newer = body("b")
    newer["spec"]["fieldOfANewerOperator"] = 1
    assert (
        main(
            [
                "compare",
                "-f",
                written(tmp_path / "two.yaml", body("a"), newer),
                "a",
                "b",
            ]
        )
        == 1
    )
    golden(capsys.readouterr().err.replace("\n", " "))


@pytest.mark.parametrize("limit", ["-1", "nan", "inf", "five"])
def test_a_limit_must_be_a_percentage(file: str, limit: str) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "-f", file, "old", "new", f"--max-regression={limit}"])


def test_without_files_kubectl_is_used(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, ttft in (("old", 43.0), ("new", 60.0)):
        (tmp_path / f"{name}.json").write_text(
            json.dumps(body(name, MeanTTFT=ttft)), encoding="utf-8"
        )
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncat {tmp_path}/$3.json\n',
        encoding="utf-8",
    )
    kubectl.chmod(kubectl.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert main(["compare", "old", "new", "-n", "lab", "-m", "MeanTTFT"]) == 0
    assert (tmp_path / "asked").read_text(encoding="utf-8").count(
        "--namespace=lab"
    ) == 2
    golden(capsys.readouterr().out)


@pytest.mark.parametrize("command", ["watch", "report", "compare"])
def test_every_command_explains_itself(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert "usage: benchrun" in capsys.readouterr().out


LIMIT = Bottleneck(limit="Compute", sentence="compute is the limit")


def load_point(
    name: str = "chat/rate=4", *, word: str = "Worse", **fields: Any
) -> ComparedLoadPoint:
    change = Change(
        metric="MeanTTFT",
        baseline=43,
        value=60,
        change_percent=39.5,
        low_percent=36.9,
        high_percent=42.2,
        word=word,
    )
    return ComparedLoadPoint(
        load_point=name, changes=[change], **{"paired": True, **fields}
    )


def comparison(
    *load_points: ComparedLoadPoint, outcome: str = "Worse", gate: Any = None
) -> Comparison:
    return Comparison(
        baseline=ComparedRun(name="old"),
        outcome=outcome,
        gate=gate,
        message="It got slower.",
        load_points=list(load_points),
    )


def shown(
    found: Comparison, *, coloured: bool = False, **limits: Bottleneck
) -> list[str]:
    out = io.StringIO()
    console = Console(
        file=out,
        width=200,
        highlight=False,
        force_terminal=coloured,
        color_system="standard" if coloured else None,
    )
    show_comparison(
        console,
        found,
        before="old",
        after="new",
        limited={"chat/rate=4": limits["limit"]} if limits else None,
    )
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_each_part_has_its_line() -> None:
    left_out = ComparedLoadPoint(load_point="rag/rate=1", reason="another GPU")
    found = comparison(
        load_point(),
        load_point("chat/rate=8", paired=False),
        left_out,
        gate="Regressed",
    )
    golden("\n".join(" ".join(line.split()) for line in shown(found, limit=LIMIT)))


def test_where_there_is_nothing_to_say_there_is_no_line() -> None:
    golden(*shown(comparison(outcome="NotComparable")))


def test_figures_stand_under_one_another() -> None:
    lines = shown(comparison(load_point(), load_point("chat/concurrency=1024")))
    assert [line.index("60") + 2 for line in lines[2:4]] == [
        lines[1].index("value") + len("value")
    ] * 2


def test_long_sentences_fold_at_100_columns_however_wide_the_terminal() -> None:
    found = comparison(load_point(reason="word " * 60)).model_copy(
        update={"message": "word " * 60}
    )
    assert max(map(len, shown(found))) <= COMPARISON_WIDTH == 100


@pytest.mark.parametrize(
    ("colour", "outcome"),
    [
        ("32", "Better"),
        ("31", "Worse"),
        ("33", "Mixed"),
        ("1", "NoDetectableDifference"),
        ("1", "Unknown"),
    ],
)
def test_outcomes_have_their_colours(colour: str, outcome: str) -> None:
    assert shown(comparison(outcome=outcome), coloured=True)[0].endswith(
        f"\x1b[{colour}m{outcome}\x1b[0m"
    )


@pytest.mark.parametrize(
    ("colour", "gate"),
    [
        ("32", "NotRegressed"),
        ("31", "Regressed"),
        ("31", "RegressedHere"),
        ("33", "NotRegressedHere"),
        ("33", "Inconclusive"),
    ],
)
def test_gates_have_theirs(colour: str, gate: str) -> None:
    assert shown(comparison(gate=gate), coloured=True)[-1].startswith(
        f"\x1b[{colour}m"
    )


def test_names_of_runs_are_no_markup() -> None:
    out = io.StringIO()
    show_comparison(
        Console(file=out, width=100), comparison(), before="[red]a[/red]", after="b"
    )
    golden(out.getvalue())


def test_documents_are_compared_as_the_runs_that_they_are_of(
    file: str, tmp_path: Path, capsys: Capture
) -> None:
    files = []
    for name, ttft in (("old", 43.0), ("new", 60.0)):
        declared = body(name, load_points=LOAD_POINTS, MeanTTFT=ttft)
        status = BenchmarkRunStatus.model_validate(declared["status"])
        document = ResultDocument(
            run=RunIdentity(namespace="lab", name=name, uid=f"uid-{name}"),
            instants=RunInstants(accepted_time="2026-01-01T00:00:00Z"),
            spec=BenchmarkRunSpec.model_validate(declared["spec"]),
            results=status.results,
            servers=status.servers,
            client=status.client,
        )
        files += ["-f", str(tmp_path / f"{name}.json")]
        (tmp_path / f"{name}.json").write_bytes(result_json(document))
    outputs = []
    for source in (["-f", file], files):
        assert main(["compare", *source, "old", "new", "-o", "json"]) == 0
        outputs.append(json.loads(capsys.readouterr().out))
    assert outputs[0]["loadPoints"] == outputs[1]["loadPoints"]
    assert len(outputs[0]["loadPoints"]) == len(LOAD_POINTS)
