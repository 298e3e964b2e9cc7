"""A cluster full of runs without a single container: what `benchmarks/runs.py` needs to measure the
operator alone.

operator process --> counting proxy --> API server <-- benchmark (writes pod statuses, watches
children)
    |                                       ^
    |                                       +-- controller manager: Jobs, ReplicaSets, pods, for real
    +--> 127.x.y.z:8000  metrics page of run n's server      } all played by the benchmark's own process,
    +--> 127.x.y.z:8090  record server of run n's client     } told apart by the loopback address
"""
