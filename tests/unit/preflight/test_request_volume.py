"""How large a run is."""

import pytest
from benchrun.preflight.request_volume import volume_of
from unit.preflight.checks import checked, messages, spec

DEADLINE = "spec.runDeadlineSeconds"


def test_stages_requests_time_and_gpus_are_counted() -> None:
    found = volume_of(
        spec(
            {
                "workloads.0.load": {"requestRates": ["1", "4", "inf"]},
                "workloads.0.requests": 400,
                "repeats": 3,
                "server.resources": {"limits": {"nvidia.com/gpu": 2}},
            }
        )
    )
    assert (found.stages, found.requests, found.open_stages, found.gpus) == (9, 3600, 6, 2)
    assert (found.least_seconds, found.gpu_seconds, found.warmup_seconds) == (3 * (400 + 100), 2 * 1500, 60)


def test_a_closed_loop_has_no_known_duration() -> None:
    found = volume_of(spec({"workloads.0.load": {"concurrencies": [4]}, "measurement": {"warmup": {"none": {}}}}))
    assert (found.open_stages, found.least_seconds, found.gpu_seconds, found.warmup_seconds) == (0, 0, None, 0)


def test_a_search_counts_its_maximum_of_requests() -> None:
    search = {"axis": "Concurrency", "from": "1", "to": "64", "maxProbes": 6, "maxRepeats": 2}
    objectives = [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 500}]
    found = volume_of(spec({"workloads.0.load": {"search": search}, "objectives": objectives}))
    assert (found.stages, found.probe_stages, found.requests) == (18, 18, 1800)


@pytest.mark.parametrize(
    ("deadline", "level"), [(124, "Error"), (125, "Warning"), (184, "Warning"), (185, None), (0, None)]
)
def test_a_deadline_before_the_end_is_reported(deadline: int, level: str | None) -> None:
    # 100 requests at 1/s and at 4/s; warm-up up to 60 s.
    found = checked({"runDeadlineSeconds": deadline})
    assert (DEADLINE in messages(found, "Error")) is (level == "Error")
    assert (DEADLINE in messages(found, "Warning")) is (level == "Warning")
