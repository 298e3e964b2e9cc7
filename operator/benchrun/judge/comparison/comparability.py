"""Decide whether runs may be compared, and find what should be equal on both sides but differs.

The sources of the model and of the dataset count, too.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, starmap
from statistics import fmean

from benchrun_client import contract

from benchrun import api
from benchrun.api import TRUSTED
from benchrun.api.sweep import CHOSEN
from benchrun.judge.comparison import settings
from benchrun.names import ROLE_CLIENT
from benchrun.observe import Run
from benchrun.plan import client_fields, client_sampling, own_fields


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """Spec and results of one run of a comparison.

    A run that started its own server counts as one *fresh server*.
    """

    name: str
    uid: str
    spec: api.BenchmarkRunSpec
    status: api.BenchmarkRunStatus
    block: int | None = None
    """Number of the replication that the run belongs to, in a sweep. The runs of one replication (a
    block), one for each variant, were sent the same requests at about the same time."""

    def row(self, load_point: str) -> api.Result | None:
        """Return the results of a load point, or None if the run does not have it."""
        return next(
            (row for row in self.status.results if row.load_point == load_point),
            None,
        )

    def traffic(self, load_point: str) -> str | None:
        """Return the digest of what was sent at a load point, or None if it is not known."""
        row = self.row(load_point)
        return None if row is None else row.traffic

    def workload(self, name: str) -> api.Workload | None:
        """Return the workload of that name, or None if there is none."""
        return next(
            (workload for workload in self.spec.workloads if workload.name == name),
            None,
        )


def measured_run(
    run: Run, document: api.ResultDocument | None = None
) -> MeasuredRun:
    """Parse a run from the cluster, and its result document if it has one.

    Raises ValueError if its spec or status is not valid for this version.
    """
    status = api.BenchmarkRunStatus.model_validate(run.status)
    if document is not None:
        return MeasuredRun(
            run.name, run.uid, document.spec, document.status(status)
        )
    spec = api.BenchmarkRunSpec.model_validate(run.spec)
    return MeasuredRun(run.name, run.uid, spec, status)


def results_digest(run: MeasuredRun) -> str:
    """Return the digest of a run's results.

    A comparison stores it, so that later changes of the results can be detected.
    """
    rows = [
        row.model_dump(mode="json", by_alias=True, exclude_none=True)
        for row in run.status.results
    ]
    text = json.dumps(rows, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


Side = Sequence[MeasuredRun]


def _source_text(source: api.ModelSource) -> str:
    """Return the source of a model in a few words, such as "claim weights/qwen"."""
    if (claim := source.pvc) is not None:
        return f"claim {claim.claim_name}{f'/{claim.path}' if claim.path else ''}"
    if (image := source.image_volume) is not None:
        return f"artifact {image.reference}{f' {image.path}' if image.path else ''}"
    return f"path {source.path.path}" if source.path is not None else "the hub"


def _with_files(name: str, runs: Side) -> list[tuple[MeasuredRun, MeasuredRun]]:
    """Return each pair of runs in which both have a workload of that name that reads a file."""

    def reads_file(run: MeasuredRun) -> bool:
        workload = run.workload(name)
        parts = (
            api.datasets_of(workload, run.spec.workloads)
            if workload is not None
            else ()
        )
        return any(
            part.file is not None
            or (part.single is not None and part.single.reads_hub)
            for part in parts
        )

    return list(combinations(filter(reads_file, runs), 2))


def _send_the_same(one: MeasuredRun, other: MeasuredRun) -> bool:
    """Return whether two runs send the same requests, provided that their files are equal.

    The rows that a stage takes from a file depend on all workloads. With an endpoint the seed
    includes the run's uid, except under cachePolicy Share.
    """
    specs = (one.spec, other.spec)
    keyed = (
        any(s.endpoint is not None for s in specs)
        and specs[0].measurement.cache_policy != "Share"
    )
    first, second = (
        (s.workloads, s.repeats, s.measurement.seed, s.measurement.cache_policy)
        for s in specs
    )
    return not keyed and first == second


# Server image, arguments and environment may differ from side to side: they are the experiment.
# Within a side they may not.


def obstacle(baseline: Side, candidate: Side, *, swept: bool = False) -> str | None:
    """Return why no figure of the two sides may be compared, or None if figures may be.

    With `swept`, differences that a sweep makes on purpose are allowed.
    """
    runs = (*baseline, *candidate)
    if (reason := _not_two_sides(baseline, candidate)) is not None:
        return reason
    for what, value_of in _SAME.items():
        known = [
            (run.name, value)
            for run in runs
            if (value := value_of(run)) is not None
        ]
        for name, value in known if not (swept and _is_varied(what, runs)) else ():
            if value != known[0][1]:
                return f"{what}: {known[0][1]} in {known[0][0]}, {value} in {name}"[
                    :300
                ]
    return _fell_back(runs) or settings.obstacle(servers_of(baseline, candidate))


def servers_of(baseline: Side, candidate: Side) -> settings.Differing:
    """Return the servers of both sides, which must not be empty, to compare their settings."""
    return settings.Differing(
        *(
            [
                settings.RunServers(run.name, run.spec, run.status.servers)
                for run in side
            ]
            for side in (baseline, candidate)
        )
    )


def load_point_obstacle(
    load_point: str, baseline: Side, candidate: Side
) -> str | None:
    """Return why this load point may not be compared, or None if it may."""
    runs = (*baseline, *candidate)
    workload = load_point.partition("/")[0]
    for run in runs:
        row = run.row(load_point)
        if row is None:
            return f"{run.name} has no results for this load point"
        if run.workload(workload) is None:
            return f"{run.name} has no such workload in its spec"
        if row.verdict not in TRUSTED:
            return f"the figures are {row.verdict} in {run.name}"
    if (reason := _workload_differs(workload, runs)) is not None:
        return reason
    # Runs with the same spec and seed send the same, unless the files differ that they read: their
    # digests show it.
    for one, other in _with_files(workload, runs):
        sent = {one.traffic(load_point), other.traffic(load_point)}
        if _send_the_same(one, other) and None not in sent and len(sent) > 1:
            return f"the dataset's file differs between {one.name} and {other.name}"
    return None


def caveats(baseline: Side, candidate: Side) -> list[str]:
    """Return short texts on what should be the same on both sides but differs or is unknown."""
    runs = (*baseline, *candidate)
    nodes = {server.node for run in runs for server in run.status.servers}
    blind = any(
        server.gpus and server.gpu is None
        for run in runs
        for server in run.status.servers
    )
    sources = {_source_text(run.spec.model.source): run.name for run in runs}
    origins = " and from ".join(
        f"{text} in {name}" for text, name in sources.items()
    )
    # Old records do not say how the server sampled, which matters only beside records that do.
    sampling = {
        run.name: [row.sampling for row in run.status.results if row.repeats]
        for run in runs
    }
    silent = [name for name, found in sampling.items() if None in found]
    workloads = dict.fromkeys(
        workload.name for run in runs for workload in run.spec.workloads
    )
    pairs = [pair for name in workloads for pair in _with_files(name, runs)]
    found = {
        "the GPU model of at least one side is unknown, so the models may differ": blind
        and (len(nodes) > 1 or None in nodes),
        f"the model comes from {origins}": len(sources) > 1,
        f"the results of {next(iter(silent), '')} do not say how the server chose "
        "tokens (its sampling settings)": 0 < len(silent) < len(sampling),
        "whether both sides read the same dataset file is not known, because they "
        "send different rows of it": not all(starmap(_send_the_same, pairs)),
    }
    return [
        *(text for text, is_so in found.items() if is_so),
        *differences(baseline, candidate),
    ]


# Most difference of the sides' SM clocks in percent, as within a run.
MAX_CLOCK_PERCENT = 3.0


def differences(baseline: Side, candidate: Side) -> Iterator[str]:
    """Yield texts on how the two sides differ.

    They are about the platform's defaults, SM clocks, and failed requests; how servers were set is
    told before (`settings`).
    Clocks and failed requests are taken from the load point where the sides differ most in them.
    The first run of a side stands for all its runs in the platform's defaults.
    """
    sides = (baseline, candidate)
    names = (baseline[0].name, candidate[0].name)
    yield from _platform_differences(baseline[0], candidate[0])
    ids = dict.fromkeys(
        row.load_point for run in baseline for row in run.status.results
    )
    load_points = [
        load_point
        for load_point in ids
        if load_point_obstacle(load_point, *sides) is None
    ]
    clocks = {
        load_point: pair
        for load_point in load_points
        if all(pair := [_clock_mhz(side, load_point) for side in sides])
    }
    load_point = max(
        clocks,
        key=lambda load_point: max(clocks[load_point]) / min(clocks[load_point]),
        default="",
    )
    if (
        load_point
        and 100 * (1 - min(clocks[load_point]) / max(clocks[load_point]))
        > MAX_CLOCK_PERCENT
    ):
        before, after = clocks[load_point]
        clocks_told = (
            f"{before:.0f} MHz in {names[0]}, {after:.0f} MHz in {names[1]}"
        )
        yield f"SM clocks at {load_point}: {clocks_told}"
    requests = {
        load_point: (
            _requests(baseline, load_point),
            _requests(candidate, load_point),
        )
        for load_point in load_points
    }
    unlike = {
        load_point: pair
        for load_point, pair in requests.items()
        if _fail_unlike(*pair, error=contract.ERROR / len(load_points))
    }
    load_point = max(
        unlike, key=lambda load_point: max(unlike[load_point]), default=""
    )
    if load_point:
        one, other = (
            f"{x:.0f} of {n:.0f} in {name}"
            for (x, n), name in zip(unlike[load_point], names, strict=True)
        )
        yield (
            f"requests failed at {load_point}: {one}, {other}. "
            "All figures count answered requests only"
        )


NOT_SET = "not set"


def _platform_differences(one: MeasuredRun, other: MeasuredRun) -> Iterator[str]:
    """Yield the pod settings that differ between two runs because the platform's defaults set them.

    A setting does not differ if one spec sets the value that the other run has by default.
    """
    sides = [(run, _defaults_of(run)) for run in (one, other)]
    (_, first), (_, second) = sides
    for role in (role for role in first if role in second):
        for field in dict.fromkeys((*first[role], *second[role])):
            values = [
                found[role].get(field)
                or own_fields(run.spec, role).get(field, NOT_SET)
                for run, found in sides
            ]
            if values[0] != values[1]:
                yield (
                    f"{role} {field}: {values[0]} in {one.name}, {values[1]} in {other.name}"
                )


def _defaults_of(run: MeasuredRun) -> Mapping[str, Mapping[str, str]]:
    """Return what the platform's defaults set in a run, by role and field."""
    found = {server.role: server.defaults for server in run.status.servers}
    client = run.status.client
    return found if client is None else {**found, ROLE_CLIENT: client.defaults}


