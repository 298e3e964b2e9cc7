"""Archives in S3: a real server that checks signatures, and what the command reads from there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchrun.archive.contents import StoreError, folder_of, write_archive
from benchrun.archive.store import Store
from benchrun.cli.__main__ import main
from kit.local_servers import free_port, listening
from kit.tools import program
from unit.cli.finished_runs import finished_run

PLACE = "s3://results/benchrun"
RUN = finished_run()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An S3 server with one bucket, and the environment of a pod that may use it."""
    (tmp_path / "results").mkdir()
    port = free_port()
    environment = {
        "AWS_ACCESS_KEY_ID": "archive",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    account = ["--access", "archive", "--secret", "a-secret"]
    command = [program("versitygw"), "--port", f"127.0.0.1:{port}", *account]
    with listening([*command, "posix", str(tmp_path)], port):
        yield


def test_a_run_is_written_and_read_without_a_cluster(
    server: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(RUN.body)
    for _ in range(2):  # To write it once more does no harm.
        write_archive(RUN.body, RUN.config_maps, Store(PLACE).put)
    assert main(["report", "-f", f"{PLACE}/{folder}"]) == 0
    whole = capsys.readouterr().out
    assert "judged: Valid" in whole
    stored = tmp_path / "results" / "benchrun" / folder
    assert main(["report", "-f", str(stored)]) == 0
    assert capsys.readouterr().out == whole
    assert main(["judge", "-f", f"{PLACE}/{folder}/"]) == 0


def test_what_is_not_there_is_told(
    server: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "-f", f"{PLACE}/lab/none"]) == 1
    assert "index.json" in capsys.readouterr().err
    with pytest.raises(StoreError, match="NoSuchBucket"):
        Store("s3://another/benchrun").put("index.json", b"{}")


def test_a_wrong_secret_is_refused_and_not_repeated(
    server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(StoreError, match="SignatureDoesNotMatch") as refused:
        Store(PLACE).put("index.json", b"{}")
    assert "not-the-secret" not in str(refused.value)


def test_a_file_that_is_too_large_is_not_read(server: None) -> None:
    Store(PLACE).put("large", b"x" * 11)
    with pytest.raises(StoreError, match="11 bytes"):
        Store(PLACE).get("large", 10)
