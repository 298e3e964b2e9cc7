"""`python -m benchrun_simulator serve MODEL ...`, called like vLLM's own command."""

from benchrun_simulator.main import main

main()