def _clock_mhz(side: Side, load_point: str) -> float:
    """Return the mean SM clock over the servers in MHz, or 0 where it is not known."""
    roles = (
        role
        for run in side
        if (row := run.row(load_point)) is not None
        for role in row.roles
    )
    clocks = [
        role.sm_clock_mean_mhz
        for role in roles
        if role.sm_clock_mean_mhz is not None
    ]
    return fmean(clocks) if clocks else 0.0


def _requests(side: Side, load_point: str) -> tuple[float, float]:
    """Return how many requests of a side failed at a load point, and how many were sent."""
    rows = [row.metrics for run in side if (row := run.row(load_point)) is not None]
    failed, completed = (
        sum(row.get(key) or 0.0 for row in rows) for key in ("failed", "completed")
    )
    return failed, failed + completed


def _fail_unlike(
    one: tuple[float, float], other: tuple[float, float], *, error: float
) -> bool:
    """Return whether requests failed more often on one side than chance explains.

    Chance explains the difference unless it would divide the failed requests so unevenly with a
    probability of at most `error` (J. Przyborowski and H. Wilenski, Biometrika 31, 1940).
    """
    (few, of_one) = one
    (many, of_other) = other
    if not (of_one and of_other and few + many):
        return False
    failed = few + many
    share = of_one / (of_one + of_other)
    return any(
        contract.is_rare(x / failed, failed, of, error)
        for x, of in ((few, share), (many, 1 - share))
    )


