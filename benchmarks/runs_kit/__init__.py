"""A cluster full of runs without a single container, for `benchmarks/runs.py`.

The operator alone is measured:

    operator process --> counting proxy --> API server <-- benchmark
        |                                       ^          (writes pod statuses, watches children)
        |                                       +-- controller manager: real Jobs, ReplicaSets, pods
        +--> 127.x.y.z:8000  metrics page of run n's server  } all played by the benchmark's own
        +--> 127.x.y.z:8090  record server of run n's client } process, one loopback address per run
"""
