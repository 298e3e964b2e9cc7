"""Files of `aiperf profile`: their figures, what rules say of them, and hostile ones."""

import json
from typing import Any

import pytest
from benchrun.foreign.document import Unreadable
from benchrun.judge.rules.inputs import Input
from benchrun_client.contract import RateLoad, UsersLoad
from unit.foreign.foreign_files import Change, answers, judge, read, text_of

FOLDER = "aiperf-0.13.0-concurrency-4"
SUMMARY = f"{FOLDER}/profile_export_aiperf.json"
RECORDS = f"{FOLDER}/profile_export.jsonl"


def records(change: Change | None = None) -> bytes:
    """Return the records, each changed."""
    lines = [json.loads(line) for line in text_of(RECORDS).splitlines()]
    if change is not None:
        for line in lines:
            change(line)
    return "\n".join(map(json.dumps, lines)).encode()


def stages(change: Change | None = None, of_records: Change | None = None) -> Any:
    """Return what is read of the folder, or of changed files."""
    return read(
        "aiperf", records=records(of_records), summary=text_of(SUMMARY, change)
    )


def phase(**fields: Any) -> Change:
    """Return a change of the only phase."""

    def changed(summary: dict[str, Any]) -> None:
        summary["input_config"]["phases"] = [{"kind": "profiling", **fields}]

    return changed


def test_figures_are_those_of_the_tool() -> None:
    (stage,) = stages()
    figures = {each.theirs: each for each in stage.figures}
    ttft = figures["time_to_first_token.p99"]
    assert (ttft.value, ttft.ours) == (
        pytest.approx(731.199, abs=1e-3),
        "p99_ttft_ms",
    )
    gap = figures["inter_chunk_latency.avg"]
    assert (gap.value, gap.ours) == (pytest.approx(2.158, abs=1e-3), "mean_itl_ms")
    assert (stage.version, stage.model) == ("0.13.0", "tiny")
    assert (stage.answered, stage.failed, len(stage.requests.ok)) == (40, 0, 40)
    assert stage.load == UsersLoad(concurrency=4, start="Together")


def test_what_rests_on_the_tools_own_tokens_is_refused() -> None:
    def by_server(summary: dict[str, Any]) -> None:
        summary["input_config"]["endpoint"]["use_server_token_count"] = True

    names = ("inter_token_latency", "output_token_throughput")
    for change, ours in (
        (None, [None, None]),
        (by_server, ["tpot", "output_throughput"]),
    ):
        (stage,) = stages(change)
        found = {each.theirs: each.ours for each in stage.definitions}
        assert [found[name] for name in names] == ours


def test_the_figures_follow_from_the_records() -> None:
    (stage,) = stages()
    ttft_us = sorted(stage.requests.ttft_us)
    assert sum(ttft_us) / 40_000 == pytest.approx(412.658, abs=1e-2)
    assert sum(stage.requests.gaps_us) / 760_000 == pytest.approx(2.158, abs=1e-2)


def test_rules_answer_found_not_found_and_cannot_be_known() -> None:
    found = answers(judge(stages()))
    tokens = found["PromptTokensDisagree"]
    assert (tokens.answer, tokens.severity) == ("Found", "Suspect")
    assert "2052" in tokens.sentence
    assert found["ChunksAreNotTokens"].answer == "NotFound"
    unknown = found["StreamTruncated"]
    assert list(unknown.needed or ()) == [Input.STREAM_ENDS]


def test_chunks_of_several_tokens_are_found() -> None:
    def joined(record: dict[str, Any]) -> None:
        record["metrics"]["inter_chunk_latency"]["value"] = [20.0] * 4

    found = answers(judge(stages(of_records=joined)))["ChunksAreNotTokens"]
    assert (found.answer, found.severity) == ("Found", "Note")


def test_answers_shorter_than_asked_are_found() -> None:
    def short(record: dict[str, Any]) -> None:
        record["metrics"]["usage_completion_tokens"]["value"] = 15

    found = answers(judge(stages(of_records=short)))["OutputTooShort"]
    assert found.severity == "Invalid"


