"""A run on half a screen, at its edges: what nobody knows is left out, and nothing is said
twice."""

from datetime import timedelta
from typing import Any

import pytest
from benchrun.api import (
    BenchmarkRunStatus,
    Bottleneck,
    Change,
    ClientStatus,
    ComparedLoadPoint,
    ComparedRun,
    Comparison,
    Condition,
    Finding,
    ObjectiveResult,
    ServerStatus,
    Startup,
    Truncated,
)
from benchrun.observe import run_of
from benchrun.report.run_settings import kv_cache_text, settings_rows
from benchrun.report.run_summary import (
    Summary,
    missing_sentences,
    run_summary,
    startup_text,
    steps,
)
from unit.golden_messages import golden
from unit.plan.specs import Json, spec_body, workload
from unit.report.going_on import BEGIN, at, ended, run_body, running
from unit.report.statuses import result

NOW = BEGIN + timedelta(hours=5)


def summary(status: BenchmarkRunStatus, **spec: Any) -> Summary:
    body = run_body(status)
    return run_summary(
        run_of({**body, "spec": {**body["spec"], **spec}}), status, now=NOW
    )


def fact(name: str, status: BenchmarkRunStatus, **spec: Any) -> str | None:
    return dict(summary(status, **spec).facts).get(name)


def server(**fields: Any) -> BenchmarkRunStatus:
    return ended(servers=[ServerStatus(engine="VLLM", role="server", **fields)])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"version": "0.32.0"},
        {"gpus": 1},
        {"gpus": 1, "gpu": "H100"},
        {"gpus": 2, "gpu": "H100"},
        {"node": "n1", "gpu": "H100"},
        {"kv_cache_tokens": 0},
        {"seconds_to_ready": 0.0},
        {"seconds_to_ready": 125.2},
        {"restarts": 0},
        {"restarts": 2},
    ],
)
def test_a_server_in_a_line(fields: Json) -> None:
    golden(fact("server", server(**fields)))


def test_the_image_that_really_ran_is_reported_by_its_digest() -> None:
    assert fact("digest", server(image_digest="vllm@sha256:1")) == "vllm@sha256:1"
    assert fact("digest", server()) is None


@pytest.mark.parametrize(
    ("expected", "client"),
    [
        ("vllm 0.32.0", ClientStatus(engine="vllm", engine_version="0.32.0")),
        ("vllm", ClientStatus(engine="vllm")),
        (
            "vllm 0.32.0, 4 processes",
            ClientStatus(engine="vllm", engine_version="0.32.0", shards=4),
        ),
        (None, ClientStatus(image="client:1")),
        (None, None),
    ],
)
def test_the_client_is_its_engine(
    expected: str | None, client: ClientStatus | None
) -> None:
    assert fact("client", ended(client=client)) == expected


@pytest.mark.parametrize(
    ("name", "expected", "spec"),
    [
        ("workload", "chat", {"repeats": 1}),
        ("workload", "chat, each load point 2 times", {"repeats": 2}),
        ("workload", "chat", {"repeats": "2x"}),
        ("workloads", "a, b", {"workloads": [workload("a"), workload("b")]}),
        (
            "arguments",
            "--seed=1 -x",
            {"server": {"image": "i", "args": ["--seed=1", "-x"]}},
        ),
        ("arguments", None, {"server": {"image": "i", "args": []}}),
        ("arguments", None, {"server": {"image": "i", "args": "--seed=1"}}),
        ("image", None, {"server": None, "endpoint": {"url": "http://x"}}),
        ("endpoint", "http://x", {"server": None, "endpoint": {"url": "http://x"}}),
        ("endpoint", None, {}),
        ("workload", None, {"workloads": []}),
        ("model", None, {"model": None}),
    ],
)
def test_the_summary_shows_the_requested_load(
    name: str, expected: str | None, spec: Json
) -> None:
    assert fact(name, running(), **spec) == expected


