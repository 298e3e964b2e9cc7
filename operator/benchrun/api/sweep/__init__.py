"""`BenchmarkSweep`: one run template, measured in many variants."""

from benchrun.api.sweep.spec import *
from benchrun.api.sweep.status import *
