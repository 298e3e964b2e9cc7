"""The manifest of a run of a sweep."""

from __future__ import annotations

from benchrun.api import names
from benchrun.api.base import API_VERSION, KIND
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.plan.metadata import Manifest, Owner
from benchrun.plan.sweep.order import PlannedRun
from benchrun.plan.sweep.variants import spec_body


def run_manifest(sweep: Owner, run: PlannedRun) -> Manifest:
    """A BenchmarkRun that the sweep controls: it goes with its sweep. The label is for people, the reference is what counts."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": run.name,
            "namespace": sweep.namespace,
            "labels": {names.LABEL_SWEEP: sweep.name},
            "annotations": {names.ANNOTATION_VARIANT: run.variant.name},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": SWEEP_KIND,
                    "name": sweep.name,
                    "uid": sweep.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec_body(run.variant.spec),
    }