def test_a_run_that_was_not_looked_at_says_so() -> None:
    new = summary(BenchmarkRunStatus())
    assert new.word == "Pending"
    assert "time" not in dict(new.facts)
    assert "stages" not in dict(new.facts)
    golden(new.sentence)


def test_without_a_namespace_none_is_named() -> None:
    body = run_body(ended(log_tail="x", results=[result()]))
    del body["metadata"]["namespace"]
    status = BenchmarkRunStatus.model_validate(body["status"])
    expected = run_summary(run_of(body), status, now=NOW)
    assert (expected.title, expected.look_further) == (
        "chat",
        ("benchrun report chat", "benchrun logs chat"),
    )


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ("1 met", ["Met"]),
        ("2 met, 1 missed", ["Missed", "Met", "Met"]),
        ("1 missed, 1 inconclusive", ["Inconclusive", "Missed"]),
        (None, []),
    ],
)
def test_objectives_are_counted(expected: str | None, words: list[str]) -> None:
    objectives = [
        ObjectiveResult.model_validate(
            {
                "metric": "TTFT",
                "percentile": "99",
                "max_milliseconds": 1,
                "measured_milliseconds": 1,
                "outcome": word,
            }
        )
        for word in words
    ]
    rows = [
        result(f"c/rate={n}", axis="RequestRate", objectives=[each])
        for n, each in enumerate(objectives)
    ]
    assert fact("objectives", ended(results=rows)) == expected


def compared(
    *changes: tuple[str, float | None], gate: Any = None
) -> BenchmarkRunStatus:
    made = [
        Change(metric="MeanTTFT", change_percent=percent, word=word)
        for word, percent in changes
    ]
    load_points = [
        ComparedLoadPoint(load_point="a", changes=made[:1]),
        ComparedLoadPoint(load_point="b", changes=made[1:]),
    ]
    return ended(
        comparison=Comparison(
            baseline=ComparedRun(name="old"),
            outcome="Mixed",
            message="m",
            load_points=load_points,
            gate=gate,
        )
    )


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("", ()),
        ("; most: MeanTTFT -12.0 %", (("Better", 3.0), ("Worse", -12.0))),
        (
            "; most: MeanTTFT +3.0 %",
            (("Better", 3.0), ("NoDetectableDifference", -12.0)),
        ),
        ("", (("NoDetectableDifference", 99.0), ("Unknown", None))),
        ("; most: MeanTTFT +5.0 %", (("Worse", None), ("Worse", 5.0))),
        ("; most: MeanTTFT -", (("Worse", None),)),
    ],
)
def test_the_summary_shows_the_largest_change_with_a_verdict(
    expected: str, changes: tuple[tuple[str, float | None], ...]
) -> None:
    golden(fact("compared", compared(*changes)))


def test_the_summary_shows_the_gate() -> None:
    golden(fact("compared", compared(gate="Regressed")))


def test_a_comparison_shows_before_and_after() -> None:
    waiting = Condition(
        type="NotRegressed",
        status="Unknown",
        reason="Measuring",
        message="3 repeats find 9.9 %",
    )
    golden(fact("power", ended(conditions=(waiting,))))
    comparison = Comparison(
        baseline=ComparedRun(name="old"),
        outcome="Equivalent",
        message="m",
        detectable_percent=4.2,
    )
    assert "a change of 4.2 % in" in (
        fact("power", ended(comparison=comparison)) or ""
    )


def test_lists_that_were_cut_are_reported() -> None:
    cuts = [
        Truncated(field=name, included=1, total=9)
        for name in ("results", "timeline")
    ]
    expected = [
        text for name, text in summary(ended(truncated=cuts)).facts if name == "cut"
    ]
    golden(*expected)


def found(*severities: str) -> BenchmarkRunStatus:
    made = [
        Finding.model_validate(
            {
                "code": f"Code{n}",
                "severity": severity,
                "count": 1,
                "worst_stage": "s",
                "sentence": "It is.",
            }
        )
        for n, severity in enumerate(severities)
    ]
    return ended(findings=made)


