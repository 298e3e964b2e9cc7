"""Chance against the operator, for `benchmarks/chaos.py`: to break things and see the result.

A round has tenants, one namespace each, with runs and a sweep. Faults are drawn from seed and
round, and strike when their target is at some step. When the last of them has passed, everything
must have ended as those faults allow.

    operator processes --> a proxy each, that answers wrongly, late or not at all --> API server
        |                                                                               ^
        |                          controller manager: real Jobs, ReplicaSets, pods ---+
        +--> 127.x.y.z:8000 and :8090  servers and clients, played by own kubelets -----+
"""
