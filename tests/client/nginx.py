"""A real nginx as the gateway before two simulated servers: prefix, headers, TLS, a rate limit.

The program is Debian's. Where it is not installed, its package is unpacked into the cache, without
installing it: that would start a web server on this machine.
"""

import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from client.processes import CACHE, free_port, simulator
from kit.polling import polling
from unit.client.tls import certificate

TENANT, KEY = "bench", "the-gateways-key"
PREFIX = "/tenant-a"
STARTS_WITHIN_SECONDS = 60.0
CONFIGURATION = """
daemon off;
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{}}
http {{
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  limit_req_zone $server_name zone=all:1m rate={rate}r/s;
  log_format times '$status $request_method $request_time $upstream_response_time $upstream_addr';
  access_log {folder}/times.log times;
  upstream replicas {{
    {replicas}
    keepalive 16;
  }}
  server {{
    listen 127.0.0.1:{port} ssl;
    server_name localhost;
    ssl_certificate {folder}/tls.crt;
    ssl_certificate_key {folder}/tls.key;
    ssl_client_certificate {folder}/tls.crt;
    ssl_verify_client on;
    proxy_http_version 1.1;
    proxy_buffering off;
    location {prefix}/ {{
      if ($http_x_tenant != "{tenant}") {{ return 403 "unknown tenant '$http_x_tenant'"; }}
      if ($http_x_api_key != "{key}") {{ return 401 "unknown key '$http_x_api_key'"; }}
      if ($arg_version != "1") {{ return 400 "unknown version"; }}
      limit_req zone=all burst=1000;
      proxy_set_header Connection "";
      proxy_pass http://replicas/;
    }}
    location /moved/ {{ return 308 https://localhost:{port}{prefix}/?key=$http_x_api_key; }}
    location /drops/ {{
      proxy_set_header X-Api-Key "";
      proxy_ssl_certificate {folder}/tls.crt;
      proxy_ssl_certificate_key {folder}/tls.key;
      proxy_pass https://127.0.0.1:{port}{prefix}/;
    }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway with its replicas."""

    url: str
    folder: Path  # Has the certificate, its key, and the log.
    replicas: tuple[str, ...]

    def added_ms(self, requests: int) -> list[float]:
        """Return what nginx itself logged that it added to each of the last answers to POST."""
        lines = (self.folder / "times.log").read_text().splitlines()
        posts = [line.split() for line in lines if line.split()[1] == "POST"]
        return [
            1000 * (float(whole) - float(upstream))
            for _, _, whole, upstream, _ in posts[-requests:]
        ]


def program() -> Path:
    """Return the path of nginx, unpacked where it is not installed."""
    if (installed := shutil.which("nginx")) is not None:
        return Path(installed)
    folder = CACHE / "nginx"
    found = folder / "usr/sbin/nginx"
    if not found.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for words in (["update", "-qq"], ["download", "-qq", "nginx"]):
            subprocess.run(["apt-get", *words], cwd=folder, check=True)
        (package,) = folder.glob("nginx_*.deb")
        subprocess.run(["dpkg", "-x", package, folder], check=True)
    return found


@contextmanager
def gateway(folder: Path, *flags: str, rate: int) -> Iterator[Gateway]:
    """Run two simulated servers behind a gateway that lets through `rate` requests a second."""
    certificate(folder)
    ports = (free_port(), free_port())
    with ExitStack() as stack:
        for each in ports:
            stack.enter_context(simulator(*flags, port=each))
        replicas = tuple(f"http://127.0.0.1:{each}" for each in ports)
        for url in replicas:
            _wait_for(f"{url}/health")
        port = stack.enter_context(_nginx(folder, ports, rate=rate))
        yield Gateway(f"https://localhost:{port}", folder, replicas)


@contextmanager
def _nginx(folder: Path, replicas: Sequence[int], *, rate: int) -> Iterator[int]:
    port = free_port()
    file = folder / "nginx.conf"
    file.write_text(
        CONFIGURATION.format(
            folder=folder,
            port=port,
            prefix=PREFIX,
            tenant=TENANT,
            key=KEY,
            rate=rate,
            replicas=" ".join(f"server 127.0.0.1:{each};" for each in replicas),
        )
    )
    process = subprocess.Popen(
        [program(), "-p", folder, "-c", file, "-e", folder / "error.log"],
    )
    try:
        _wait_for(f"https://localhost:{port}/")
        yield port
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str) -> None:
    """Wait until something answers at the URL, with any status."""
    unverified = ssl._create_unverified_context()
    for _ in polling(url, seconds=STARTS_WITHIN_SECONDS):
        try:
            urllib.request.urlopen(url, context=unverified).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            continue
        return
