"""The `--sim-*` flags: how the simulator behaves, and what misbehaves."""

import argparse
from pathlib import Path

from benchrun_simulator.cold import Cold
from benchrun_simulator.compilation import Compilations
from benchrun_simulator.dialects import DIALECTS
from benchrun_simulator.drift import Changes
from benchrun_simulator.pace import Disturbances, Timing
from benchrun_simulator.refusals import FAILING_STARTS
from benchrun_simulator.settings import METRICS_MODES, Faults, Foreign


def add_sim_flags(parser: argparse.ArgumentParser) -> None:
    """Add all `--sim-*` flags; without any, the simulator is exact and obedient."""
    _add_start_flags(parser)
    _add_timing_flags(parser)
    _add_pace_flags(parser)
    _add_answer_flags(parser)
    _add_metrics_flags(parser)
    _add_neighbour_flags(parser)


def _add_start_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sim-load-seconds", type=float, default=0.0)
    add("--sim-fail-start", choices=sorted(FAILING_STARTS))
    add("--sim-health-delay-seconds", type=float, default=0.0)
    add("--sim-log-noise-mb", type=float, default=0.0)
    add("--sim-engine", choices=DIALECTS, default="VLLM")
    add("--sim-version", default="0.32.0")
    add("--sim-log-requests", type=Path)


def _add_timing_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sim-ttft-ms", type=float, default=50.0)
    add("--sim-prefill-us-per-token", type=float, default=0.0)
    add("--sim-tpot-ms", type=float, default=10.0)
    add("--sim-tpot-us-per-running", type=float, default=0.0)
    add("--sim-jitter-ms", type=float, default=0.0)
    add("--sim-prefill-serial", action="store_true")


def _add_pace_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sim-drift-percent", type=float, default=0.0)
    add("--sim-slowdown-percent-per-second", type=float, default=0.0)
    add("--sim-slowdown-from-request", type=int, default=1)
    add("--sim-alternate-requests", type=int, default=0)
    add("--sim-alternate-percent", type=float, default=0.0)
    add("--sim-cold-requests", type=int, default=0)
    add("--sim-cold-ms", type=float, default=0.0)
    add("--sim-cold-after-requests", type=int, default=0)
    add("--sim-cold-idle-seconds", type=float)
    add("--sim-jit-at-request", type=int)
    add("--sim-jit-each-length", action="store_true")
    add("--sim-jit-ms", type=float, default=500.0)
    add("--sim-preempt-at-request", type=int)
    add("--sim-way-ms", type=float, default=0.0)
    add("--sim-frontend-ms", type=float, default=0.0)


def _add_answer_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sim-error-percent", type=float, default=0.0)
    add("--sim-canary-fails", type=int, nargs="?", const=1, default=0)
    add("--sim-reject-percent", type=float, default=0.0)
    add("--sim-truncate-after-tokens", type=int)
    add("--sim-reset-after-tokens", type=int)
    add("--sim-drop-end-percent", type=float, default=0.0)
    add("--sim-early-stop-after-tokens", type=int)
    add("--sim-ignore-ignore-eos", action="store_true")
    add("--sim-output-percent", type=float, default=100.0)
    add("--sim-usage-percent", type=float, default=100.0)
    add("--sim-root")
    add("--sim-template-tokens", type=int, default=0)
    add("--sim-reasoning-tokens", type=int, default=0)
    add("--sim-thinks-anyway", action="store_true")
    add("--sim-ignores-schema", action="store_true")
    add("--sim-die-after-requests", type=int)


def _add_metrics_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sim-metrics", choices=METRICS_MODES, default="normal")
    add("--sim-slow-metrics-ms", type=float, default=0.0)
    add("--sim-metrics-fail-percent", type=float, default=0.0)
    add("--sim-gauges-percent", type=float, default=100.0)
    add("--sim-counters-fall-at-request", type=int)
    add("--sim-restart-look-at-request", type=int)
    add("--sim-reset-fails", type=int, nargs="?", const=1, default=0)
    add("--sim-reset-lies", action="store_true")
    add("--sim-kv-transfer-fails", action="store_true")


def _add_neighbour_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sim-foreign-rate", type=float, default=0.0)
    add("--sim-foreign-prompt-tokens", type=int, default=64)
    add("--sim-foreign-output-tokens", type=int, default=16)
    add("--sim-foreign-hits-percent", type=float, default=0.0)


def timing(found: argparse.Namespace) -> Timing:
    """Return how long the engine takes when nothing disturbs it."""
    return Timing(
        first_token_seconds=found.sim_ttft_ms / 1e3,
        prefill_seconds_per_token=found.sim_prefill_us_per_token / 1e6,
        per_token_seconds=found.sim_tpot_ms / 1e3,
        per_running_seconds=found.sim_tpot_us_per_running / 1e6,
    )


def disturbances(found: argparse.Namespace) -> Disturbances:
    """Return what makes the engine slower."""
    return Disturbances(
        changes=Changes(
            percent_per_1000_requests=found.sim_drift_percent,
            percent_per_second=found.sim_slowdown_percent_per_second,
            from_request=found.sim_slowdown_from_request,
            alternate_requests=found.sim_alternate_requests,
            alternate_percent=found.sim_alternate_percent,
        ),
        cold=Cold(
            requests=found.sim_cold_requests,
            seconds=found.sim_cold_ms / 1e3,
            after_requests=found.sim_cold_after_requests,
            idle_seconds=found.sim_cold_idle_seconds,
        ),
        compilations=Compilations(
            at_request=found.sim_jit_at_request,
            for_each_length=found.sim_jit_each_length,
            seconds=found.sim_jit_ms / 1e3,
        ),
    )


def foreign(found: argparse.Namespace) -> Foreign:
    """Return the traffic of other clients on the server."""
    return Foreign(
        requests_per_second=found.sim_foreign_rate,
        prompt_tokens=found.sim_foreign_prompt_tokens,
        output_tokens=found.sim_foreign_output_tokens,
        hits_percent=found.sim_foreign_hits_percent,
    )


def faults(found: argparse.Namespace) -> Faults:
    """Return the misbehaviour that the flags ask for."""
    return Faults(
        fail_start=found.sim_fail_start,
        error_percent=found.sim_error_percent,
        reject_percent=found.sim_reject_percent,
        canary_fails=found.sim_canary_fails,
        truncate_after_tokens=found.sim_truncate_after_tokens,
        reset_after_tokens=found.sim_reset_after_tokens,
        drop_end_percent=found.sim_drop_end_percent,
        early_stop_after_tokens=found.sim_early_stop_after_tokens,
        ignore_ignore_eos=found.sim_ignore_ignore_eos,
        output_percent=found.sim_output_percent,
        usage_percent=found.sim_usage_percent,
        die_after_requests=found.sim_die_after_requests,
        metrics=found.sim_metrics,
        slow_metrics_seconds=found.sim_slow_metrics_ms / 1e3,
        metrics_fail_percent=found.sim_metrics_fail_percent,
        gauges_percent=found.sim_gauges_percent,
        counters_fall_at_request=found.sim_counters_fall_at_request,
        restart_look_at_request=found.sim_restart_look_at_request,
        reset_fails=found.sim_reset_fails,
        reset_lies=found.sim_reset_lies,
        health_delay_seconds=found.sim_health_delay_seconds,
        log_noise_megabytes=found.sim_log_noise_mb,
    )
