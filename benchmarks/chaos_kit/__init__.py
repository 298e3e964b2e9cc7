"""Chance against the operator: what `benchmarks/chaos.py` needs to break things and to see what
came of it.

A round has tenants, one namespace each, with runs and a sweep. Faults are drawn from seed and round,
and strike when what they are aimed at is at some step. When the last of them has passed, everything
must have ended as those faults allow.

operator processes --> a proxy each, that answers wrongly, late or not at all --> API server
    |                                                                               ^
    |                        controller manager: Jobs, ReplicaSets, pods, for real -+
    +--> 127.x.y.z:8000 and :8090  servers and clients, played by kubelets of ours -+
"""
