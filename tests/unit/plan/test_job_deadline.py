"""The Job's own end, for when no operator is there: later than any deadline of the run, and there even without those."""

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import client_job
from unit.plan.objects import objects, of_kind
from unit.plan.specs import OWNER, Json, endpoint_body, spec_body

DAY = 86_400
WEEK = 7 * DAY
LIMITED = {"pendingDeadlineSeconds": 600, "startupDeadlineSeconds": 1800, "runDeadlineSeconds": 3600}
URL = {"url": "http://llm.example"}


@pytest.mark.parametrize(
    ("expected", "body"),
    [
        pytest.param(600 + 1800 + 3600, spec_body(**LIMITED), id="all three deadlines"),
        pytest.param(
            WEEK + 1800 + 3600, spec_body(**LIMITED | {"pendingDeadlineSeconds": 0}), id="no limit to waiting"
        ),
        pytest.param(600 + DAY + 3600, spec_body(**LIMITED | {"startupDeadlineSeconds": 0}), id="no limit to starting"),
        pytest.param(600 + 1800 + DAY, spec_body(**LIMITED | {"runDeadlineSeconds": 0}), id="no limit to measuring"),
        pytest.param(1800 + 3600, endpoint_body(URL, **LIMITED), id="an endpoint waits for no GPU"),
        pytest.param(
            1800 + DAY, endpoint_body(URL, **LIMITED | {"runDeadlineSeconds": 0}), id="endpoint without limit"
        ),
    ],
)
def test_active_deadline(expected: int, body: Json) -> None:
    job = of_kind(objects(OWNER, BenchmarkRunSpec.model_validate(body)), "Job")
    assert job["spec"]["activeDeadlineSeconds"] == expected + DAY


def test_the_bound_stands_for_limits_that_are_left_out() -> None:
    body = spec_body(pendingDeadlineSeconds=1, startupDeadlineSeconds=0, runDeadlineSeconds=0)
    spec = BenchmarkRunSpec.model_validate(body)
    job = client_job(OWNER, spec, plan_digest="p" * 64, default_image="c", pull_policy="Always", max_hold_seconds=100)
    assert job["spec"]["activeDeadlineSeconds"] == 1 + 100 + 100 + DAY


def test_a_client_is_never_tried_twice() -> None:
    job = of_kind(objects(OWNER, BenchmarkRunSpec.model_validate(spec_body())), "Job")
    pod = job["spec"]["template"]["spec"]
    assert (job["spec"]["backoffLimit"], job["spec"]["completions"], pod["restartPolicy"]) == (0, 1, "Never")