def _not_two_sides(baseline: Side, candidate: Side) -> str | None:
    """Return why the runs can't be the two sides of a comparison, or None if they can.

    They can't if a run is named twice or did not finish, if one run is compared with several, or if
    the servers of one side differ.
    """
    runs = (*baseline, *candidate)
    uids = [run.uid for run in runs]
    if (
        twice := next((run.name for run in runs if uids.count(run.uid) > 1), None)
    ) is not None:
        return f"{twice} is named twice: compare different runs"
    for run in runs:
        if run.status.completion_time is None:
            return f"{run.name} has not finished"
        # Figures of a run that failed were taken on a server in trouble.
        if api.is_true(run.status.conditions, "Failed"):
            return f"{run.name} did not measure to its end ({run.status.phase or 'Failed'})"
    if (
        min(len(baseline), len(candidate)) < 2
        and not len(baseline) == len(candidate) == 1
    ):
        return "one run against several: name one run on each side, or two or more on each"
    for first, *others in (baseline, candidate):
        for run in others:
            if (run.spec.started, run.spec.endpoint) != (
                first.spec.started,
                first.spec.endpoint,
            ):
                return (
                    f"{first.name} and {run.name} are on the same side but their "
                    "servers differ; the runs of one side need equal servers"
                )
            if (
                unlike := next(_platform_differences(first, run), None)
            ) is not None:
                return f"{first.name} and {run.name} are on the same side but differ: {unlike}"[
                    :300
                ]
    return None


