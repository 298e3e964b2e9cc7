"""Everything that reads what others wrote, each as a function of bytes that returns for whatever it
is given. What a reader refuses by design it refuses here too; anything else that it raises is a
defect."""

import contextlib
import gzip
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchrun import names
from benchrun.api import BenchmarkRunStatus, read_leniently, status_changes
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.cli import (
    errors as cli_errors,
    manifests,
    result_documents as result_files,
)
from benchrun.cli.finished_results import NamedRun, with_document
from benchrun.cli.foreign_results import as_json
from benchrun.decide.sweep.decide_sweep import decide as decide_sweep
from benchrun.decide.sweep.sweep_state import SweepCollected, SweepFacts
from benchrun.effects.errors import error_of
from benchrun.effects.kubernetes_api import addresses_of
from benchrun.foreign import document, judged, readers as foreign_readers
from benchrun.foreign.document import Unreadable
from benchrun.foreign.model import Source
from benchrun.judge.thresholds import Thresholds
from benchrun.judge_process.judge_job import judge_job
from benchrun.judge_process.messages import JobPart
from benchrun.measure import cpu_values, decode, encode, gpu_values
from benchrun.measure.metrics_page import (
    UnreadableMetrics,
    parse_facts,
    parse_sample,
)
from benchrun.observe import (
    Pod,
    Run,
    child_of,
    diagnose_client,
    diagnose_server,
    find_pod_with_hidden_cause,
    finished_run_of,
    image_pull_seconds,
    is_structural,
    pod_of,
    refusals,
    run_of,
    sweep_of,
    swept_runs,
    untrusted_json as raw,
)
from benchrun.observe.last_words import MAX_CHARS, bounded, last_words
from benchrun.plan import problem_with
from benchrun.preflight.manifest_checks import CHECKS, Known, check_object
from benchrun.release import main as release
from benchrun.report.export import formats
from benchrun.report.export.encoders import NotExportable
from benchrun.report.html.page import page
from benchrun.report.markdown import markdown
from benchrun.report.run_list import run_list_rows, sweep_list_rows
from benchrun.report.run_summary import run_summary, sweep_summary
from benchrun.report.tables import finding_rows, result_rows
from benchrun.sizing import (
    Refused,
    ServeArgs,
    UnknownCacheType,
    UnknownShape,
    demand,
    engine_of,
    model_shape,
    sizing_of,
    unknown_weights,
)
from benchrun_client.contract import (
    MAX_PACKED_BYTES,
    DataFile,
    Envelope,
    Failure,
    unpack_delivery,
)
from benchrun_client.contract.datasets import (
    AgentData,
    CustomData,
    ShareGPTData,
    TextsData,
    TimedTraceData,
)
from benchrun_client.datasets.agent import read_conversation
from benchrun_client.datasets.row_pools import prompts_digest
from benchrun_client.datasets.timed_trace import read_trace
from benchrun_client.engines import ENGINES
from benchrun_client.engines.vllm import log as vllm_log
from benchrun_client.engines.vllm.trace_reader import summary_of
from benchrun_client.failures import RunFailure
from pydantic import ValidationError
from unit.cli.finished_runs import finished_run
from unit.client.datasets.files import drawn, portion
from unit.decide.scenes import Scene, instant
from unit.judge_process.jobs import PLAN_DIGEST, STAGES, TWO_STAGES, job, records
from unit.plan.specs import OWNER, UID
from unit.sweep.sweeps import NAME, NAMESPACE, UID as SWEEP_UID, a_run, sweep_body

VLLM = ENGINES["VLLM"]

NOW = instant(1000)
COMPARED = TWO_STAGES | {"baseline": {"name": "before"}}
_BEFORE = json.dumps(finished_run().body).encode()
MAX_INPUT_BYTES = 64 * 1024
"""What a fuzzer gives; the tests of each reader know larger ones."""


def metrics_pages(data: bytes) -> None:
    """A server's /metrics."""
    text = data.decode(errors="replace")
    with contextlib.suppress(UnreadableMetrics):
        sample = parse_sample(text, VLLM, at=5.0, role="server", pod="p")
        (stored,) = decode(encode((sample,)))
        assert (stored.role, stored.pod) == ("server", "p")
    with contextlib.suppress(UnreadableMetrics):
        parse_facts(text, VLLM)


