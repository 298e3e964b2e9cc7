"""Benchmarks of the judge: real client and real rules against simulated servers whose truth is
logged.

`processes` starts servers and clients, `lab` measures an experiment as the operator would and
judges it, `mistakes` and `clean` say what to measure, `timing` holds the figures against the truth,
`pairs` compares fresh servers."""