def _fell_back(runs: Side) -> str | None:
    """Return a setting that servers of the same definition chose differently, or None.

    Only servers with the same image and arguments are compared.
    """
    for one, other in combinations(runs, 2):
        twins = {
            (server.role, server.image_digest): server.reported
            for server in other.status.servers
        }
        for server in (
            one.status.servers
            if one.spec.started == other.spec.started is not None
            else ()
        ):
            theirs = twins.get((server.role, server.image_digest), {})
            for key in CHOSEN:
                if key in theirs and theirs[key] != server.reported.get(
                    key, theirs[key]
                ):
                    values = f"{server.reported[key]} in {one.name}, {theirs[key]} in {other.name}"
                    return (
                        f"{key.replace('_', ' ')}: {values}, although both servers have "
                        "the same image and arguments"
                    )
    return None


def _chat_template(run: MeasuredRun) -> str | None:
    """Return text that names the chat template.

    None if the spec gives a template whose digest the client has not told.
    """
    if run.spec.chat_template is None:
        return "the model's own"
    client = run.status.client
    return (
        None
        if client is None or client.chat_template is None
        else f"SHA-256 {client.chat_template[:12]}"
    )


def _is_varied(what: str, runs: Side) -> bool:
    """Return whether a sweep may vary this property on purpose.

    It may vary GPUs and, if the specs differ in the model, everything about the model.
    """
    models = [run.spec.model for run in runs]
    return what == "GPUs" or (
        what in ("model", "tokenizer", "tokenizer's commit")
        and models != models[:1] * len(models)
    )


_SAME: Mapping[str, Callable[[MeasuredRun], object]] = {
    "model": lambda run: "@".join(
        filter(None, (run.spec.model.name, run.spec.model.revision))
    ),
    "tokenizer": lambda run: run.spec.model.tokenizer or "the model's own",
    "tokenizer's commit": lambda run: (
        run.status.client and run.status.client.commit
    ),
    "chat template": _chat_template,
    "server": lambda run: (
        "a fresh server" if run.spec.started is not None else "an endpoint"
    ),
    # The number of all devices; None behind an endpoint, where they are not counted.
    "GPUs": lambda run: (
        sum(s.gpus for s in run.status.servers)
        if run.spec.started and run.status.servers
        else None
    ),
    "GPU": lambda run: (
        ", ".join(
            sorted({server.gpu for server in run.status.servers if server.gpu})
        )
        or None
    ),
    "client engine": lambda run: (
        (c := run.status.client)
        and c.engine
        and f"{c.engine} {c.engine_version or ''}".strip()
    ),
    "client image": lambda run: (
        run.status.client
        and (run.status.client.image_digest or run.status.client.image)
    ),
    "cache policy": lambda run: run.spec.measurement.cache_policy,
    "warm-up": lambda run: (
        "none" if run.spec.measurement.warmup.none is not None else "auto"
    ),
}


def _workload_differs(workload: str, runs: Side) -> str | None:
    """Return what differs in a workload between the runs, or None.

    A different list of load points does not count.
    """
    (first_run, first), *others = [
        (run, found)
        for run in runs
        if (found := run.workload(workload)) is not None
    ]
    for run, other in others:
        is_same = _datasets(first, first_run.spec) == _datasets(other, run.spec)
        differing = (
            next((what for what, of in _TRAFFIC if of(first) != of(other)), None)
            if is_same
            else "dataset"
        )
        if differing is not None:
            return f"{differing} differs between {first_run.name} and {run.name}"
    return None


def _datasets(workload: api.Workload, spec: api.BenchmarkRunSpec) -> object:
    """Return a workload's datasets and their weights, without the names of the parts of a mix."""
    return api.datasets_of(workload, spec.workloads), [
        part.weight for part in workload.dataset.mix or ()
    ]


_TRAFFIC: tuple[tuple[str, Callable[[api.Workload], object]], ...] = (
    ("api", lambda workload: workload.api),
    ("ignoreEOS", lambda workload: workload.ignore_eos),
    *(
        (
            f"sampling.{api.json_name(name)}",
            lambda workload, name=name: getattr(client_sampling(workload), name),
        )
        for name in contract.SamplingParams.model_fields
    ),
    *(
        (
            api.json_name(name),
            lambda workload, name=name: workload.load.options[name],
        )
        for name in api.LoadSpec().options
    ),
    ("request", client_fields),
    (
        "the number of requests",
        lambda workload: (workload.requests, workload.duration_seconds),
    ),
)
