"""A finished run in the form that exports use, and the list of formats of `benchrun export`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Literal, get_args

from benchrun_client.contract import WHOLE_ANSWERS, RequestColumns
from benchrun_client.engines import Engine, EngineSetting

from benchrun import api, measure
from benchrun.names import ROLE_DECODE
from benchrun.report.export.encoders import Files, NotExportable
from benchrun.report.html import Reported
from benchrun.sizing import ServeArgs

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATENCIES = tuple(f"_{latency}_ms" for latency in measure.LATENCIES)


@dataclass(frozen=True, slots=True)
class ExportedStage:
    """A stage of the result document, with what the run's spec and status say of its load point."""

    result: api.StageResult
    workload: api.Workload
    verdict: api.Verdict
    """Verdict of the stage's load point in the run's status; Unknown if there is no row for it."""
    findings: tuple[str, ...]  # Codes found at its load point.
    # Its single requests; None if its record is not at hand.
    requests: RequestColumns | None

    @property
    def id(self) -> str:
        """Return the stage's name: `chat/rate=4/r2` or, in a search, `chat/search-07/r1`."""
        return self.result.id

    @property
    def load_point(self) -> str:
        """Return the name of the stage's load point, such as `chat/rate=4`."""
        return self.result.load_point

    @property
    def repeat(self) -> int:
        """Return which repeat of its load point the stage is, counted from 1."""
        return self.result.repeat

    @property
    def has_whole_answers(self) -> bool:
        """Return whether answers came as a whole and have no tokens (embeddings)."""
        return self.workload.api in WHOLE_ANSWERS

    @property
    def began(self) -> datetime:
        """Return when the first request was sent."""
        return _EPOCH + timedelta(microseconds=self.result.first_send_unix_us)

    @property
    def ended(self) -> datetime:
        """Return when the last answer was received."""
        return _EPOCH + timedelta(microseconds=self.result.last_receive_unix_us)

    @property
    def judgement(self) -> str:
        """Return the verdict with the findings, such as `Suspect (Drift, ColdStart)`."""
        return (
            f"{self.verdict} ({', '.join(self.findings)})"
            if self.findings
            else self.verdict
        )

    @property
    def request_rate(self) -> float | None:
        """Return the requests a second of the load; None if all are sent at once."""
        return self.result.engine_figures.get("request_rate")

    @property
    def max_concurrency(self) -> int | None:
        """Return the most requests that may be in flight; None if there is no limit."""
        limit = self.result.engine_figures.get("max_concurrency")
        return None if limit is None else int(limit)

    @property
    def latencies(self) -> Mapping[str, api.LatencyDistribution]:
        """Return the latencies that vLLM's benchmark reports and that were measured."""
        measured = self.result.distributions
        return {
            name: measured[name] for name in measure.LATENCIES if name in measured
        }


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run with the stages that are to be exported, in the order of measurement."""

    namespace: str
    name: str
    uid: str
    spec: api.BenchmarkRunSpec
    status: api.BenchmarkRunStatus
    stages: tuple[ExportedStage, ...]
    document: api.ResultDocument
    labels: tuple[tuple[str, str], ...] = ()  # Labels of the run, set by the user.

    @property
    def server(self) -> api.ServerStatus | None:
        """Return the status of the servers of a role, which are all alike; None if it is unknown.

        If there are several roles, return that of the role that writes answers.
        """
        return api.answering(self.status.servers)

    def load_points(self) -> Sequence[tuple[str, Sequence[ExportedStage]]]:
        """Return the stages of each load point.

        Load points are in the order of their first stages; the stages of each are in the order of
        repeats.
        """
        names = dict.fromkeys(stage.load_point for stage in self.stages)
        by_repeat = sorted(self.stages, key=lambda stage: stage.repeat)
        return [
            (name, [stage for stage in by_repeat if stage.load_point == name])
            for name in names
        ]


def exported(
    run: Reported,
    document: api.ResultDocument,
    requests: Mapping[str, RequestColumns] | None = None,
) -> ExportedRun:
    """Build the exported run from a run and its result document.

    `requests` has the single requests by stage, as far as their records are available. Stages of a
    workload that the spec does not have are skipped.
    """
    of = run.declared
    workloads = {workload.name: workload for workload in run.spec.workloads}
    rows = {row.load_point: row for row in run.status.results}
    stages = []
    for stage in document.stages:
        workload = workloads.get(stage.load_point.partition("/")[0])
        if workload is None:
            continue
        row = rows.get(stage.load_point)
        stages.append(
            ExportedStage(
                result=stage,
                workload=workload,
                verdict=row.verdict if row is not None else "Unknown",
                findings=tuple(row.findings) if row is not None else (),
                requests=(requests or {}).get(stage.id),
            )
        )
    return ExportedRun(
        of.namespace,
        of.name,
        of.uid,
        run.spec,
        run.status,
        tuple(stages),
        document,
        labels=of.labels,
    )


def server_version(
    stage: ExportedStage, server: api.ServerStatus | None, role: str | None = None
) -> str | None:
    """Return the engine's version that the servers of this stage (of `role`, if given) reported.

    If they reported none, return the version in the status of `server`, or None.
    """
    edges = (edge for edge in stage.result.servers if role in (None, edge.role))
    reported = next((edge.version for edge in edges if edge.version), None)
    return reported or (server.version if server is not None else None)


def only(run: ExportedRun, stage_ids: Collection[str]) -> ExportedRun:
    return replace(
        run, stages=tuple(stage for stage in run.stages if stage.id in stage_ids)
    )


def trusted(run: ExportedRun) -> tuple[ExportedRun, Mapping[str, str]]:
    """Return the run without untrustworthy stages, and why each load point was left out."""
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


def engine_figures(stage: ExportedStage) -> Mapping[str, float | None]:
    """Return the load generator's own figures, under its own names.

    The generator writes 0 for a latency that was not measured; here such a latency is None.
    """
    measured = tuple(f"_{latency}_ms" for latency in stage.latencies)
    return {
        name: None
        if name.endswith(_LATENCIES) and not name.endswith(measured)
        else value
        for name, value in stage.result.engine_figures.items()
    }


_SIZES = {
    "tp": EngineSetting.TENSOR_PARALLEL,
    "pp": EngineSetting.PIPELINE_PARALLEL,
    "dp": EngineSetting.DATA_PARALLEL,
}
# Values by flag, with dashes; None for a switch. Where a flag is repeated, the last one holds.
Flags = Mapping[str, str | None]


def flags_of(run: ExportedRun, role: str | None = None) -> Flags:
    """Return the flags of the servers of a role; without a role, of those that write answers.

    There are none for an endpoint, because its arguments are unknown.
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
    """Parse arguments as `ServeArgs` does, but keep the dashes before the names of flags."""
    return {
        f"--{name}": value
        for name, value in ServeArgs.of(args, engine).given.items()
    }