def test_without_records_the_remedy_names_their_file() -> None:
    (load_point,) = judge(read("aiperf", summary=text_of(SUMMARY))).load_points
    found = {each.code.value: each for each in load_point.answers}
    needed = found["ConcurrencyNotReached"].needed or {}
    assert "profile_export.jsonl" in needed[Input.TIMES]
    assert found["RequestsFailed"].answer == "NotFound"


def test_failures_are_found_with_their_status() -> None:
    def failing(record: dict[str, Any]) -> None:
        if record["metadata"]["session_num"] < 4:
            record["error"] = {"code": 429, "message": "slow down"}
            record["metrics"] = {}

    def counted(summary: dict[str, Any]) -> None:
        summary["request_count"]["avg"] = 36
        summary["error_request_count"] = {"unit": "requests", "avg": 4}

    found = answers(judge(stages(counted, failing)))
    assert "4 of 40" in found["RequestsFailed"].sentence
    assert found["RequestsRejected"].answer == "Found"


def test_warm_up_and_what_was_cut_off_are_left_out() -> None:
    def changed(record: dict[str, Any]) -> None:
        number = record["metadata"]["session_num"]
        if number < 4:
            record["metadata"]["benchmark_phase"] = "warmup"
        if number == 39:
            record["metadata"]["was_cancelled"] = True

    (stage,) = stages(of_records=changed)
    assert 30 <= len(stage.requests.ok) <= 35


@pytest.mark.parametrize(
    ("change", "load"),
    [
        (
            phase(type="poisson", rate=8),
            RateLoad(requests_per_second="8"),
        ),
        (
            phase(type="constant", rate=8, concurrency=16),
            RateLoad(
                requests_per_second="8", burstiness="1000", max_concurrency=16
            ),
        ),
        (
            phase(type="gamma", rate=0.5, smoothness=2),
            RateLoad(requests_per_second="0.5", burstiness="2"),
        ),
        (phase(type="fixed_schedule"), None),
        (phase(type="poisson", rate_series=[[0, 1]]), None),
    ],
    ids=["poisson", "constant", "gamma", "schedule", "series"],
)
def test_a_phase_is_a_load(change: Change, load: object) -> None:
    (stage,) = stages(change)
    assert stage.load == load
    assert bool(stage.load_unknown) == (load is None)


HOSTILE: dict[str, tuple[Change | None, Change | None, str]] = {
    "no figures": (lambda s: s.pop("request_count"), None, "request_count"),
    "no requests": (
        lambda s: s["request_count"].update(avg=0),
        lambda r: r["metadata"].update(benchmark_phase="warmup"),
        "has no requests",
    ),
    "no users": (phase(type="concurrency", concurrency=0), None, "concurrency"),
    "another unit": (
        None,
        lambda r: r["metrics"]["request_latency"].update(unit="s"),
        "metrics.request_latency.unit",
    ),
    "a negative gap": (
        None,
        lambda r: r["metrics"]["inter_chunk_latency"].update(value=[-1]),
        "metrics.inter_chunk_latency.value[0]",
    ),
    "centuries": (
        None,
        lambda r: r["metadata"].update(
            request_start_ns=r["metadata"]["session_num"] * 10**18
        ),
        "its requests span",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_file_and_key(name: str) -> None:
    change, of_records, words = HOSTILE[name]
    with pytest.raises(Unreadable, match=r"^(summary|records): ") as error:
        judge(stages(change, of_records))
    assert words in str(error.value)


def test_records_alone_lack_the_load() -> None:
    with pytest.raises(Unreadable, match="profile_export_aiperf"):
        read("aiperf", records=records())


def test_tokens_without_measure_are_refused_and_sums_of_them_too() -> None:
    def changed(record: dict[str, Any]) -> None:
        record["metrics"]["input_sequence_length"]["value"] = 10**9

    with pytest.raises(Unreadable):
        judge(
            read(
                "aiperf",
                records=b"\n".join([records(changed)] * 30),
                summary=text_of(SUMMARY),
            )
        )


def test_lines_of_next_to_nothing_are_counted_before_they_are_read() -> None:
    with pytest.raises(Unreadable, match="3000000 lines"):
        read("aiperf", records=b"1\n" * 3_000_000, summary=text_of(SUMMARY))
