"""Filling a claim with the hub's own library, from a small hub that counts what it hands out."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import ModelCache
from client.processes import (
    CLIENT_ROOT,
    TINY_MODEL,
    VLLM_PYTHON,
    client,
    free_port,
    simulator,
)
from kit.model_hub import Shelf, Trouble, serving
from kit.polling import polling
from unit.client.plans import plan

WEIGHTS = 2_000_000
FILES = {
    "config.json": b'{"architectures": ["Tiny"]}',
    "model.safetensors": os.urandom(WEIGHTS),
    "pytorch_model.bin": b"the same in another format",
    "sub/tokenizer.json": b"{}",
}
USED_BYTES = sum(len(FILES[n]) for n in FILES if n != "pytorch_model.bin")
OTHER_COMMIT = "0123456789abcdef" * 2 + "01234567"
SCRIPT = """
import json, resource, sys
from benchrun_client.contract import ModelCache
from benchrun_client.failures import RunFailure
from benchrun_client.hub import Hub
from benchrun_client.model_cache import Filling, FillPace

asked = json.load(sys.stdin)
if asked["file_bytes"]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (asked["file_bytes"],) * 2)
pace = FillPace(try_again=(0.1,), look=0.1, report=0.2, stale=asked["stale"])
shown = []
def show(files):
    shown.append(files.model_dump())
    print(files.state, file=sys.stderr, flush=True)
cache = ModelCache(claim="models", directory=asked["directory"], repository=asked["repository"],
                   revision=asked["revision"])
try:
    found = {"folder": str(Filling(cache, Hub(), show, pace).fill())}
except RunFailure as failure:
    found = {"reason": failure.reason, "message": failure.message}
