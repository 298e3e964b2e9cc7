"""The KV cache against the load that is asked for."""

from typing import Any

import pytest
from benchrun.preflight.manifest_checks import Known
from benchrun.sizing import model_shape
from unit.preflight.checks import checked, messages
from unit.sizing.configs import LLAMA_8B

GIB = 2**30
LOAD = "spec.workloads[0].load"
ARGS = "spec.server.args"
SHAPE = model_shape(LLAMA_8B)
"""128 KiB a token, 2 MiB a block."""
ROOM = Known(shape=SHAPE, gpu_bytes=20 * GIB, weights_bytes=15 * GIB, overhead_bytes=GIB)
"""4 GiB at a utilisation of 1: 2048 blocks, of which 2047 can be used."""
SEARCHABLE: dict[str, Any] = {"objectives": [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 500}]}
ALL = "--gpu-memory-utilization=1"


def load(**members: Any) -> dict[str, Any]:
    """1024 + 128 tokens a request: 72 blocks, so 28 fit."""
    return {"workloads.0.load": members, "server.args": [ALL, "--max-model-len=8192"]}


@pytest.mark.parametrize(
    ("changes", "too_many"),
    [
        (load(concurrencies=[8, 28]), None),
        (load(concurrencies=[8, 29, 64]), "29, 64"),
        (load(requestRates=["1"], maxConcurrency=64), "64"),
        (load(requestRates=["1", "inf"]), "100"),
        (load(requestRates=["1"]), None),
        (load(search={"axis": "Concurrency", "from": "1", "to": "512"}) | SEARCHABLE, "512"),
        (load(search={"axis": "RequestRate", "from": "1", "to": "512"}) | SEARCHABLE, None),
    ],
)
def test_more_at_once_than_fit_is_a_warning(changes: dict[str, Any], too_many: str | None) -> None:
    warnings = messages(checked(changes, known=ROOM), "Warning")
    if too_many is None:
        assert LOAD not in warnings
    else:
        assert warnings[LOAD].startswith(
            f"{too_many} requests at once of up to 1,152 tokens, but 28 of that length fit"
        )


def test_requests_that_only_the_data_tells_the_length_of_are_left_out() -> None:
    changes = load(concurrencies=[5000]) | {"workloads.0.dataset": {"agent": {"staticPrefix": {}}}}
    assert LOAD not in messages(checked(changes, known=ROOM), "Warning")


def test_engines_side_by_side_hold_more() -> None:
    changes = load(concurrencies=[56])
    changes["server.args"] = [*changes["server.args"], "--data-parallel-size=2"]
    assert LOAD not in messages(checked(changes, known=ROOM), "Warning")


def test_a_size_among_the_arguments_needs_no_gpu_memory() -> None:
    changes = {"server.args": ["--kv-cache-memory-bytes=1GiB", "--max-model-len=4096"]}
    assert "8,192 tokens" in messages(checked(changes, known=Known(shape=SHAPE)), "Note")[ARGS]
