"""Archives in Google Cloud Storage: a server that refuses who is not known, and both identities.

The server is fake-gcs-server. A pod's metadata server, which tells the pod its identity, is played
here: Google's own answers the same request.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from benchrun.archive.contents import StoreError, folder_of, write_archive
from benchrun.archive.store import Store
from benchrun.cli.__main__ import main
from kit.local_servers import free_port, listening
from kit.tools import program
from unit.cli.finished_runs import finished_run

PLACE = "gs://results/benchrun"
RUN = finished_run()
TOKEN = "of-the-workload"


@contextmanager
def metadata_server(token: str) -> Iterator[str]:
    """Yield the address of the server that gives a pod its token, and nothing without its header."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = "/service-accounts/default/token" in self.path
            is_ours = self.headers.get("Metadata-Flavor") == "Google"
            body = {
                "access_token": token,
                "expires_in": 3599,
                "token_type": "Bearer",
            }
            self.send_response(200 if asked and is_ours else 403)
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(
                json.dumps(body).encode() if asked and is_ours else b"{}"
            )

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the key of a service account, and one of another."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("own", "other"):
        private, public = folder / name, folder / f"{name}.pub"
        command = ["openssl", "genrsa", "-out", str(private), "2048"]
        subprocess.run(command, check=True, capture_output=True)
        command = ["openssl", "rsa", "-in", str(private), "-pubout", "-out"]
        subprocess.run([*command, str(public)], check=True, capture_output=True)
    return folder


def account(keys: Path, name: str) -> str:
    """Return a service account's key as Google gives it."""
    return json.dumps(
        {
            "type": "service_account",
            "client_email": "archive@project.iam.gserviceaccount.com",
            "private_key_id": "1",
            "private_key": (keys / name).read_text(),
        }
    )


@pytest.fixture
def server(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A storage with one bucket, and an environment without credentials."""
    (tmp_path / "results").mkdir()
    port = free_port()
    address = f"127.0.0.1:{port}"
    for name, value in {
        "GOOGLE_BASE_URL": f"http://{address}",
        "AWS_ALLOW_HTTP": "true",
        "HOME": str(tmp_path),  # Without what gcloud may have left.
    }.items():
        monkeypatch.setenv(name, value)
    command = [program("gcs-server"), address, str(tmp_path), TOKEN]
    with listening([*command, str(keys / "own.pub")], port):
        yield


@pytest.fixture
def workload(server: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The identity that a workload has on Google's clusters."""
    with metadata_server(TOKEN) as address:
        monkeypatch.setenv("GCE_METADATA_HOST", address)
        yield


def test_a_run_is_written_and_read_by_the_identity_of_the_workload(
    workload: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(RUN.body)
    for _ in range(2):  # To write it once more does no harm.
        write_archive(RUN.body, RUN.config_maps, Store(PLACE).put)
    assert main(["report", "-f", f"{PLACE}/{folder}"]) == 0
    whole = capsys.readouterr().out
    assert "judged: Valid" in whole
    assert main(["judge", "-f", f"{PLACE}/{folder}/"]) == 0


def test_a_run_is_written_and_read_by_the_key_of_a_service_account(
    server: None,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", account(keys, "own"))
    write_archive(RUN.body, RUN.config_maps, Store(PLACE).put)
    assert main(["report", "-f", f"{PLACE}/{folder_of(RUN.body)}"]) == 0
    assert "judged: Valid" in capsys.readouterr().out


def test_what_is_not_there_is_told(
    workload: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "-f", f"{PLACE}/lab/none"]) == 1
    assert "index.json" in capsys.readouterr().err


def test_another_key_is_refused_and_not_repeated(
    server: None, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = account(keys, "other")
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", other)
    with pytest.raises(StoreError, match="401") as refused:
        Store(PLACE).put("index.json", b"{}")
    assert "PRIVATE" not in str(refused.value)


def test_a_file_that_is_too_large_is_not_read(workload: None) -> None:
    Store(PLACE).put("large", b"x" * 11)
    with pytest.raises(StoreError, match="11 bytes"):
        Store(PLACE).get("large", 10)
