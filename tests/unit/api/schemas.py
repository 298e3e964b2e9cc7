"""The schemas of the specs, built once for all tests that only read them."""

from benchrun.api.crd import RUN, SWEEP

RUN_SPEC = RUN.spec_schema()
SWEEP_SPEC = SWEEP.spec_schema()
