"""The dashboards ask only for what the operator exposes: every query is evaluated by Prometheus'
own engine over it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from chart.monitoring import exposed, promtool, target_labels
from chart.rendering import CHART, EVERYTHING, REPOSITORY, Object, only, render

FILES = sorted((CHART / "files" / "dashboards").glob("*.json"))
BOARDS = {path.name: json.loads(path.read_text()) for path in FILES}
VARIABLES = {"$namespace": ".*", "$run": ".*", "$__rate_interval": "5m"}
MINUTES = 90
"""Past the longest range that a query looks back."""
BY = re.compile(r"by \(([^)]+)\)")
LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")


def panels(board: Object) -> Iterator[Object]:
    """Panels that ask for something."""
    yield from (panel for panel in board["panels"] if panel["type"] != "row")


def queries(board: Object) -> Iterator[str]:
    """What the panels and the variables ask for, as PromQL; of a variable: whether its label has
    values."""
    yield from (
        target["expr"] for panel in panels(board) for target in panel["targets"]
    )
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            found = LABEL_VALUES.fullmatch(variable["query"]["query"])
            assert found is not None, variable["name"]
            name, _, matchers = found["selector"].removesuffix("}").partition("{")
            yield f'{name}{{{matchers}{"," if matchers else ""}{found["label"]}!=""}}'


def filled_in(query: str) -> str:
    """The query as Grafana sends it with everything chosen."""
    for name, value in {**VARIABLES, "$job": target_labels()["job"]}.items():
        query = query.replace(name, value)
    assert "$" not in query, query
    return query


@pytest.fixture(scope="module")
def series() -> list[Object]:
    """All that the operator exposes, each series growing by one a minute."""
    return [
        {
            "series": f"{name}{json.dumps(labels)}".replace('": ', "=")
            .replace('{"', "{")
            .replace(', "', ", "),
            "values": f"1+1x{MINUTES}",
        }
        for name, labels in exposed()
    ]


def evaluate(expressions: list[str], series: list[Object], folder: Path) -> None:
    """Fails, naming them, when some of the expressions find nothing."""
    expected = [{"labels": "{}", "value": 1}]
    asked = [
        {
            "expr": f"count({query}) > bool 0",
            "eval_time": f"{MINUTES}m",
            "exp_samples": expected,
        }
        for query in expressions
    ]
    test = folder / "test.yaml"
    groups = [{"interval": "1m", "input_series": series, "promql_expr_test": asked}]
    test.write_text(
        yaml.safe_dump(
            {"rule_files": [], "evaluation_interval": "1m", "tests": groups}
        )
    )
    promtool("test", "rules", test)


@pytest.mark.parametrize("name", BOARDS)
def test_every_query_finds_something_among_what_the_operator_exposes(
    name: str, series: list[Object], tmp_path: Path
) -> None:
    expressions = [filled_in(query) for query in queries(BOARDS[name])]
    assert len(expressions) >= 15
    evaluate(expressions, series, tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param('sum(benchrun_queue_dept{job="bench-benchrun"})', id="name"),
        pytest.param(
            'sum(benchrun_queue_depth{jobs="bench-benchrun"})', id="label"
        ),
        pytest.param("sum(benchrun_queue_depth", id="syntax"),
    ],
)
def test_a_query_for_what_is_not_there_is_found_out(
    wrong: str, series: list[Object], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="benchrun_queue_dep"):
        evaluate([wrong], series, tmp_path)


@pytest.mark.parametrize("name", BOARDS)
def test_series_are_grouped_by_labels_that_they_have(name: str) -> None:
    """A label that nothing has would group everything into one."""
    labels = {label for _, carried in exposed() for label in carried}
    for query in queries(BOARDS[name]):
        for group in re.findall(r"(?:by|on) \(([^)]+)\)", query):
            assert set(group.split(", ")) <= labels, query


@pytest.mark.parametrize("name", BOARDS)
def test_legends_name_labels_that_the_query_keeps(name: str) -> None:
    for panel in panels(BOARDS[name]):
        for target in panel["targets"]:
            kept = {
                label
                for group in BY.findall(target["expr"])
                for label in group.split(", ")
            }
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, (
                panel["title"]
            )


@pytest.mark.parametrize("name", BOARDS)
def test_tables_name_columns_that_their_queries_make(name: str) -> None:
    for panel in panels(BOARDS[name]):
        if panel["type"] != "table":
            continue
        values = {f"Value #{target['refId']}" for target in panel["targets"]}
        labels = {
            label
            for t in panel["targets"]
            for group in BY.findall(t["expr"])
            for label in group.split(", ")
        }
        organized = panel["transformations"][1]["options"]
        renamed = organized["renameByName"]
        assert renamed.keys() | organized[
            "excludeByName"
        ].keys() == labels | values | {"Time"}
        assert organized["indexByName"].keys() == renamed.keys()
        assert {
            entry["matcher"]["options"]
            for entry in panel["fieldConfig"]["overrides"]
        } <= set(renamed.values())


@pytest.mark.parametrize("name", BOARDS)
def test_panels_have_identities_words_and_places_of_their_own(name: str) -> None:
    board = BOARDS[name]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        squares = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not squares & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= squares
    assert all(panel["title"] and panel["description"] for panel in panels(board))
    assert all(
        panel["datasource"]["uid"] == "${datasource}" for panel in panels(board)
    )


def test_boards_can_stand_side_by_side() -> None:
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS) == 2
    assert all(len(board["uid"]) <= 40 for board in BOARDS.values())


def test_config_map_holds_the_boards_unchanged_where_the_sidecar_looks() -> None:
    made = only(
        _dashboards(render({"metrics": {"dashboards": {"enabled": True}}})),
        "ConfigMap",
    )
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in made["data"].items()} == {
        f"benchrun-{name}": board for name, board in BOARDS.items()
    }


def test_config_map_takes_labels_and_annotations() -> None:
    made = only(_dashboards(render(EVERYTHING)), "ConfigMap")["metadata"]
    assert made["labels"]["team"] == "serving"
    assert made["annotations"] == {"grafana_folder": "Benchmarks"}


def test_nothing_is_rendered_unless_asked_for() -> None:
    assert _dashboards(render()) == []


def test_page_names_every_dashboard() -> None:
    page = (REPOSITORY / "docs" / "dashboards.md").read_text()
    for board in BOARDS.values():
        assert board["title"] in page


def _dashboards(objects: list[Object]) -> list[dict[str, Any]]:
    return [entry for entry in objects if entry["kind"] == "ConfigMap"]
