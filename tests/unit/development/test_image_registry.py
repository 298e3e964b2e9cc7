"""The registry that tests pull from: what a client of the distribution API asks, and who may."""

import hashlib
import io
import json
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.image_registry import Registry, serving

LAYER = b"layer" * 1000
MANIFEST = json.dumps(
    {"layers": [{"digest": "sha256:" + hashlib.sha256(LAYER).hexdigest()}]}
).encode()
MEDIA = "application/vnd.oci.image.manifest.v1+json"


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    path = tmp_path / "operator.oci.tar"
    index = {"manifests": [{"mediaType": MEDIA, "digest": digest(MANIFEST)}]}
    files = {
        "index.json": json.dumps(index).encode(),
        **{
            f"blobs/{digest(body).replace(':', '/')}": body
            for body in (LAYER, MANIFEST)
        },
    }
    with tarfile.open(path, "w") as archive:
        for name, body in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return Registry({"benchrun/operator": path}, tag="1.0")


@pytest.fixture
def address(registry: Registry) -> Iterator[str]:
    with serving(registry, "127.0.0.1") as found:
        yield found


def ask(
    address: str, path: str, login: str | None, method: str = "GET"
) -> tuple[int, bytes, str]:
    """Return status, body and the digest that a header names."""
    headers = {"Authorization": login} if login else {}
    request = urllib.request.Request(
        f"http://{address}/v2/{path}", headers=headers, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            named = answer.headers.get("Docker-Content-Digest", "")
            return answer.status, answer.read(), named
    except urllib.error.HTTPError as error:
        return error.code, b"", error.headers.get("WWW-Authenticate", "")


def test_an_image_is_pulled_by_tag_and_by_digest(
    registry: Registry, address: str
) -> None:
    name = "benchrun/operator"
    for reference in ("1.0", digest(MANIFEST)):
        found = ask(address, f"{name}/manifests/{reference}", registry.login)
        assert found == (200, MANIFEST, digest(MANIFEST))
    assert registry.pulled == {name: 2}
    head = ask(address, f"{name}/manifests/1.0", registry.login, "HEAD")
    assert head == (200, b"", digest(MANIFEST))
    blob = ask(address, f"{name}/blobs/{digest(LAYER)}", registry.login)
    assert blob == (200, LAYER, digest(LAYER))
    assert ask(address, "", registry.login)[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "benchrun/operator/manifests/2.0",
        "benchrun/client/manifests/1.0",
        f"benchrun/operator/blobs/{digest(b'other')}",
        f"benchrun/client/blobs/{digest(LAYER)}",
        "benchrun/operator/tags",
    ],
)
def test_what_is_not_there_is_not_found(
    path: str, registry: Registry, address: str
) -> None:
    assert ask(address, path, registry.login)[0] == 404


@pytest.mark.parametrize("login", [None, "Basic c3RyYW5nZXI6Z3Vlc3NlZA=="])
def test_nobody_else_pulls(
    login: str | None, registry: Registry, address: str
) -> None:
    found = ask(address, "benchrun/operator/manifests/1.0", login)
    assert found == (401, b"", 'Basic realm="registry"')
    assert (registry.refused, registry.pulled) == (1, {})


def test_the_secret_logs_in_at_its_address(registry: Registry) -> None:
    secret = registry.pull_secret("mirror", "10.0.0.1:5000")
    config = json.loads(secret["stringData"][".dockerconfigjson"])
    assert config["auths"] == {
        "10.0.0.1:5000": {
            "username": registry.user,
            "password": registry.password,
        }
    }
