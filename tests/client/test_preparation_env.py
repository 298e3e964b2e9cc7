"""The real client, in two processes, behind a proxy for its preparation: it fetches the dataset
through the proxy, and no request to the server goes there."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchrun_client.contract import DataFile, UsersLoad
from benchrun_client.contract.datasets import ShareGPTData
from client.processes import TINY_MODEL, client, free_port, simulator
from kit.counting_proxy import counting_proxy
from unit.client.plans import plan, stage, warmup

ROWS = [
    {"conversations": [{"value": f"{n} alpha beta gamma"}, {"value": "delta " * 8}]}
    for n in range(24)
]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder; yield the URL."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_the_proxy_sees_the_dataset_and_never_the_load(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    port = free_port()
    with (
        served(tmp_path) as files,
        counting_proxy() as proxy,
        simulator("--sim-ttft-ms", "5", "--sim-tpot-ms", "2", port=port),
    ):
        rows = f"{files}/rows.json"
        data = ShareGPTData(file=DataFile(url=rows), output_tokens=4)
        load = UsersLoad(concurrency=2)
        whole = plan(
            stage(workload="talk", load=load, data=data, requests=8),
            target={
                "base_url": f"http://127.0.0.1:{port}",
                "tokenizer": str(TINY_MODEL),
            },
            warmups=(warmup(workload="talk", data=data),),
        )
        variables = dict.fromkeys(("http_proxy", "HTTPS_PROXY"), proxy.url)
        with client(
            tmp_path / "run", whole, shards=2, preparation=variables
        ) as running:
            records, _ = running.pull_all()
        assert [sum(each.requests.ok) for each in records] == [8]
        # once for each process
        assert proxy.seen() == [rows, rows]