def parallelism_of(flags: Flags, engine: Engine) -> dict[str, int]:
    """Return over how many GPUs the model is spread, under `tp`, `pp`, `dp` and `ep`.

    A value that is not a number counts as not given, so it is the engine's default, 1. Without a
    flag that spreads whole experts, `ep` is left out.
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


def has_requests(run: ExportedRun) -> bool:
    """Return whether the single requests of any stage are available."""
    return any(stage.requests is not None for stage in run.stages)


def with_requests(run: ExportedRun) -> list[tuple[ExportedStage, RequestColumns]]:
    """Return the stages whose single requests are available.

    Raises NotExportable if there are none.
    """
    found = [
        (stage, stage.requests)
        for stage in run.stages
        if stage.requests is not None
    ]
    if not found:
        raise NotExportable(
            "single requests are in the run's records, not in its result document; "
            "with -f, also give the records: --records PATH"
        )
    return found


TableName = Literal["stages", "servers", "replicas", "requests"]
TABLES: tuple[TableName, ...] = get_args(TableName)
# Whether single requests are left out where no record is at hand, or make the export fail.
Need = Literal["Wanted", "Required"]


@dataclass(frozen=True, slots=True)
class Format:
    """One export format. `files` and `document` may raise NotExportable."""

    summary: str
    files: Callable[[ExportedRun], Files]  # Returns the contents for a folder.
    document: Callable[[ExportedRun, TableName], bytes]
    """Returns the contents of a file or of standard output. Formats that are tables use the
    argument `table`."""
    is_text: bool = True
    is_whole: bool = (
        False  # Whether it has the whole run, whichever stages are chosen.
    )
    requests_in: Mapping[TableName | None, Need] = field(default_factory=dict)
    """Names of the files that need single requests; None stands for a folder with everything."""


FORMATS: dict[str, Format] = {}
"""Formats by the name that `--format` takes; the module that writes a format adds it when it is
imported."""
for _module in iter_modules([__file__.rpartition("/")[0]]):
    import_module(f"{__package__}.{_module.name}")