print(json.dumps({**found, "shown": shown}))
"""


@dataclass
class Claim:
    """A claim, the hub that it is filled from, and clients that fill it."""

    directory: Path
    hub: Shelf
    url: str
    environment: dict[str, str] = field(default_factory=dict)

    def start(
        self,
        *,
        revision: str | None = None,
        repository: str = "org/tiny",
        directory: str | None = None,
        stale: float = 60.0,
        file_bytes: int = 0,
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [VLLM_PYTHON, "-c", SCRIPT],
            env={
                **os.environ,
                "PYTHONPATH": str(CLIENT_ROOT),
                "HF_ENDPOINT": self.url,
                "HF_HOME": str(self.directory.parent / "home"),
                **self.environment,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        asked = {
            "directory": directory or str(self.directory),
            "repository": repository,
            "revision": revision,
            "stale": stale,
            "file_bytes": file_bytes,
        }
        assert process.stdin is not None
        process.stdin.write(json.dumps(asked))
        process.stdin.close()
        process.stdin = None
        return process

    def fill(self, **asked: Any) -> dict[str, Any]:
        return outcome(self.start(**asked))

    def markers(self) -> list[Path]:
        return [*self.directory.glob("benchrun/*/*.json*")]

    def halves(self) -> list[Path]:
        return [*self.directory.glob("**/*.incomplete")]


def outcome(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def states(found: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(each["state"] for each in found["shown"]))


@pytest.fixture
def claim(tmp_path: Path) -> Iterator[Claim]:
    hub = Shelf()
    hub.put(FILES)
    directory = tmp_path / "claim"
    directory.mkdir()
    with serving(hub) as url:
        yield Claim(directory, hub, url)


def test_a_claim_is_filled_once_and_then_serves_without_a_download(
    claim: Claim,
) -> None:
    commit = claim.hub.branches["main"]
    cold = claim.fill()
    last = cold["shown"][-1]
    assert states(cold) == ["Resolving", "Downloading", "Complete"]
    assert (last["start"], last["commit"]) == ("Cold", commit)
    assert last["done_bytes"] == last["total_bytes"] == USED_BYTES
    folder = Path(cold["folder"])
    assert folder.name == commit
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert not (folder / "pytorch_model.bin").exists()
    (marker,) = claim.markers()
    assert json.loads(marker.read_text())["files"] == {
        name: len(body) for name, body in FILES.items() if not name.endswith(".bin")
    }

    claim.hub.handed_out.clear()
    warm = claim.fill()
    assert (states(warm), warm["shown"][-1]["start"]) == (
        ["Resolving", "Complete"],
        "Warm",
    )
    assert warm["folder"] == cold["folder"]
    assert claim.hub.handed_out.total() == 0

    claim.hub.requests.clear()
    assert claim.fill(revision=commit)["shown"][-1]["start"] == "Warm"
    assert claim.hub.requests.total() == 0


def test_a_branch_that_moved_on_is_another_commit_beside_the_first(
    claim: Claim,
) -> None:
    first = claim.hub.branches["main"]
    claim.fill()
    second = claim.hub.put({**FILES, "config.json": b'{"architectures": []}'})
    claim.hub.handed_out.clear()
    assert Path(claim.fill()["folder"]).name == second
    assert claim.hub.handed_out["model.safetensors"] == 0  # The same blob.
    assert claim.fill(revision=first)["shown"][-1]["start"] == "Warm"


def test_of_two_at_once_one_downloads_and_both_are_right(claim: Claim) -> None:
    claim.hub.seconds_a_chunk = 0.1
    both = [claim.start(), claim.start()]
    found = [outcome(process) for process in both]
    assert found[0]["folder"] == found[1]["folder"]
    assert claim.hub.handed_out["model.safetensors"] == WEIGHTS
    assert sorted("Waiting" in states(each) for each in found) == [False, True]
    assert {each["shown"][-1]["start"] for each in found} == {"Cold"}


def test_a_killed_download_leaves_no_marker_and_the_next_client_completes_it(
    claim: Claim,
) -> None:
    claim.hub.seconds_a_chunk = 0.2
    process = claim.start()
    for _ in polling("a part of the weights", seconds=60):
        if claim.hub.handed_out["model.safetensors"]:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert claim.markers() == []
    assert claim.halves() != []
    claim.hub.seconds_a_chunk = 0
    found = claim.fill(stale=0.5)
    assert states(found)[-1] == "Complete"
    assert "Waiting" in states(found)
    assert claim.halves() == []


def test_half_a_file_is_completed_and_where_that_fails_it_is_said(
    claim: Claim,
) -> None:
    claim.hub.troubles = [Trouble("model.safetensors", half=True, times=1)]
    assert "folder" in claim.fill()
    second = claim.hub.put({**FILES, "model.safetensors": os.urandom(WEIGHTS)})
    claim.hub.troubles = [Trouble("model.safetensors", status=500)]
    found = claim.fill()
    assert found["reason"] == "HubUnavailable"
    assert any(each["problem"] for each in found["shown"])
    assert not any(second in marker.name for marker in claim.markers())
    assert claim.halves() == []


REFUSALS = [
    pytest.param(
        {"repository": "org/none"},
        None,
        "ModelNotFound",
        "model.name",
        id="no model",
    ),
    pytest.param(
        {"revision": "v9"},
        None,
        "ModelNotFound",
        "model.revision",
        id="no revision",
    ),
    pytest.param(
        {},
        Trouble("/resolve/", 403),
        "ModelGated",
        "tokenSecretRef",
        id="403",
    ),
    pytest.param(
        {},
        Trouble("/api/models", 429, {"Retry-After": "3600"}),
        "HubUnavailable",
        "3600 s",
        id="429 for an hour",
    ),
    pytest.param(
        {"file_bytes": 500_000}, None, "CacheClaimFull", "cacheClaim", id="full"
    ),
    pytest.param(
        {"directory": "/sys"},
        None,
        "CacheClaimReadOnly",
        "cacheClaim",
        id="read-only",
    ),
    pytest.param(
        {"directory": "/dev/null"},
        None,
        "CacheClaimFailed",
        "cacheClaim",
        id="no folder",
    ),
]


@pytest.mark.parametrize(("asked", "trouble", "reason", "named"), REFUSALS)
def test_what_cannot_be_mended_ends_the_run_in_seconds_with_field_and_remedy(
    claim: Claim,
    asked: dict[str, Any],
    trouble: Trouble | None,
    reason: str,
    named: str,
) -> None:
    claim.hub.troubles = [trouble] if trouble is not None else []
    found = claim.fill(**asked)
    assert found["reason"] == reason
    assert named in found["message"]
    assert claim.markers() == []
    assert claim.halves() == []


def test_a_gated_model_is_for_the_right_token_alone(claim: Claim) -> None:
    claim.hub.token = "hf_right"
    assert claim.fill()["reason"] == "ModelGated"
    claim.environment["HF_TOKEN"] = "hf_right"
    assert "folder" in claim.fill()


def test_another_commit_than_the_pinned_one_is_refused(claim: Claim) -> None:
    claim.hub.branches[OTHER_COMMIT] = claim.hub.branches["main"]
    found = claim.fill(revision=OTHER_COMMIT)
    assert found["reason"] == "CommitMismatch"
    assert claim.markers() == []


def test_a_hub_that_is_busy_is_asked_again(claim: Claim) -> None:
    claim.hub.troubles = [
        Trouble("/api/models", 429, {"Retry-After": "1"}, times=1)
    ]
    found = claim.fill()
    assert "folder" in found
    assert [each["problem"] for each in found["shown"] if each["problem"]] == [
        "it answers 429"
    ]


def test_a_hub_from_which_nothing_comes_is_told_while_the_library_retries(
    claim: Claim,
) -> None:
    # The library asks twice without a pause, and then waits a second.
    claim.hub.troubles = [Trouble("/resolve/", 503, times=4)]
    found = claim.fill()
    assert "folder" in found
    assert "no bytes come from the hub" in {
        each["problem"] for each in found["shown"]
    }
    assert found["shown"][-1]["problem"] is None


OF_A_CLIENT = """
import json, sys
from benchrun_client.contract import ModelCache, Target
from benchrun_client.model_cache import target_on_claim
from benchrun_client.tokenizer import load_tokenizer, longest_context

