"""The alerts: they fire when they should, by promtool's own tests, and each has a page that says
what to do."""

import re
from pathlib import Path

import pytest
import yaml
from benchrun.runtime.telemetry import MAX_SILENCE_SECONDS
from benchrun.runtime.watching import INACTIVITY_TIMEOUT_SECONDS
from chart.monitoring import exposed, promtool, target_labels
from chart.rendering import (
    CHART,
    EVERYTHING,
    NAMESPACE,
    REPOSITORY,
    Object,
    only,
    render,
)

FILE = CHART / "files" / "alerts.yaml"
SCENES = Path(__file__).with_name("alerts.test.yaml")
PAGE = (REPOSITORY / "docs" / "dashboards.md").read_text()
SELECTOR = re.compile(r"\b([a-z_]+){([^}]*)}")


def rules(groups: Object) -> list[Object]:
    """All rules of a rule file."""
    return [rule for group in groups["groups"] for rule in group["rules"]]


KUBE_STATE_METRICS = {
    "kube_cronjob_status_last_schedule_time",
    "kube_cronjob_status_last_successful_time",
    "kube_cronjob_created",
}
RULES = rules(yaml.safe_load(FILE.read_text()))
OF_RUNS = {"benchrun_gpu_seconds_total", "benchrun_longest_wait_seconds"}
"""Series with a namespace of their own, that of runs."""
MONITORED = {
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
}
NAMES = [rule["alert"] for rule in RULES]


def test_prometheus_accepts_the_rules() -> None:
    assert f"SUCCESS: {len(RULES)} rules found" in promtool(
        "check", "rules", "--lint-fatal", FILE
    )


def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    bare = tmp_path / "rules.yaml"
    test = tmp_path / "test.yaml"
    # Words are not compared: they would stand here a second time.
    wordless = [
        {key: value for key, value in rule.items() if key != "annotations"}
        for rule in RULES
    ]
    bare.write_text(
        yaml.safe_dump({"groups": [{"name": "bare", "rules": wordless}]})
    )
    scenes = yaml.safe_load(SCENES.read_text()) | {"rule_files": [str(bare)]}
    test.write_text(yaml.safe_dump(scenes))
    promtool("test", "rules", test)
    seen = [
        check for scene in scenes["tests"] for check in scene["alert_rule_test"]
    ]
    assert {check["alertname"] for check in seen if check.get("exp_alerts")} == set(
        NAMES
    )
    assert {
        check["alertname"] for check in seen if not check.get("exp_alerts")
    } == set(NAMES)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_alert_asks_only_for_what_the_operator_exposes(rule: Object) -> None:
    names = {name for name, _ in exposed()} | KUBE_STATE_METRICS
    labels = {label for _, carried in exposed() for label in carried} | {"cronjob"}
    asked = SELECTOR.findall(rule["expr"])
    assert asked
    assert {name for name, _ in asked} <= names
    assert {
        matcher
        for _, matchers in asked
        for matcher in re.findall(r"(\w+)[=!]", matchers)
    } <= labels


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_alert_has_words_a_severity_and_a_place_on_the_page(rule: Object) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert {"summary", "description"} <= rule["annotations"].keys()
    assert f"\n### {rule['alert']}\n" in PAGE


def test_page_tells_of_no_alert_that_is_not_there() -> None:
    assert re.findall(r"^### (Benchrun\w+)$", PAGE, re.MULTILINE) == NAMES


def test_stale_watch_is_told_when_it_did_not_heal_itself_and_before_the_operator_is_restarted() -> (
    None
):
    stale = next(rule for rule in RULES if rule["alert"] == "BenchrunWatchStale")
    threshold = float(stale["expr"].rpartition("> ")[2])
    scraped_and_evaluated = 30 + 30
    assert "for" not in stale
    assert (
        INACTIVITY_TIMEOUT_SECONDS
        < threshold
        < MAX_SILENCE_SECONDS - scraped_and_evaluated
    )


def test_chart_asks_of_its_own_release_alone() -> None:
    made = only(
        render(EVERYTHING | {"nameOverride": "", "metrics": MONITORED}),
        "PrometheusRule",
    )
    assert [rule["alert"] for rule in rules(made["spec"])] == NAMES
    for rule, ours in zip(rules(made["spec"]), RULES, strict=True):
        own = ",".join(
            f'{label}="{value}"' for label, value in target_labels().items()
        )
        # Series of a run's namespace keep it.
        of_runs = f'job="{target_labels()["job"]}"'
        expected = ours["expr"]
        jobs = {
            part: f'cronjob="bench-benchrun-{part}",namespace="{NAMESPACE}"'
            for part in ("release", "archive")
        }
        for part, job in jobs.items():
            expected = expected.replace(f'cronjob="benchrun-{part}"', job)
        expected = re.sub(r'\bjob="benchrun"', own, expected)
        assert rule == ours | {"expr": expected.replace('job=~"benchrun"', of_runs)}
        for name, matchers in SELECTOR.findall(rule["expr"]):
            is_of_runs = name in OF_RUNS and of_runs in matchers
            assert is_of_runs or any(
                each in matchers for each in (own, *jobs.values())
            )


def test_chart_puts_labels_on_the_rule_and_makes_none_unless_asked() -> None:
    assert (
        only(render(EVERYTHING), "PrometheusRule")["metadata"]["labels"]["release"]
        == "prometheus"
    )
    assert "PrometheusRule" not in {entry["kind"] for entry in render()}
