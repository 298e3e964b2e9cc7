"""The proxy's command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_IN_FLIGHT = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the proxy was told."""

    prefill: str
    """Base URL; a name that stands for several addresses stands for as many servers."""
    decode: str
    prefill_replicas: int | None
    """How many addresses the name is to have before the proxy is ready; None: one at least."""
    decode_replicas: int | None
    address: str
    port: int
    max_in_flight: int


def parse(words: Sequence[str]) -> Arguments:
    """Read the command line; exits with code 2 where it makes no sense."""
    parser = argparse.ArgumentParser(prog="benchrun_client.proxy", description=__doc__)
    add = parser.add_argument
    add("--prefill", required=True, type=_base_url, help="http://HOST:PORT of the prefill servers")
    add("--decode", required=True, type=_base_url, help="http://HOST:PORT of the decode servers")
    add("--prefill-replicas", type=_positive, help="addresses that HOST must have (default: any number)")
    add("--decode-replicas", type=_positive, help="addresses that HOST must have (default: any number)")
    add("--address", default="0.0.0.0", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    add(
        *("--max-in-flight",),
        type=_positive,
        default=MAX_IN_FLIGHT,
        help="completions under way at once; as many again may wait (default: %(default)s)",
    )
    return Arguments(**vars(parser.parse_args(words)))


def _base_url(text: str) -> str:
    parts = urlsplit(text)
    # Servers are reached by their addresses, which no certificate names.
    if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/") or parts.query or parts.username:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form http://HOST:PORT")
    return text.rstrip("/")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number
