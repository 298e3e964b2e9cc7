"""Keys, certificates and tokens of a cluster, made once and kept with its state.

The API server shows a certificate; every other party shows a token, which needs no signing and can
be read in one file.
"""

import secrets
from pathlib import Path

from devcluster import configs
from devcluster.running import run
from devcluster.settings import Settings
from devcluster.state import write_whole

DAYS = "3650"
# What `keyUsage` and friends say is what Go's TLS and the API server check; nothing is put in for
# decoration.
AUTHORITY = (
    "basicConstraints=critical,CA:TRUE",
    "keyUsage=critical,keyCertSign,cRLSign",
)


def make(settings: Settings) -> dict[str, str]:
    """Create what is missing in the pki folder, and return each user's token by short user name."""
    folder = settings.directory / "pki"
    folder.mkdir(mode=0o700, exist_ok=True)
    if not (folder / "complete").exists():
        _make_certificates(settings, folder)
        (folder / "complete").touch()
    proxy = configs.FRONT_PROXY
    if not (folder / f"{proxy}.crt").exists():  # a cluster of an older devcluster
        extensions = "extendedKeyUsage=clientAuth\n"
        _certificate(folder, proxy, f"/CN={proxy}", extensions)
    tokens = {
        user.name: _token(folder / f"{user.name}.token") for user in configs.USERS
    }
    write_private(folder / "tokens.csv", configs.tokens_csv(tokens))
    return tokens


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    write_whole(path, text, mode=0o600)


def _make_certificates(settings: Settings, folder: Path) -> None:
    _openssl(folder, "genrsa", "-out", "sa.key", "2048")
    _openssl(folder, "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
    extensions = [
        word for extension in AUTHORITY for word in ("-addext", extension)
    ]
    request = (
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        DAYS,
        "-subj",
        "/CN=devcluster",
    )
    _openssl(folder, *request, "-keyout", "ca.key", "-out", "ca.crt", *extensions)
    names = ",".join(configs.api_server_names(settings))
    _certificate(
        folder,
        "apiserver",
        "/CN=kube-apiserver",
        f"extendedKeyUsage=serverAuth\nsubjectAltName={names}\n",
    )
    # What the API server shows the kubelet when it asks for logs, exec and port-forward.
    _certificate(
        folder,
        "kubelet-client",
        "/O=system:masters/CN=kube-apiserver",
        "extendedKeyUsage=clientAuth\n",
    )


def _certificate(folder: Path, name: str, subject: str, extensions: str) -> None:
    """Create NAME.key and NAME.crt, signed by the cluster's own authority."""
    (folder / f"{name}.ext").write_text(extensions)
    request = ("req", "-newkey", "rsa:2048", "-nodes", "-subj", subject)
    _openssl(folder, *request, "-keyout", f"{name}.key", "-out", f"{name}.csr")
    signing = (
        "x509",
        "-req",
        "-in",
        f"{name}.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
    )
    _openssl(
        folder,
        *signing,
        "-days",
        DAYS,
        "-extfile",
        f"{name}.ext",
        "-out",
        f"{name}.crt",
    )


def _openssl(folder: Path, *arguments: str) -> None:
    run("openssl", *arguments, folder=folder)


def _token(path: Path) -> str:
    if not path.exists():
        write_private(path, secrets.token_hex(16))
    return path.read_text()