@pytest.mark.parametrize(
    ("expected", "severities"),
    [
        (None, ()),
        (None, ("Note", "Note")),
        ("Code0", ("Suspect",)),
        ("Code1", ("Note", "Invalid")),
        ("Code0, Code1, Code2, Code3, Code4, Code5", ("Invalid",) * 6),
        ("Code0, Code1, Code2, Code3, Code4, Code5 +2", ("Invalid",) * 8),
    ],
)
def test_findings_are_named_where_one_costs_a_verdict(
    expected: str | None, severities: tuple[str, ...]
) -> None:
    assert fact("findings", found(*severities)) == expected


@pytest.mark.parametrize("limits", [(), (None,), ("None",), (None, "None")])
def test_a_run_that_nothing_limits_has_no_limit(
    limits: tuple[str | None, ...],
) -> None:
    assert (
        fact("limit", ended(results=[limited(limit) for limit in limits])) is None
    )


def test_the_first_limit_is_reported_with_its_load_point() -> None:
    rows = [
        limited(None),
        limited("None"),
        limited("Compute", "a/rate=2"),
        limited("Client", "a/rate=3"),
    ]
    golden(fact("limit", ended(results=rows)))


def limited(limit: str | None, load_point: str = "a/rate=1") -> Any:
    bottleneck = (
        Bottleneck.model_validate({"limit": limit, "sentence": f"{limit} it is"})
        if limit is not None
        else None
    )
    return result(load_point, axis="RequestRate", bottleneck=bottleneck)


# The steps of a run, its start in words, and what it did not keep.


def timed_steps(
    status: BenchmarkRunStatus, *, after: float = 100
) -> list[tuple[str, str, float | None]]:
    return [
        (s.name, s.state, s.seconds)
        for s in steps(status, now=BEGIN + timedelta(seconds=after))
    ]


def test_each_part_begins_when_the_one_before_ended() -> None:
    assert timed_steps(running()) == [
        ("client", "Done", 10),
        ("node", "Done", 2),
        ("server", "Done", 48),
        ("warm-up", "Done", 10),
        ("stages", "UnderWay", 30),
    ]


def test_the_step_under_way_grows() -> None:
    loading = running(server_ready_time=None, start_time=None)
    assert timed_steps(loading, after=50)[2:] == [
        ("server", "UnderWay", 38), ("warm-up", "ToCome", None), ("stages", "ToCome", None)
    ]  # fmt: skip


def test_before_anything_happened() -> None:
    assert [state for _, state, _ in timed_steps(BenchmarkRunStatus())] == [
        "ToCome"
    ] * 5
    assert timed_steps(BenchmarkRunStatus(accepted_time=at(0)), after=3)[0] == (
        "client",
        "UnderWay",
        3,
    )


def test_an_endpoint_has_no_node() -> None:
    assert [name for name, _, _ in timed_steps(running(scheduled_time=None))] == [
        "client",
        "server",
        "warm-up",
        "stages",
    ]


def test_when_the_run_has_ended_the_client_is_done_though_nobody_wrote_down_when() -> (
    None
):
    assert timed_steps(ended())[:3] == [
        ("client", "Done", None),
        ("node", "Done", None),
        ("server", "Done", 48),
    ]
    assert timed_steps(ended())[-1] == ("stages", "Done", 130)


def test_clocks_that_differ_make_no_negative_time() -> None:
    assert timed_steps(running(), after=60)[-1] == ("stages", "UnderWay", 0)


WHOLE = Startup(
    pod_seconds=40.0,
    image_pull_seconds=31.25,
    download_seconds=80.0,
    load_seconds=9.375,
    compile_seconds=22.0,
    warm_up_seconds=15.4,
)