def exporter_pages(data: bytes) -> None:
    """Metrics of GPUs and of containers."""
    text = data.decode(errors="replace")
    for values in (gpu_values, cpu_values):
        with contextlib.suppress(UnreadableMetrics):
            values(text, namespace="lab", pod="chat-0")


def pod_logs(data: bytes) -> None:
    """The end of a container's log, and what schedulers and policies say."""
    text = data.decode(errors="replace")
    words = last_words(text, VLLM)
    assert len(words) <= MAX_CHARS
    assert bounded(bounded(text)) == bounded(text)
    phases = VLLM.startup_phases(text)
    assert all(seconds is None or seconds >= 0 for seconds in vars_of(phases))
    compilations = vllm_log.compilations(text)
    assert list(compilations) == sorted(compilations)
    is_structural(text)
    for role in (names.ROLE_SERVER, names.ROLE_CLIENT):
        place = refusals.Place(role=role)
        refusals.refusal_of(text, place)
    pod = _ended(text)
    for found in (
        diagnose_server([pod], None, VLLM, log_tail=text),
        diagnose_client([pod], None, VLLM),
    ):
        assert found is None or len(found.message) < 4096


def vars_of(phases: Any) -> list[float | None]:
    """The seconds of each phase."""
    return [phases.download, phases.load, phases.compile, phases.warm_up]


def _ended(text: str) -> Pod:
    ended = {"exitCode": 1, "message": text, "reason": "Error"}
    container = {"name": "vllm", "restartCount": 3, "state": {"terminated": ended}}
    return pod_of(
        {"metadata": {"name": "p"}, "status": {"containerStatuses": [container]}}
    )


def events(data: bytes) -> None:
    """Events of pods, Jobs and StatefulSets, as the API server lists them."""
    listed = list(raw.mappings(raw.parsed(data)))
    wait = image_pull_seconds(listed, container="server")
    assert wait is None or 0 <= wait < 1e14
    refusals.refused_pods(listed)


def endpoint_slices(data: bytes) -> None:
    """The EndpointSlices of a Service."""
    slices = [dict(each) for each in raw.mappings(raw.parsed(data))]
    for address in addresses_of(slices, "http", namespace="lab"):
        assert len(address) < 64


def deliveries(data: bytes) -> None:
    """A client's answer, progress and envelopes in it; and its last words, a failure."""
    with contextlib.suppress(ValueError):
        delivery, bodies = unpack_delivery(data)
        assert len(delivery.records) == len(bodies)
        for envelope in delivery.records:
            problem_with(envelope, STAGES, ())
        Scene().measuring().reports(**dict(delivery.progress)).decide()
    with contextlib.suppress(ValidationError):
        Failure.model_validate_json(data)
    diagnose_client([_ended(data.decode(errors="replace"))], None, VLLM)


def _envelope_of(packed: bytes) -> Envelope:
    """Build the envelope of the first stage around any bytes."""
    return Envelope.model_construct(
        sequence=0,
        run_uid=UID,
        stage_id=STAGES[0],
        plan_digest=PLAN_DIGEST,
        ends_search=None,
        size=len(packed),
        digest=hashlib.sha256(packed).hexdigest(),
    )


def stored_records(data: bytes) -> None:
    """A record's JSON, packed as the client does, and judged with the others of its run."""
    packed = gzip.compress(data, compresslevel=1, mtime=0)
    if len(packed) > MAX_PACKED_BYTES:
        return
    part = JobPart.of(
        "record",
        packed,
        name="stage-0",
        envelope=_envelope_of(packed),
    )
    _judged([part, *records()[1:]])


def packed_records(data: bytes) -> None:
    """Bytes that stand where a record should."""
    _judged(
        [JobPart.of("record", data, name="stage-0", envelope=_envelope_of(data))]
    )


def timelines(data: bytes) -> None:
    """A timeline's JSON, packed as the operator does, and judged with the run's records."""
    packed = gzip.compress(data, compresslevel=1, mtime=0)
    _judged([*records(), JobPart.of("timeline", packed, name="timeline-0")])


