"""Data that can't be used ends the real client before it is ready: no server is ever made for
it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from benchrun_client.contract import Data, DataFile
from benchrun_client.contract.datasets import CustomData, TextsData, TimedTraceData
from client.processes import TINY_MODEL, client
from unit.client.plans import plan, sharegpt, stage


class LeadingToALogin(BaseHTTPRequestHandler):
    """A web server that wants people to log in first."""

    def do_GET(self) -> None:
        if self.path == "/login":
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(b"<!DOCTYPE html><html>Who are you?</html>")
        else:
            self.send_response(302)
            self.send_header("Location", "/login")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def website() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), LeadingToALogin) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def written(folder: Path, name: str, content: str | bytes) -> DataFile:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return DataFile(path=str(file))


def texts(file: DataFile) -> TextsData:
    return TextsData(
        file=file,
        format="CSV",
        column="review",
        texts_per_prompt=1,
        output_tokens_per_text=1,
        duplicate=1,
    )


def huge(folder: Path) -> DataFile:
    with (folder / "huge.jsonl").open("wb") as file:
        file.truncate(5 * 10**9)
    return DataFile(path=str(folder / "huge.jsonl"))


def bad_data(folder: Path, website: str) -> dict[str, tuple[str, Data]]:
    """What is told, and of what."""
    lines = [
        json.dumps({"timestamp": at, "input_length": 9, "output_length": 2})
        for at in (5, 4)
    ]
    return {
        "r.csv is empty": ("DatasetInvalid", texts(written(folder, "r.csv", ""))),
        'no column "review"; the header has "text"': (
            "DatasetInvalid",
            texts(written(folder, "c.csv", "text\na\n")),
        ),
        "u.csv, line 2: byte 1": (
            "DatasetInvalid",
            texts(written(folder, "u.csv", b"review\n\xff\n")),
        ),
        "b.jsonl, line 2, column 1": (
            "DatasetInvalid",
            CustomData(
                file=written(
                    folder,
                    "b.jsonl",
                    '{"prompt": "a", "output_tokens": 1}\nnonsense\n',
                )
            ),
        ),
        "t.jsonl, line 2": (
            "DatasetInvalid",
            TimedTraceData(
                file=written(folder, "t.jsonl", "\n".join(lines)),
                unit="Seconds",
                block_tokens=8,
            ),
        ),
        "huge.jsonl has 5,000,000,000 bytes": (
            "DatasetInvalid",
            CustomData(file=huge(folder)),
        ),
        "/rows (redirected to": (
            "DatasetInvalid",
            CustomData(file=DataFile(url=f"{website}/rows")),
        ),
        "absent.json": ("DatasetNotFound", sharegpt(str(folder / "absent.json"))),
    }


@pytest.mark.parametrize("number", range(8))
def test_the_fault_is_named_and_the_client_ends_before_it_is_ready(
    tmp_path: Path, website: str, number: int
) -> None:
    told, (reason, data) = list(bad_data(tmp_path, website).items())[number]
    broken = plan(
        stage(data=data),
        target={"base_url": "http://nobody.invalid", "tokenizer": str(TINY_MODEL)},
    )
    with client(tmp_path, broken) as running:
        records, progress = running.pull_all()
        assert running.process.wait() == 2
        failure = running.termination_message()
    assert (records, progress.failure) == ([], failure)
    assert failure.reason == reason
    assert told in failure.message
