"""`python -m benchrun_simulator serve MODEL ...`, as one would call vLLM's own command."""

from benchrun_simulator.main import main

main()