def baselines(data: bytes) -> None:
    """A run that stands where the baseline should, and is compared with."""
    _judged([*records(), JobPart.of("baseline", data, name="before")])


def result_documents(data: bytes) -> None:
    """A result document in a user's file: all that a command makes of it; and of a baseline."""
    packed = gzip.compress(data, compresslevel=1, mtime=0)
    part = JobPart.of("baselineDocument", packed, name="before")
    _judged([*records(), JobPart.of("baseline", _BEFORE, name="before"), part])
    with _as_file(data) as file, contextlib.suppress(result_files.BadDocument):
        document = result_files.document_in(Path(str(file.path)))
        if document is None:
            return
        run = result_files.run_of(document)
        found = with_document(NamedRun(run, document), None)
        _shown(run, found.status)
        page(found, lambda _: '<svg width="1" height="1"/>', made_by="fuzz")
        markdown(run.name, found.status, wide=True)
        exported = formats.exported(found, document)
        for each in formats.FORMATS.values():
            with contextlib.suppress(NotExportable):
                each.files(exported)


def _judged(parts: list[JobPart]) -> None:
    judgement, _ = judge_job(job(COMPARED), parts)
    type(judgement).model_validate_json(judgement.model_dump_json())


def pods(data: bytes) -> None:
    """A pod as the watch gives it, and what a run decides that has it."""
    body = raw.mapping(raw.parsed(data))
    pod = pod_of(body)
    diagnose_server([pod], None, VLLM, log_tail="x")
    diagnose_client([pod], None, VLLM)
    find_pod_with_hidden_cause([pod], VLLM)
    for role in (names.ROLE_SERVER, names.ROLE_CLIENT):
        owned = replace(pod, role=role, run_uid=OWNER.uid)
        for scene in (Scene().server_pending(), Scene().measuring()):
            others = tuple(each for each in scene.pods if each.role != role)
            _decides(replace(scene, pods=(*others, owned)))


def objects(data: bytes) -> None:
    """An object with our label, and what a run decides that has it; and by the release job."""
    body = raw.mapping(raw.parsed(data))
    scene = Scene().measuring()
    for kind in ("Deployment", "LeaderWorkerSet", "Job", "Service", "ConfigMap"):
        child = replace(child_of(kind, body), owner_uid=OWNER.uid)
        _decides(replace(scene, objects=(*scene.objects, child)))
    seen = release.seen("Deployment", dict(raw.mapping(body.get("metadata"))))
    assert seen.hold_seconds >= 0
    assert release.got_its_node(dict(body), 1000) <= 1000


def _decides(scene: Scene) -> None:
    decision = scene.decide()
    text = decision.status.model_dump_json(by_alias=True, exclude_none=True)
    assert len(text.encode()) < 100_000


def statuses(data: bytes) -> None:
    """The status of a run: of one that goes on, of a sweep's, of one that is listed or shown."""
    stored = dict(raw.mapping(raw.parsed(data)))
    read = read_leniently(BenchmarkRunStatus, stored)
    status_changes(stored, read)
    finished_run_of(stored)
    for scene in (
        Scene().measuring(),
        Scene().measuring().arrived(0, 1).answered(),
    ):
        _decides(replace(scene, status=stored))
    metadata = {"name": OWNER.name, "namespace": OWNER.namespace, "uid": OWNER.uid}
    body = {"metadata": metadata, "spec": Scene().spec, "status": stored}
    _shown(run_of(body), read)
    run_list_rows([body], now=NOW, wide=True)
    swept = [replace(a_run(f"{NAME}-v1-r1"), status=stored)]
    _sweep_decides({}, swept, measured={swept[0].uid: read})


def _shown(run: Run, read: BenchmarkRunStatus) -> None:
    run_summary(run, read, now=NOW)
    result_rows(read, wide=True)
    finding_rows(read)


def sweep_statuses(data: bytes) -> None:
    """The status of a sweep: of one that goes on, and of one that is listed or shown."""
    stored = dict(raw.mapping(raw.parsed(data)))
    read = read_leniently(BenchmarkSweepStatus, stored)
    status_changes(stored, read)
    _sweep_decides(stored, [a_run(f"{NAME}-v1-r1")])
    body = {"metadata": {"name": NAME}, "spec": sweep_body(), "status": stored}
    sweep_summary(sweep_of(body), read, now=NOW)
    sweep_list_rows([body], now=NOW, wide=True)


