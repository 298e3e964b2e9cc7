"""`BenchmarkSweep`: one run template, measured in many variants."""