cache = ModelCache(claim="models", directory=sys.argv[1], repository="org/tiny")
asked = Target(engine=sys.argv[2], base_url="http://none", servers=1, served_model="org/tiny",
               tokenizer="org/tiny", cache=cache)
target = target_on_claim(asked, lambda files: None)
counter = load_tokenizer(target)
print(json.dumps([counter.commit, counter.count(["a b"], api="Completions"),
                  longest_context(target.tokenizer)]))
"""


@pytest.mark.parametrize(
    ("engine", "weights"), [("VLLM", ".safetensors"), ("LlamaCpp", ".gguf")]
)
def test_the_tokenizer_comes_from_the_claim_and_says_its_commit(
    claim: Claim, engine: str, weights: str
) -> None:
    """Beside it are the weights that the engine reads, and no others."""
    formats = {f"extra{each}": b"x" for each in (".safetensors", ".gguf", ".bin")}
    small = {
        path.name: path.read_bytes()
        for path in TINY_MODEL.iterdir()
        if path.suffix != ".safetensors"
    }
    commit = claim.hub.put({**small, **formats})
    done = subprocess.run(
        [VLLM_PYTHON, "-c", OF_A_CLIENT, str(claim.directory), engine],
        env={
            **os.environ,
            "PYTHONPATH": str(CLIENT_ROOT),
            "HF_ENDPOINT": claim.url,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    known, (tokens,), context = json.loads(done.stdout)
    assert known == commit
    assert tokens > 0
    taken = {path.name for path in claim.directory.glob("hub/*/snapshots/*/extra*")}
    assert taken == {f"extra{weights}"}
    assert context == json.loads((TINY_MODEL / "config.json").read_text()).get(
        "max_position_embeddings"
    )


def test_a_client_of_two_processes_fills_the_claim_once_and_measures(
    claim: Claim, tmp_path: Path
) -> None:
    weights = os.urandom(WEIGHTS)
    tiny = {path.name: path.read_bytes() for path in TINY_MODEL.iterdir()}
    commit = claim.hub.put({**tiny, "extra.safetensors": weights})
    port = free_port()
    cache = ModelCache(
        claim="models", directory=str(claim.directory), repository="org/tiny"
    )
    target = {
        "base_url": f"http://127.0.0.1:{port}",
        "tokenizer": "org/tiny",
        "cache": cache,
    }
    asked = plan(target=target)
    with (
        simulator(port=port),
        client(tmp_path / "pod", asked, shards=2, hub=claim.url) as running,
    ):
        (record,), progress = running.pull_all()
    assert claim.hub.handed_out["extra.safetensors"] == WEIGHTS
    assert progress.phase == "Done"
    assert progress.model is not None
    assert (progress.model.state, progress.model.commit) == ("Complete", commit)
    assert record.tokenizer_commit == commit
    assert record.plan_digest == asked.digest()
