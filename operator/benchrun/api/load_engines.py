"""`client.engine`: who generates the load, and what the one in Rust can't be asked for.

It tells when a request was sent, not when it was due; it knows one address; and it reads neither traces nor searches of ours.
"""

from __future__ import annotations

from typing import Any, Literal

from benchrun.api.rules import Rule

LoadEngine = Literal["VLLM", "VLLMRust"]

_OTHER = "self.client.engine != 'VLLMRust'"


def _is_rust(spec: Any) -> bool:
    return bool(spec.client.engine == "VLLMRust")


def _no_load(spec: Any, field: str) -> bool:
    return not _is_rust(spec) or all(getattr(workload.load, field) is None for workload in spec.workloads)


RULES = (
    Rule(
        cel=f"{_OTHER} || !has(self.offline)",
        holds=lambda spec: not _is_rust(spec) or spec.offline is None,
        message="client.engine VLLMRust sends requests to an API server; with offline there is none: take VLLM",
        path=".client.engine",
    ),
    Rule(
        cel=f"{_OTHER} || self.workloads.all(w, !has(w.load.search))",
        holds=lambda spec: _no_load(spec, "search"),
        message="client.engine VLLMRust does not do load.search: take VLLM, or list the loads",
        path=".client.engine",
    ),
    Rule(
        cel=f"{_OTHER} || self.workloads.all(w, !has(w.load.traceSpeeds))",
        holds=lambda spec: _no_load(spec, "trace_speeds"),
        message="client.engine VLLMRust can't send our prompts at recorded instants (load.traceSpeeds): take VLLM",
        path=".client.engine",
    ),
    Rule(
        cel=f"{_OTHER} || self.workloads.all(w, !has(w.load.maxConcurrency))",
        holds=lambda spec: _no_load(spec, "max_concurrency"),
        message="client.engine VLLMRust does not tell how long load.maxConcurrency held a request back, which no latency may "
        "leave out: take VLLM, or leave the cap out",
        path=".client.engine",
    ),
    Rule(
        cel=f"{_OTHER} || !has(self.server) || self.server.replicas == 1",
        holds=lambda spec: not _is_rust(spec) or spec.server is None or spec.server.replicas == 1,
        message="client.engine VLLMRust knows one server and would send all requests to the first of server.replicas: take VLLM",
        path=".client.engine",
    ),
)
"""What the Rust client can't do, said before anything is created."""
