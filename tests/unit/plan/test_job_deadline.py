"""The Job's own end, for when no operator is there: later than any deadline of the run, and none where the run has none."""

from __future__ import annotations

import pytest
from benchrun.api.spec import BenchmarkRunSpec
from unit.plan.objects import objects, of_kind
from unit.plan.specs import OWNER, Json, endpoint_body, spec_body

DAY = 86_400
LIMITED = {"pendingDeadlineSeconds": 600, "startupDeadlineSeconds": 1800, "runDeadlineSeconds": 3600}
URL = {"url": "http://llm.example"}


@pytest.mark.parametrize(
    ("expected", "body"),
    [
        pytest.param(600 + 1800 + 3600 + DAY, spec_body(**LIMITED), id="all three deadlines"),
        pytest.param(None, spec_body(**LIMITED | {"pendingDeadlineSeconds": 0}), id="waiting for a GPU without limit"),
        pytest.param(None, spec_body(**LIMITED | {"runDeadlineSeconds": 0}), id="measuring without limit"),
        pytest.param(1800 + 3600 + DAY, endpoint_body(URL, **LIMITED), id="an endpoint waits for no GPU"),
        pytest.param(None, endpoint_body(URL, **LIMITED | {"runDeadlineSeconds": 0}), id="an endpoint without limit"),
        pytest.param(
            None, endpoint_body(URL, **LIMITED | {"startupDeadlineSeconds": 0}), id="an endpoint that may be late"
        ),
    ],
)
def test_active_deadline(expected: int | None, body: Json) -> None:
    job = of_kind(objects(OWNER, BenchmarkRunSpec.model_validate(body)), "Job")
    assert job["spec"].get("activeDeadlineSeconds") == expected


def test_a_client_is_never_tried_twice() -> None:
    job = of_kind(objects(OWNER, BenchmarkRunSpec.model_validate(spec_body())), "Job")
    pod = job["spec"]["template"]["spec"]
    assert (job["spec"]["backoffLimit"], job["spec"]["completions"], pod["restartPolicy"]) == (0, 1, "Never")
