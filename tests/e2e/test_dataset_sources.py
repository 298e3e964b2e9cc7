"""Datasets from everywhere they can be, read by the real client: every row is accounted for, and
what can't be read takes no GPU."""

from collections.abc import Iterator
from typing import Any

import pytest
from e2e.conftest import in_a_namespace
from kit import dataset_files as files
from kit.kubectl import RUN, Namespace, Object
from kit.runs import (
    children_selector,
    condition,
    finished,
    is_finished,
    simulated_run,
)
from kit.watching import Watch

SEATS = 2
"""The server answers two at a time, in 40 + 20 x 5 = 140 ms; with three users each waits another 70
ms for the first token."""
TTFT_LIMIT_MS = 80
SERVER = ("--sim-ttft-ms=40", "--sim-tpot-ms=5", f"--max-num-seqs={SEATS}")


@pytest.fixture(scope="module")
def shelf(operator: Namespace) -> Iterator[Namespace]:
    """A namespace that has the files."""
    with in_a_namespace() as namespace:
        files.put_everywhere(namespace)
        yield namespace


def workload(
    name: str, dataset: dict[str, Any], *, requests: int = 8
) -> dict[str, Any]:
    return {
        "name": name,
        "dataset": dataset,
        "load": {"concurrencies": [SEATS]},
        "requests": requests,
    }


def custom(file: dict[str, Any]) -> dict[str, Any]:
    return {"custom": {"file": file}}


def texts(file: dict[str, Any], column: str, **more: Any) -> dict[str, Any]:
    return {"texts": {"file": file, "column": column, **more}}


def share_gpt(file: dict[str, Any]) -> dict[str, Any]:
    return {"shareGPT": {"file": file, "outputTokens": 6}}


# ---- what can be read
# ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def status(shelf: Namespace) -> Object:
    """Of one run with a workload from each source, and a search."""
    search = {"search": {"axis": "Concurrency", "from": "1", "to": "8"}}
    packed = texts(
        files.ON_CLAIM,
        "review",
        textsPerPrompt=2,
        duplicate=4,
        instruction="Good or bad?",
    )
    workloads = [
        workload("claim", packed, requests=16),
        workload("url", custom(files.AT_URL)),
        workload("store", share_gpt(files.in_store()), requests=6),
        workload(
            "map",
            texts(
                files.IN_CONFIG_MAP, "note", format="JSONL", outputTokensPerText=3
            ),
        ),
        {
            "name": "highest",
            "dataset": {"random": {"inputTokens": 64, "outputTokens": 21}},
            "load": search,
            # Enough for a p90 that is Met or Missed with a third of the error: a search confirms
            # three loads.
            "requests": 120,
        },
    ]
    objectives = [
        {"metric": "TTFT", "percentile": "90", "maxMilliseconds": TTFT_LIMIT_MS}
    ]
    shelf.apply(
        simulated_run(
            "sources", args=SERVER, workloads=workloads, objectives=objectives
        )
    )
    run = finished(shelf, "sources", timeout_seconds=240)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    found: Object = run["status"]
    return found


@pytest.mark.timeout(300)
def test_every_row_of_every_source_is_accounted_for(status: Object) -> None:
    # A stage of 16 requests, each prompt four times, two texts to a prompt: 8 rows.
    expected = {
        "claim": (
            "/films/reviews.csv",
            "reviews.csv",
            14,
            8,
            {"EmptyText": 1, "RepeatsEarlierRow": 1},
        ),
        "url": (
            f"{files.SERVER}/files/questions.jsonl",
            "questions.jsonl",
            10,
            8,
            {},
        ),
        "store": (
            f"s3://{files.BUCKET}/{files.KEY}",
            "talks.json",
            9,
            6,
            {"FewerThanTwoTurns": 1},
        ),
        "map": ("/shelf/notes.jsonl", "notes.jsonl", 11, 8, {}),
    }
    assert {told["name"] for told in status["datasets"]} == set(expected)
    for told in status["datasets"]:
        source, file, read, used, dropped = expected[told["name"]]
        assert told["source"].endswith(source)
        assert told["sha256"] == files.sha256(file)
        assert (
            told["rowsRead"],
            told["rowsUsed"],
            told.get("rowsDropped", {}),
        ) == (
            read,
            used,
            dropped,
        )
    assert files.TOKEN not in str(status)
    assert files.SECRET not in str(status)