def _sweep_decides(
    status: dict[str, Any],
    runs: list[Run],
    measured: dict[str, BenchmarkRunStatus] | None = None,
) -> None:
    metadata = {
        "namespace": NAMESPACE,
        "name": NAME,
        "uid": SWEEP_UID,
        "generation": 1,
    }
    sweep = sweep_of({"metadata": metadata, "spec": sweep_body(), "status": status})
    collected = SweepCollected(measured=measured or {})
    decide_sweep(SweepFacts(sweep, swept_runs(runs), collected, NOW))


def model_configs(data: bytes) -> None:
    """A model's config.json."""
    config = raw.mapping(raw.parsed(data))
    with contextlib.suppress(UnknownShape, UnknownCacheType, Refused):
        shape = model_shape(config)
        args = ServeArgs.of(
            ["--tensor-parallel-size=2", "--enable-expert-parallel"], VLLM
        )
        unknown_weights(shape, args)
        demand(shape, args)
        sizing = sizing_of(shape, engine_of(args, shape))
        assert sizing.token_bytes_per_gpu >= 0


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[DataFile]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        path.write_bytes(data)
        yield DataFile(path=str(path))


@contextlib.contextmanager
def _fails_in_words() -> Iterator[None]:
    """A failure of the client's is what the operator can read."""
    try:
        yield
    except RunFailure as failure:
        Failure.model_validate_json(failure.to_message().model_dump_json())


def datasets(data: bytes) -> None:
    """A file of data, read in every way, and four requests that are drawn from it."""
    with _as_file(data) as file:
        texts = {
            "column": "text",
            "texts_per_prompt": 1,
            "output_tokens_per_text": 1,
        }
        for read in (
            CustomData(file=file),
            ShareGPTData(file=file),
            ShareGPTData(file=file, output_tokens=4),
            TextsData(file=file, format="CSV", **texts),
            TextsData(file=file, format="JSONL", **texts),
        ):
            with _fails_in_words():
                (samples,) = drawn(portion(read, requests=1), context_tokens=10_000)
                prompts_digest(samples)
        with _fails_in_words():
            read_trace(TimedTraceData(file=file), context_tokens=10_000)
        with _fails_in_words():
            read_conversation(AgentData(file=file, output_tokens=4))


def profiler_traces(data: bytes) -> None:
    """A profiler's trace."""
    with _as_file(data) as file, contextlib.suppress(ValueError):
        json.dumps(summary_of(Path(str(file.path))))


def api_errors(data: bytes) -> None:
    """The body of a refusal of the API server's."""
    for status in (400, 403, 404, 409, 422, 429, 500, 503):
        error_of(status, data, {"Retry-After": data[:20].decode(errors="replace")})


def manifest_files(data: bytes) -> None:
    """A file that is checked or applied by the command."""
    with _as_file(data) as file:
        with contextlib.suppress(cli_errors.CommandError):
            manifests.manifests_in([str(file.path)])
        with contextlib.suppress(cli_errors.CommandError):
            for body in manifests.objects_in(Path(str(file.path))):
                check_object(dict(body), Known())
                for kind in CHECKS:
                    check_object({**body, "kind": kind}, Known())


def foreign_files(data: bytes) -> None:
    """Result files of other tools, by every reader, and their judgement."""
    for reader in foreign_readers.READERS.values():
        for name in ("file", "file.yaml"):
            with contextlib.suppress(Unreadable):
                read = document.documents(name, data, remedy=reader.remedy)
                stages = reader.read([Source("folder", read)])
                as_json(reader.tool, judged.judged(stages, Thresholds()))


READERS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (
        metrics_pages,
        exporter_pages,
        pod_logs,
        events,
        endpoint_slices,
        deliveries,
        stored_records,
        packed_records,
        timelines,
        baselines,
        result_documents,
        pods,
        objects,
        statuses,
        sweep_statuses,
        model_configs,
        datasets,
        profiler_traces,
        api_errors,
        manifest_files,
        foreign_files,
    )
}