@pytest.mark.parametrize(
    ("line", "ready", "startup"),
    [
        (
            "pod 40 s (image 31 s), download 1 min 20 s, load 9.4 s, compile 22 s, warm-up 15 s, "
            "other 18 s",
            185.0,
            WHOLE,
        ),
        (
            "pod 2 s (image there), load 0.02 s",
            2.3,
            Startup(pod_seconds=2.0, image_pull_seconds=0.0, load_seconds=0.02),
        ),
        ("pod 2 s, other 0.5 s", 2.5, Startup(pod_seconds=2.0)),
        ("load 3 s", 60.0, Startup(load_seconds=3.0)),
        ("pod 3 s, load 4 s", 6.5, Startup(pod_seconds=3.0, load_seconds=4.0)),
        ("pod 3 s", None, Startup(pod_seconds=3.0)),
        ("pod 3 s, claim warm", 3.0, Startup(pod_seconds=3.0, model="Warm")),
        (
            "pod 3 s, compile cache cold",
            3.0,
            Startup(pod_seconds=3.0, compiled="Cold"),
        ),
        ("", 60.0, Startup()),
        ("", 60.0, None),
    ],
)
def test_a_start_in_a_line(
    line: str, ready: float | None, startup: Startup | None
) -> None:
    assert (
        startup_text(
            ServerStatus(
                engine="VLLM",
                role="server",
                seconds_to_ready=ready,
                startup=startup,
            )
        )
        == line
    )


def test_startup_phases_stand_below_the_server() -> None:
    server = ServerStatus(
        engine="VLLM", role="server", seconds_to_ready=185.0, startup=WHOLE
    )
    ran = ended(servers=[server])
    assert dict(run_summary(run_of(run_body(ran)), ran, now=BEGIN).facts)[
        "start"
    ] == startup_text(server)


@pytest.mark.parametrize(
    ("lost", "sentence"),
    [
        (1, "judged by 2 of its 3 repeats, since the other records are not kept"),
        (2, "judged by 1 of its 3 repeats, since the other records are not kept"),
        (3, "not judged, since none of its records is kept"),
        (4, "not judged, since none of its records is kept"),
    ],
)
def test_how_much_of_a_load_point_is_left(lost: int, sentence: str) -> None:
    stored = BenchmarkRunStatus(
        results=[result("a/rate=1", axis="RequestRate", repeats=3)]
    )
    assert missing_sentences(stored, {"a/rate=1": lost}) == [
        f"a/rate=1: {sentence}"
    ]


def test_a_missing_load_point_has_an_unknown_repeat_count() -> None:
    assert missing_sentences(BenchmarkRunStatus(), {"a/rate=1": 1}) == [
        "a/rate=1: not all of its records are kept"
    ]


def test_nothing_is_missing() -> None:
    assert missing_sentences(BenchmarkRunStatus(results=[result()]), {}) == []


def test_a_timeline_that_was_cut_is_reported_last_and_no_other_list_is() -> None:
    cut = [
        Truncated(field=field, included=place, total=place + 3)
        for place, field in enumerate(("results", "findings", "timeline"))
    ]
    sentences = missing_sentences(
        BenchmarkRunStatus(truncated=cut), {"a/rate=1": 1}
    )
    assert sentences == [
        "a/rate=1: not all of its records are kept",
        "2 of 5 chunks of the timeline were kept: samples of the servers are missing, and "
        "findings that rest on them may differ",
    ]


# Which settings are the server's and which the client's, and what the server reported of its KV
# cache.

ARGS = [
    "--max-num-seqs=256",
    "--no-enable-prefix-caching",
    "--max-model-len",
    "16384",
]


