"""Benchmarks of the judge: real client and real rules against simulated servers whose truth is
logged.

`processes` starts servers and clients, `lab` measures an experiment as the operator would and
judges it, `mistakes`, `doses` and `clean` say what to measure, `timing` reads the truth out of the
log, `paired` takes turns with vLLM's own client, `pairs` compares fresh servers."""