def test_what_was_asked_of_each_was_answered_and_only_declared_repeats_were_cached(
    status: Object,
) -> None:
    rows = {
        row["workload"]: row
        for row in status["results"]
        if row["workload"] != "highest"
    }
    done = {
        name: (row["metrics"]["completed"], row["metrics"]["total_output_tokens"])
        for name, row in rows.items()
    }
    # Of the ten questions eight are taken, of 4 to 6 tokens each.
    assert 8 * 4 < done["url"][1] < 8 * 6
    assert done == {
        "claim": (16, 16 * 2),
        "url": (8, done["url"][1]),
        "store": (6, 6 * 6),
        "map": (8, 8 * 3),
    }
    hits = {name: row["roles"][0]["prefixHitPercent"] for name, row in rows.items()}
    assert hits.pop("claim") > 20
    assert set(hits.values()) == {0}
    codes = {finding["code"] for finding in status["findings"]}
    assert "PrefixCacheContaminated" not in codes
    assert "WindowTooShort" in codes, (
        "some requests in a second or two are no measurement, whatever they say"
    )


def test_the_search_beside_them_finds_how_many_are_served_at_a_time(
    status: Object,
) -> None:
    (found,) = status["searches"]
    assert (found["workload"], found["outcome"]) == ("highest", "Bracketed"), found
    assert (found["lower"], found["upper"], found["upperOutcome"]) == (
        str(SEATS),
        str(SEATS + 1),
        "Missed",
    ), found
    assert {row["loadPoint"] for row in status["results"]} >= {
        f"highest/concurrency={users}" for users in (1, 2, 3, 4)
    }


# ---- what can't
# ------------------------------------------------------------------------------------------------------

BAD = {
    "leads-to-a-page": (
        custom({"url": f"{files.SERVER}/moved?token={files.TOKEN}"}),
        "DatasetInvalid",
        (f"{files.SERVER}/moved (redirected to {files.SERVER}/login)", "HTML page"),
    ),
    "broken-line": (
        custom({"url": f"{files.SERVER}/files/broken.jsonl"}),
        "DatasetInvalid",
        (f"{files.SERVER}/files/broken.jsonl, line 11, column 1",),
    ),
    "wrong-column": (
        texts(files.ON_CLAIM, "reviews"),
        "DatasetInvalid",
        (
            'films/reviews.csv, line 1: there is no column "reviews"; the header has "id", "review"',
        ),
    ),
    "wrong-keys": (
        share_gpt(files.in_store(secret="no-store")),
        "DatasetNotFound",
        (f"s3://{files.BUCKET}/{files.KEY} answered 403",),
    ),
    "no-secret": (
        share_gpt(files.in_store(secret="absent")),
        "DatasetNotFound",
        (f"s3://{files.BUCKET}/{files.KEY}", "AWS_SECRET_ACCESS_KEY"),
    ),
    "no-claim": (
        custom({"pvc": {"claimName": "absent", "path": "chat.jsonl"}}),
        "StartupDeadlineExceeded",
        ('persistentvolumeclaim "absent" not found', "startupDeadlineSeconds"),
    ),
}
SPECS: dict[str, dict[str, Any]] = {
    **{
        name: {"workloads": [workload("chat", dataset)]}
        for name, (dataset, _, _) in BAD.items()
    },
    "bad-template": {
        "chatTemplate": {"inline": "{% for m in messages %}{{ m.content }}"}
    },
}
# A claim that is missing may still be made; so long is waited for it.
SPECS["no-claim"]["startupDeadlineSeconds"] = 20
EXPECTED = {name: (reason, words) for name, (_, reason, words) in BAD.items()}
EXPECTED["bad-template"] = "ChatTemplateInvalid", ("chatTemplate", "endfor")


@pytest.mark.timeout(200)
def test_what_cannot_be_read_is_named_before_a_server_is_made(
    shelf: Namespace,
) -> None:
    ended: dict[str, Object] = {}
    with Watch(shelf, RUN, "deployments") as watch:
        shelf.apply(*(simulated_run(name, **spec) for name, spec in SPECS.items()))
        for found in watch.news(seconds=150):
            if (
                found["kind"] == "BenchmarkRun"
                and found["metadata"]["name"] in SPECS
                and is_finished(found)
            ):
                ended[found["metadata"]["name"]] = found
            if ended.keys() == SPECS.keys():
                break
        deployments = {name for kind, name in watch.uids if kind == "Deployment"}
    assert {
        name: condition(run, "Failed").get("reason") for name, run in ended.items()
    } == {name: reason for name, (reason, _) in EXPECTED.items()}
    for name, (_, words) in EXPECTED.items():
        message = ended[name]["status"]["message"]
        assert all(word in message for word in words), f"{name}: {message}"
        assert ended[name]["status"].get("scheduledTime") is None
        assert not [each for each in deployments if name in each]
        assert (
            shelf.list("deployments", selector=children_selector(ended[name])) == []
        )
        assert files.TOKEN not in str(ended[name]["status"])
