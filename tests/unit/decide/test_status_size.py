"""The status stays under 100 kB, whatever the spec asks for and whatever the world answers."""

from collections.abc import Iterable

import pytest
from benchrun.api import KEYS, BenchmarkRunStatus, Code, ComparedMetric
from benchrun.judge.rules import all_rules
from benchrun.judge.rules.rule import NotChecked, StageFacts, StageFinding
from benchrun.measure import ServerFacts
from benchrun.observe import Run, Termination
from benchrun_client.contract import DatasetFacts
from unit.decide.scenes import Scene
from unit.judge.found import findings_of
from unit.plan.specs import concurrencies, workload

LIMIT_BYTES = 100_000
PERCENTILES = ["50", "75", "90", "95", "99", "99.9", "99.99", "99.999"]
OBJECTIVES = [
    {"metric": metric, "percentile": p, "maxMilliseconds": 1}
    for metric in ("TTFT", "TPOT", "ITL", "E2EL")
    for p in PERCENTILES[:4]
]
FACTS = ServerFacts(
    version="v" * 100,
    reported={f"{i:03d}" + "k" * 60: "v" * 253 for i in range(40)},
)
LONGEST_NAMES = [
    workload(letter * 40, load=concurrencies(*range(99_968, 100_000)))
    for letter in "ab"
]
LARGEST = (
    Scene()
    .with_spec(
        server={
            "image": "i" * 1024,
            "args": ["--x=" + "a" * 4092] * 128,
            "resources": {"limits": {"nvidia.com/gpu": 8}},
        },
        workloads=LONGEST_NAMES,
        objectives=OBJECTIVES,
        measurement={"percentiles": PERCENTILES},
    )
    .measuring()
    .pod(
        "server",
        args=(
            "m",
            "--served-model-name=m",
            "--port=8000",
            *["--x=" + "a" * 4092] * 128,
        ),
        image="i" * 1024,
        image_digest="d" * 1024,
    )
    .knowing(server_facts={"server-1": FACTS})
    .log_read("\N{COLLISION SYMBOL}" * 16_384)
)


def size(status: BenchmarkRunStatus) -> int:
    return len(status.model_dump_json(by_alias=True, exclude_none=True).encode())


def test_while_it_goes_on() -> None:
    assert size(LARGEST.ended().status) < LIMIT_BYTES


def test_measured_with_every_objective_missed() -> None:
    status = LARGEST.arrived(*range(64)).ended().status
    assert (status.phase, status.truncated != []) == ("Completed", True)
    assert size(status) < LIMIT_BYTES


def test_failed_with_a_long_message_and_a_long_log() -> None:
    files = tuple(_facts(part) for part in range(8))
    died = Termination(
        exit_code=1, reason="Error", message="\N{COLLISION SYMBOL}" * 4096
    )
    failed = (
        LARGEST.arrived(*range(63), datasets=files)
        .pod("server", restarts=1, last_terminated=died)
        .fails("ClientError", "é" * 2000)
    )
    status = failed.ended().status
    assert (status.phase, len(status.datasets)) == ("Failed", 16)
    assert size(status) < LIMIT_BYTES


def _facts(part: int) -> DatasetFacts:
    dropped = {f"{reason}{'R' * 29}": 10**9 for reason in range(8)}
    return DatasetFacts(
        part=part,
        source="/" * 300,
        sha256="a" * 64,
        rows_read=10**9,
        rows_used=10**9,
        rows_dropped=dropped,
    )


def test_truncated_server_args_are_reported() -> None:
    (server,) = LARGEST.ended().status.servers
    (note,) = [
        t for t in LARGEST.ended().status.truncated if t.field == "servers[].args"
    ]
    assert (note.total, note.included, len(server.args)) == (131, 3, 3)


# ---- every rule fires in every load point
# ----------------------------------------------------------------------------------

WHY = "w" * 90  # longer than any reason why a rule could not look


def test_every_rule_fires_in_every_load_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What each rule finds where it must, all of it at every stage; and that none could look, which
    another finding tells."""
    found = {
        code: findings_of(code)[code] for code in Code if code != Code.NOT_CHECKED
    }

    def every_rule(stage: StageFacts) -> Iterable[StageFinding | NotChecked]:
        for code, finding in found.items():
            yield StageFinding(code, finding.severity, stage.id, finding.evidence)
            yield NotChecked(code, WHY)

    monkeypatch.setattr(all_rules, "STAGE_RULES", (every_rule,))
    status = LARGEST.arrived(*range(64)).ended().status
    assert {Code(finding.code) for finding in status.findings} == set(Code)
    assert min(finding.count for finding in status.findings) >= 64
    assert len(status.results) == 64
    assert "results[].findings" in {cut.field for cut in status.truncated}
    assert size(status) < LIMIT_BYTES


# A comparison keeps to its share: the status stays under 100 kB with the largest one.

METRICS: list[ComparedMetric] = list(KEYS)
WITH_BASELINE: Scene = LARGEST.with_spec(
    baseline={"name": "b" * 40, "metrics": METRICS}
).measuring()


def test_measured_and_compared_at_64_load_points() -> None:
    scene = WITH_BASELINE.arrived(*range(64))
    before = scene.ended().status.model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    spec = {name: value for name, value in scene.spec.items() if name != "baseline"}
    status = scene.ended(
        Run("lab", "b" * 40, "uid-b", 1, spec=spec, status=before)
    ).status
    assert status.comparison is not None
    assert (
        # One of them is compared once, and not at every load point.
        f". {(len(METRICS) - 1) * len(status.results) + 1} figures: "
        in status.comparison.message
    )
    assert "comparison.loadPoints[].changes" in {
        note.field for note in status.truncated
    }
    assert size(status) < LIMIT_BYTES
