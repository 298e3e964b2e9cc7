"""A finished run as exports see it, and the formats of `benchrun export`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Literal, get_args

from benchrun_client.contract import StageRecord
from benchrun_client.engines import Engine, EngineSetting

from benchrun import api, measure
from benchrun.judge.stage_facts import ExpectedStage, StageFacts, expected_stage
from benchrun.names import ROLE_DECODE
from benchrun.plan import load_points, probed_load_points
from benchrun.report.export.encoders import Files
from benchrun.report.html import Reported
from benchrun.sizing import ServeArgs

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATENCIES = tuple(f"_{latency}_ms" for latency in measure.LATENCIES)


@dataclass(frozen=True, slots=True)
class ExportedStage:
    record: StageRecord
    workload: api.Workload
    expected: ExpectedStage
    load_point: str  # Load point, for example `chat/rate=4`.
    repeat: int
    verdict: api.Verdict
    """Verdict of its load point in the run's status; Unknown if there is no row."""
    findings: tuple[str, ...]  # Codes found at its load point.
    # From the servers' metrics endpoints, by role, including the proxy.
    servers: tuple[api.RoleFigures, ...]
    replicas: tuple[measure.Replica, ...]  # Each server of these roles.
    # GPU figures of all roles together; unknown if a role has no samples.
    gpus: measure.GpuFigures
    # Throughput within the steady state; empty where the stage has none.
    steady: Mapping[str, float | None]
    began: datetime  # When the first request was sent.
    ended: datetime  # When the last answer was received.

    @property
    def id(self) -> str:
        """Return the name of the stage: `chat/rate=4/r2`, in a search `chat/search-07/r1`."""
        return self.record.stage_id

    @property
    def judgement(self) -> str:
        """Return the verdict with the findings: `Suspect (Drift, ColdStart)`."""
        return (
            f"{self.verdict} ({', '.join(self.findings)})"
            if self.findings
            else self.verdict
        )

    @property
    def request_rate(self) -> float | None:
        """Return the requests a second that the load engine was to send; None: all at once."""
        return self.record.scalars.get("request_rate")

    @property
    def max_concurrency(self) -> int | None:
        """Return the most requests that may be in flight; None: no limit."""
        limit = self.record.scalars.get("max_concurrency")
        return None if limit is None else int(limit)


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run with the stages that are to be exported, in the order of measurement."""

    namespace: str
    name: str
    uid: str
    spec: api.BenchmarkRunSpec
    status: api.BenchmarkRunStatus
    stages: tuple[ExportedStage, ...]
    labels: tuple[tuple[str, str], ...] = ()  # Labels of the run, set by the user.

    @property
    def server(self) -> api.ServerStatus | None:
        """Return what is known of the servers, which are equal within a role; None: nothing.

        Where there are several roles, it is the role that writes answers.
        """
        return api.answering(self.status.servers)

    def load_points(self) -> Sequence[tuple[str, Sequence[ExportedStage]]]:
        """Return the stages by load point.

        Load points are in the order of their first stages, the stages of each in the order of
        repeats.
        """
        names = dict.fromkeys(stage.load_point for stage in self.stages)
        by_repeat = sorted(self.stages, key=lambda stage: stage.repeat)
        return [
            (name, [stage for stage in by_repeat if stage.load_point == name])
            for name in names
        ]


def exported(run: Reported) -> ExportedRun:
    """Build the exported run with every record that is kept.

    Records of a stage that the spec does not have are skipped.
    """
    of = run.declared
    spec = run.spec
    records = run.records
    workloads = {workload.name: workload for workload in spec.workloads}
    places = {
        stage: load_point
        for load_point in (*load_points(spec), *probed_load_points(spec, records))
        for stage in load_point.stage_ids
    }
    rows = {row.load_point: row for row in run.status.results}
    stages = []
    for record in records:
        if (load_point := places.get(record.stage_id)) is None:
            continue
        row = rows.get(load_point.id)
        expected = expected_stage(spec, load_point)
        where = StageFacts(record, expected).plateau
        sampled = measure.stage_windows(
            record,
            run.samples,
            scrape_interval=spec.measurement.scrape_interval_seconds,
        )
        stage = ExportedStage(
            record=record,
            workload=workloads[load_point.workload],
            expected=expected,
            load_point=load_point.id,
            repeat=load_point.stage_ids.index(record.stage_id) + 1,
            verdict=row.verdict if row is not None else "Unknown",
            findings=tuple(row.findings) if row is not None else (),
            servers=(*measure.role_figures(sampled), *measure.proxy_role([record])),
            replicas=measure.replicas(record, run.samples),
            gpus=measure.gpu_figures(sampled),
            steady=measure.plateau_totals([(record, where)])
            if isinstance(where, measure.Plateau)
            else {},
            began=_EPOCH + timedelta(microseconds=record.first_send_unix_us),
            ended=_EPOCH + timedelta(microseconds=record.last_receive_unix_us),
        )
        stages.append(stage)
    return ExportedRun(
        of.namespace,
        of.name,
        of.uid,
        spec,
        run.status,
        tuple(stages),
        labels=of.labels,
    )


def server_version(
    stage: ExportedStage, server: api.ServerStatus | None, role: str | None = None
) -> str | None:
    """Return the engine's version as the servers of this stage (of `role`, if given) reported it.

    Where none did, return the version in the status of `server`, or None.
    """
    edges = (edge for edge in stage.record.servers if role in (None, edge.role))
    reported = next((edge.version for edge in edges if edge.version), None)
    return reported or (server.version if server is not None else None)


def only(run: ExportedRun, stage_ids: Collection[str]) -> ExportedRun:
    return replace(
        run, stages=tuple(stage for stage in run.stages if stage.id in stage_ids)
    )


def trusted(run: ExportedRun) -> tuple[ExportedRun, Mapping[str, str]]:
    """Return the run without untrustworthy stages, and why each of their load points is missing."""
    left_out = {
        stage.load_point: "not judged"
        if stage.verdict == "Unknown"
        else stage.judgement
        for stage in run.stages
        if stage.verdict not in api.TRUSTED
    }
    return replace(
        run,
        stages=tuple(stage for stage in run.stages if stage.verdict in api.TRUSTED),
    ), left_out


def pools(stage: ExportedStage) -> measure.Pools:
    """Return the measured latencies in microseconds.

    ITL is left out where chunks hold several tokens: gaps between chunks are not gaps between
    tokens.
    """
    hidden = "itl" if api.Code.CHUNKS_ARE_NOT_TOKENS in stage.findings else None
    measured = measure.pools_of([stage.record])
    return {
        latency: pool
        for latency, pool in measured.items()
        if pool.count and latency != hidden
    }


def samples(stage: ExportedStage, *, queued: bool = False) -> measure.Samples:
    """Return the latencies of `pools` as samples.

    With `queued`, also those that include the wait in the client's queue.
    """
    of = stage.expected
    shown = pools(stage)
    parts = (
        None if of.load.never_steady else [StageFacts(stage.record, of).steady_part]
    )
    found = measure.latency_samples(
        [stage.record],
        users=of.load.users,
        at_once=of.load.all_at_once,
        queued=queued,
        failed=False,
        parts=parts,
    )
    return {
        name: sample
        for name, sample in found.items()
        if name in shown or name not in measure.LATENCIES
    }


def engine_figures(stage: ExportedStage) -> Mapping[str, float | int | None]:
    """Return the load engine's own figures under its names.

    The engine's 0 for a latency that was not measured is None here.
    """
    measured = tuple(f"_{latency}_ms" for latency in pools(stage))
    return {
        name: None
        if name.endswith(_LATENCIES) and not name.endswith(measured)
        else value
        for name, value in stage.record.scalars.items()
    }


_SIZES = {
    "tp": EngineSetting.TENSOR_PARALLEL,
    "pp": EngineSetting.PIPELINE_PARALLEL,
    "dp": EngineSetting.DATA_PARALLEL,
}
# Values by flag, with dashes; None for a switch. Where a flag is repeated, the last one holds.
Flags = Mapping[str, str | None]


def flags_of(run: ExportedRun, role: str | None = None) -> Flags:
    """Return the flags of a role's servers; None: of the servers that write answers.

    There are none at an endpoint, whose arguments are unknown.
    """
    server = api.answering(
        each for each in run.status.servers if role in (None, each.role)
    )
    if server is not None and server.args:
        return parsed(server.args, run.spec.engine)
    # A server without roles has one set of arguments.
    return (
        parsed(run.spec.started.args_of(role or ROLE_DECODE), run.spec.engine)
        if run.spec.started is not None
        else {}
    )


def parsed(args: Sequence[str], engine: Engine) -> Flags:
    """Parse arguments as `ServeArgs` does, with the dashes in front of the names."""
    return {
        f"--{name}": value
        for name, value in ServeArgs.of(args, engine).given.items()
    }


def parallelism_of(flags: Flags, engine: Engine) -> dict[str, int]:
    """Return over how many GPUs the model is spread, by `tp`, `pp`, `dp` and `ep`.

    A value that is not a number counts as not given: the engines' default is 1. Without a flag that
    spreads experts whole, `ep` is left out.
    """
    names = {setting: f"--{flag}" for setting, flag in engine.setting_flags.items()}
    given = {
        short: flags.get(names.get(size, "")) or ""
        for short, size in _SIZES.items()
    }
    sizes = {
        name: max(1, int(value)) if value.isdecimal() else 1
        for name, value in given.items()
    }
    if (experts := names.get(EngineSetting.EXPERT_PARALLEL)) is None:
        return sizes
    return {**sizes, "ep": sizes["tp"] * sizes["dp"] if experts in flags else 1}


TableName = Literal["stages", "servers", "replicas", "requests"]
TABLES: tuple[TableName, ...] = get_args(TableName)


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `files` and `document` raise NotExportable."""

    summary: str
    files: Callable[[ExportedRun], Files]  # Returns the contents for a folder.
    document: Callable[[ExportedRun, TableName], bytes]
    """Returns the contents of a file, or for standard output; the table is used by formats that are
    tables."""
    is_text: bool = True


FORMATS: dict[str, Format] = {}
"""Formats by the name that `--format` takes; the module that writes a format adds it when it is
imported."""
for _module in iter_modules([__file__.rpartition("/")[0]]):
    import_module(f"{__package__}.{_module.name}")
