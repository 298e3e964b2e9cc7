"""Certificates to test with."""

import ssl
import subprocess
from pathlib import Path


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for localhost that signs itself, and a server's context with it."""
    file = folder / "tls.crt"
    key = folder / "tls.key"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    made = (
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        *subject,
    )
    subprocess.run(
        [*made, "-keyout", key, "-out", file], check=True, capture_output=True
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file, key)
    return file, context