def test_each_setting_names_its_side_and_its_field() -> None:
    reported = {"gpu_memory_utilization": "0.9", "enable_prefix_caching": "True"}
    status = BenchmarkRunStatus(
        servers=[
            ServerStatus(engine="VLLM", role="server", args=ARGS, reported=reported)
        ]
    )
    spec = spec_body(
        workloads=[workload("mix", requests=128, ignoreEOS=False)], repeats=2
    )
    rows = {(row[0], row[3]): row[1:3] for row in settings_rows(spec, status).rows}
    assert rows["max-num-seqs", "server.args"] == ("256", "server")
    assert rows["max-model-len", "server.args"] == ("16384", "server")
    assert rows["enable-prefix-caching", "server.args"] == ("false", "server")
    assert rows["gpu-memory-utilization", "server.args"] == (
        "0.9 (reported)",
        "server",
    )
    assert rows["max-num-batched-tokens", "server.args"] == ("default", "server")
    assert rows["requests", "workloads[mix].requests"] == ("128", "client")
    assert rows["ignoreEOS", "workloads[mix].ignoreEOS"] == ("false", "client")
    assert (rows["load", "workloads[mix].load"][1], rows["repeats", "repeats"]) == (
        "client",
        ("2", "client"),
    )
    assert rows["cachePolicy", "measurement.cachePolicy"] == ("default", "client")


def test_a_spec_of_nobody_knows_what_has_no_settings_and_does_no_harm() -> None:
    hostile = {"workloads": [3, {"name": {}, "load": [[{}]]}], "measurement": "?"}
    assert all(
        len(row) == 4 for row in settings_rows(hostile, BenchmarkRunStatus()).rows
    )


def test_a_token_of_the_kv_cache_takes_what_was_available_over_the_tokens() -> None:
    """Hermes-3-Llama-3.1-8B on one H800: 2 x 32 layers x 8 heads x 128 x 2 bytes = 128 KiB a
    token."""
    server = ServerStatus(
        engine="VLLM",
        role="server",
        kv_cache_tokens=416_304,
        reported={"available_kv_cache_gib": "50.83, 50.82"},
    )
    assert (
        kv_cache_text(server)
        == "KV cache 416304 tokens in 50.8 GiB a GPU, 128 KiB a token and GPU"
    )
    two = server.model_copy(
        update={"kv_cache_tokens": 832_608, "args": ["--data-parallel-size=2"]}
    )
    assert (
        kv_cache_text(two)
        == "KV cache 832608 tokens in 50.8 GiB a GPU, 128 KiB a token and GPU"
    )
    by_variable = two.model_copy(update={"args": ["--data-parallel-size=$(DP)"]})
    assert (
        kv_cache_text(by_variable)
        == "KV cache 832608 tokens in 50.8 GiB a GPU, 64 KiB a token and GPU"
    )
    bare = server.model_copy(update={"reported": {"available_kv_cache_gib": "?"}})
    assert kv_cache_text(bare) == "KV cache 416304 tokens"
    assert kv_cache_text(ServerStatus(engine="VLLM", role="server")) == ""


def test_memory_that_was_given_stands_for_what_vllm_did_not_measure() -> None:
    given = ServerStatus(
        engine="VLLM",
        role="server",
        kv_cache_tokens=1_048_576,
        reported={"kv_cache_memory_bytes": "1073741824"},
    )
    assert (
        kv_cache_text(given)
        == "KV cache 1048576 tokens in 1 GiB a GPU, 1 KiB a token and GPU"
    )
    none = given.model_copy(update={"reported": {"kv_cache_memory_bytes": "None"}})
    assert kv_cache_text(none) == "KV cache 1048576 tokens"


def test_settings_say_what_came_from_the_platform() -> None:
    status = BenchmarkRunStatus(
        servers=[
            ServerStatus(
                engine="VLLM", role="server", defaults={"nodeSelector": "{a: b}"}
            )
        ],
        client=ClientStatus(defaults={"env.A": "1"}),
    )
    rows = settings_rows(spec_body(), status).rows
    assert ("nodeSelector", "{a: b}", "server", "the platform's defaults") in rows
    assert ("env.A", "1", "client", "the platform's defaults") in rows
