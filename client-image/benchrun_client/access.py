"""What requests to the measured endpoint carry beside the client's own: key, headers, query, TLS.

Credentials go to the endpoint's own addresses and nowhere else: not to metrics that stand
elsewhere, and not to where an answer redirects.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from benchrun_client.contract import RequestHeader, Target
from benchrun_client.failures import RunFailure, error_text

# vLLM's own variable: its load engine reads the same one.
API_KEY_VARIABLE = "OPENAI_API_KEY"
CERTIFICATE = "tls.crt"
PRIVATE_KEY = "tls.key"
HIDDEN = "***"
_SHORTEST_SECRET = 4
"""Least characters of a secret that is hidden in texts: a shorter one would blot out words."""
_BEGINNING = 12
"""Characters of a longer secret's beginning that are hidden also where the rest is cut off."""


@dataclass(frozen=True, slots=True)
class Access:
    """Headers and query parameters of requests to these addresses, and TLS for all."""

    origins: frozenset[str] | None = None
    """Scheme, host and port of the addresses; None: any address."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def covers(self, url: URL) -> bool:
        """Return whether requests to this URL carry headers and query."""
        return self.origins is None or origin(url) in self.origins

    def request_class(self) -> type[aiohttp.ClientRequest]:
        """Return the class of a session's requests, which adds what the endpoint asks for.

        It sees every hop of a redirect, so that a request to another address carries nothing.
        """
        if not self.headers and not self.query:
            return aiohttp.ClientRequest
        access = self

        class EndpointRequest(aiohttp.ClientRequest):
            def __init__(self, method: str, url: URL, **options: Any) -> None:
                if access.covers(url):
                    headers = CIMultiDict(options.get("headers") or {})
                    headers.update(access.headers)
                    options["headers"] = headers
                    url = url.update_query(access.query)
                super().__init__(method, url, **options)

        return EndpointRequest

    def hide(self, text: str) -> str:
        """Return a foreign text without the secrets, which a gateway may repeat in its answer.

        The text may have been cut within a secret, so a long beginning of a secret is hidden, too.
        """
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = _without(text, secret)
        return text


def _without(text: str, secret: str) -> str:
    """Return the text with `HIDDEN` in place of the secret, or of a long beginning of it."""
    first, *others = text.split(secret[:_BEGINNING])
    rest = secret[_BEGINNING:]
    return first + "".join(
        HIDDEN + other[_in_common(other, rest) :] for other in others
    )


def _in_common(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def origin(url: URL) -> str:
    """Return scheme, host and port of a URL."""
    return str(url.origin())


def key_access(environment: Mapping[str, str] = os.environ) -> Access:
    """Return access with the API key of this pod's environment, at any address."""
    key = environment.get(API_KEY_VARIABLE)
    if not key:
        return Access()
    return Access(headers={"Authorization": f"Bearer {key}"}, secrets=(key,))


def access_to(
    target: Target, environment: Mapping[str, str] = os.environ
) -> Access:
    """Return what requests to the plan's target carry. Raises RunFailure."""
    key = key_access(environment)
    values = {each.name: _value(each, environment) for each in target.headers}
    secret = [
        part
        for each in target.headers
        if each.variable is not None
        # Of "Bearer TOKEN" a gateway repeats the token alone.
        for part in (values[each.name], *values[each.name].split()[1:])
    ]
    return Access(
        origins=_origins(target),
        headers={**key.headers, **values},
        query={each.name: each.value for each in target.query},
        tls=tls_context(target.ca_file, target.certificate),
        secrets=(*key.secrets, *dict.fromkeys(secret)),
    )


def _origins(target: Target) -> frozenset[str] | None:
    """Return the endpoint's addresses; None stands for any address, for the run's own servers."""
    if target.servers:
        return None
    own = () if target.metrics_apart else target.metrics_urls
    return frozenset(origin(URL(url)) for url in (target.base_url, *own))


def _value(header: RequestHeader, environment: Mapping[str, str]) -> str:
    if header.variable is None:
        return header.value or ""
    # Files that Secrets are made from end with a line end.
    value = environment.get(header.variable, "").strip()
    if not value or not value.isprintable() or not value.isascii():
        raise RunFailure(
            "Unauthorized",
            f"the Secret of endpoint.headers, {header.name}, is empty or has characters that no "
            "header may have (line ends, control or non-ASCII characters)",
        )
    return value


def tls_context(
    ca_file: str | None, certificate: str | None = None
) -> ssl.SSLContext | None:
    """Return a context that trusts the system's certificates and those in `ca_file`.

    `certificate` is a folder, from a Secret, with the certificate that the context shows to servers
    that ask for one. If both arguments are None, return None, which stands for the default context.
    Raises RunFailure `CertificateInvalid`.
    """
    if ca_file is None and certificate is None:
        return None
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            message = f"cannot read certificates from {ca_file}: {error.strerror or error}"
            raise RunFailure("CertificateInvalid", message) from error
    if certificate is not None:
        _show(context, Path(certificate))
    return context


def _show(context: ssl.SSLContext, folder: Path) -> None:
    try:
        # With an empty password an encrypted key is an error; without one OpenSSL would ask.
        context.load_cert_chain(
            folder / CERTIFICATE, folder / PRIVATE_KEY, password=""
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error_text(error)
        message = (
            f"the client certificate (endpoint.clientCertificateSecretRef) can't be used: "
            f"{reason}. The Secret needs {CERTIFICATE} and, unencrypted and of the same pair, "
            f"{PRIVATE_KEY}."
        )
        raise RunFailure("CertificateInvalid", message) from error
