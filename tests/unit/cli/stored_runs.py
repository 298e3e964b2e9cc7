"""Runs in the form of `kubectl get`."""

from pathlib import Path
from typing import Any

import yaml
from unit.judge.comparison.sides import repeated, row, run
from unit.plan.specs import Json, spec_body


def body(
    name: str,
    *,
    load_points: tuple[str, ...] = ("chat/rate=4",),
    cv: float = 1.0,
    **figures: Any,
) -> Json:
    """Build a run with five repeats of each load point."""
    status = run(
        name,
        [
            row(load_point, repeats=5, cv=cv, **figures)
            for load_point in load_points
        ],
    ).status
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": f"uid-{name}",
            "generation": 1,
        },
        "spec": spec_body(),
        "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def unmeasured_noise(name: str) -> Json:
    """Build a run of one repeat."""
    status = repeated(name, repeats=1).status.model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return {**body(name), "status": status}


def written(path: Path, *bodies: Json) -> str:
    """Write these objects to a file, as a List if there are several, and return its path."""
    whole = (
        bodies[0]
        if len(bodies) == 1
        else {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
    )
    path.write_text(yaml.safe_dump(whole), encoding="utf-8")
    return str(path)
