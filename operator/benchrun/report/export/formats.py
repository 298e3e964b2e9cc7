"""A finished run as exports see it, and the formats of `benchrun export`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Literal, get_args

from benchrun_client.contract import RequestColumns
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
    """A stage of the result document with what the run says of its load point."""

    result: api.StageResult
    workload: api.Workload
    verdict: api.Verdict
    """Verdict of its load point in the run's status; Unknown if there is no row."""
    findings: tuple[str, ...]  # Codes found at its load point.
    # Its single requests; None: its record is not at hand.
    requests: RequestColumns | None

    @property
    def id(self) -> str:
        """Return the name of the stage: `chat/rate=4/r2`, in a search `chat/search-07/r1`."""
        return self.result.id

    @property
    def load_point(self) -> str:
        """Return its load point, for example `chat/rate=4`."""
        return self.result.load_point

    @property
    def repeat(self) -> int:
        """Return which repeat of the load point it is, from 1."""
        return self.result.repeat

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
        """Return the verdict with the findings: `Suspect (Drift, ColdStart)`."""
        return (
            f"{self.verdict} ({', '.join(self.findings)})"
            if self.findings
            else self.verdict
        )

    @property
    def request_rate(self) -> float | None:
        """Return the requests a second that the load engine was to send; None: all at once."""
        return self.result.engine_figures.get("request_rate")

    @property
    def max_concurrency(self) -> int | None:
        """Return the most requests that may be in flight; None: no limit."""
        limit = self.result.engine_figures.get("max_concurrency")
        return None if limit is None else int(limit)

    @property
    def latencies(self) -> Mapping[str, api.LatencyDistribution]:
        """Return the latencies that vLLM reports, as far as they were measured."""
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


def exported(
    run: Reported,
    document: api.ResultDocument,
    requests: Mapping[str, RequestColumns] | None = None,
) -> ExportedRun:
    """Build the exported run with every stage of its result document, and that itself.

    `requests`: the single requests by stage, as far as their records are at hand. Stages of a
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
    """Return the engine's version as the servers of this stage (of `role`, if given) reported it.

    Where none did, return the version in the status of `server`, or None.
    """
    edges = (edge for edge in stage.result.servers if role in (None, edge.role))
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


def engine_figures(stage: ExportedStage) -> Mapping[str, float | None]:
    """Return the load engine's own figures under its names.

    The engine's 0 for a latency that was not measured is None here.
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


def has_requests(run: ExportedRun) -> bool:
    """Return whether the single requests of any stage are at hand."""
    return any(stage.requests is not None for stage in run.stages)


def with_requests(run: ExportedRun) -> list[tuple[ExportedStage, RequestColumns]]:
    """Return the stages whose single requests are at hand.

    Raises NotExportable where there are none.
    """
    found = [
        (stage, stage.requests)
        for stage in run.stages
        if stage.requests is not None
    ]
    if not found:
        raise NotExportable(
            "single requests are in the run's records, not in its result document; with -f, give "
            "the records too: --records PATH"
        )
    return found


TableName = Literal["stages", "servers", "replicas", "requests"]
TABLES: tuple[TableName, ...] = get_args(TableName)
# Whether single requests are left out where no record is at hand, or make the export fail.
Need = Literal["Wanted", "Required"]


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `files` and `document` raise NotExportable."""

    summary: str
    files: Callable[[ExportedRun], Files]  # Returns the contents for a folder.
    document: Callable[[ExportedRun, TableName], bytes]
    """Returns the contents of a file, or for standard output; the table is used by formats that are
    tables."""
    is_text: bool = True
    is_whole: bool = (
        False  # Whether it has the whole run, whichever stages are chosen.
    )
    requests_in: Mapping[TableName | None, Need] = field(default_factory=dict)
    """Which files need single requests; None: a folder with everything."""


FORMATS: dict[str, Format] = {}
"""Formats by the name that `--format` takes; the module that writes a format adds it when it is
imported."""
for _module in iter_modules([__file__.rpartition("/")[0]]):
    import_module(f"{__package__}.{_module.name}")
