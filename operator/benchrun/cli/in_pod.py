"""The script that `benchrun doctor --pods` runs in a test pod, with the image's own Python.

It needs only the standard library. It prints a line of JSON for each attempt, and always exits with
code 0.
"""

import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

HUB = "https://huggingface.co"
API_PORT = 443


def name_service(service: str) -> str:
    """Return the IP address of a DNS name."""
    return str(socket.getaddrinfo(service, API_PORT)[0][4][0])


def api_server(seconds: float) -> str:
    """Connect to the API server at the address in the container's environment."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = int(os.environ.get("KUBERNETES_SERVICE_PORT", API_PORT))
    socket.create_connection((host, port), timeout=seconds).close()
    return f"connected to {host}:{port}"


def hub(file: str, seconds: float) -> str:
    """Send a HEAD request for a file to the hub, or to the mirror that vLLM would use."""
    base = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    if "@" in base:
        raise ValueError(
            "HF_ENDPOINT has a user or password, which would be printed"
        )
    url = f"{base}/{file}"
    token = os.environ.get("HF_TOKEN")
    request = urllib.request.Request(url, method="HEAD")
    if token:
        # A mirror may redirect to another host, which must not see the token.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return f"{url} answers {answer.status}"
    except urllib.error.HTTPError as error:
        raise OSError(f"{url} answers {error.code}") from None


def tried(name: str, act: Callable[[], str]) -> None:
    """Make an attempt, and print its result and how long it took."""
    began = time.monotonic()
    try:
        words, fine = act(), True
    except Exception as error:
        words, fine = f"{type(error).__name__}: {error}", False
    words = f"{words[:280]}, {time.monotonic() - began:.1f} s"
    print(json.dumps({"name": name, "fine": fine, "words": words}), flush=True)


def main(service: str, file: str, seconds: float) -> None:
    """Make every attempt. With an empty `file`, leave out the hub."""
    tried("dns", lambda: name_service(service))
    if file:
        tried("hub", lambda: hub(file, seconds))
    tried("api", lambda: api_server(seconds))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
