"""Benchmarks of the judge: real client and rules against simulated servers that log their truth.

`processes` starts servers and clients, `lab` measures an experiment as the operator would and
judges it, `mistakes`, `doses` and `clean` say what to measure, `timing` reads the truth out of the
log, `paired` takes turns with vLLM's own client, `pairs` compares fresh servers.
"""
