"""A validating webhook that denies everything with HTTP 503, and one that is dead."""

import asyncio
import base64
import json
import socket
import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from runs_kit.cluster import Cluster
from runs_kit.operator_process import command

from kit.kubectl import Object

RUN = "benchrun.dev/run"
ROLE = "benchrun.dev/role"
CONFIGURATIONS = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
)
DEAD_URL = "https://127.0.0.1:1/"  # nothing listens there


class DenyingWebhook:
    """An HTTPS server that denies every request."""

    def __init__(self) -> None:
        self.denied = 0  # how often it was asked

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one request a connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line[15:])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            )
            review = json.loads(await reader.readexactly(length))
            self.denied += 1
            body = json.dumps(_no(review)).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body) + body
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _no(review: Object) -> Object:
    status = {
        "code": 503,
        "reason": "ServiceUnavailable",
        "message": "the policy server is down",
    }
    response = {"uid": review["request"]["uid"], "allowed": False, "status": status}
    return {
        "apiVersion": review["apiVersion"],
        "kind": review["kind"],
        "response": response,
    }


@asynccontextmanager
async def denying(
    api: Cluster,
    namespace: str,
    directory: Path,
    *,
    denied: dict[str, str],
    dead: dict[str, str],
    role: str | None = None,
) -> AsyncIterator[DenyingWebhook]:
    """Deny the creation of objects of these kinds for these runs while the context is open.

    `denied` and `dead` have the plural of a kind by run. `role` limits it to objects of this role.
    """
    webhook = DenyingWebhook()
    certificate = directory / "webhook.crt"
    key = directory / "webhook.key"
    new_key = (
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        str(key),
    )
    here = _address_towards(api.url)
    subject = ("-subj", f"/CN={here}", "-addext", f"subjectAltName=IP:{here}")
    await command(
        "openssl",
        "req",
        "-x509",
        *new_key,
        "-out",
        str(certificate),
        "-days",
        "2",
        *subject,
    )
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    server = await asyncio.start_server(webhook.serve, here, 0, ssl=tls)
    alive = {
        "url": f"https://{here}:{server.sockets[0].getsockname()[1]}/",
        "caBundle": base64.b64encode(certificate.read_bytes()).decode(),
    }
    name = f"denying-{uuid.uuid4().hex[:8]}"
    entries = [(alive, run, plural) for run, plural in denied.items()]
    entries += [({"url": DEAD_URL}, run, plural) for run, plural in dead.items()]
    webhooks = [
        _webhook(config, namespace=namespace, run=run, plural=plural, role=role)
        for config, run, plural in entries
    ]
    try:
        await api.ask(
            "POST",
            CONFIGURATIONS,
            {"metadata": {"name": name}, "webhooks": webhooks},
        )
        yield webhook
    finally:
        await api.ask("DELETE", f"{CONFIGURATIONS}/{name}")
        server.close()
        await server.wait_closed()


def _address_towards(url: str) -> str:
    """Return this machine's address as the API server sees it."""
    server = urlsplit(url)
    with socket.create_connection(
        (server.hostname or "", server.port or 443), timeout=5
    ) as connection:
        address: str = connection.getsockname()[0]
        return address


def _webhook(
    config: Object, *, namespace: str, run: str, plural: str, role: str | None
) -> Object:
    of_role = {} if role is None else {ROLE: role}
    return {
        "name": f"{run}.test.benchrun.dev",
        "clientConfig": config,
        "rules": [
            {
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "operations": ["CREATE"],
                "resources": [plural],
            }
        ],
        "namespaceSelector": {
            "matchLabels": {"kubernetes.io/metadata.name": namespace}
        },
        "objectSelector": {"matchLabels": {RUN: run, **of_role}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    }
