"""A real HTTP proxy in a process of its own, which tells every request that it sees."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PROXY = """
import http.server, urllib.request
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("seen", self.path, flush=True)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        body = direct.open(self.path).read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def refuse(self):
        print("seen", self.path, flush=True)
        self.send_error(403)
    do_POST = do_CONNECT = refuse
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class CountingProxy:
    """The proxy; anything but GET it tells and refuses."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = process
        self._output = process.stdout
        self.url = f"http://127.0.0.1:{int(self._output.readline())}"

    def seen(self) -> list[str]:
        """End the proxy; return the URLs that it saw."""
        self._process.kill()
        return [line.split()[1] for line in self._output]


@contextmanager
def counting_proxy() -> Iterator[CountingProxy]:
    """Run the proxy."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROXY], stdout=subprocess.PIPE, text=True
    )
    try:
        yield CountingProxy(process)
    finally:
        process.kill()
        process.communicate()
