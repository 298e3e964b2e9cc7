"""vLLM's API server started by a command as older images need it, with a chat template: both sides
render and count alike."""

import hashlib
from pathlib import Path

from benchrun_client.contract import ServedModel, UsersLoad
from benchrun_client.contract.datasets import RandomData
from benchrun_client.engines import ENGINES, ServedFiles
from client.processes import TINY_MODEL, VLLM_PYTHON, client, free_port
from client.real_servers import vllm_process
from unit.client.plans import plan, stage

VLLM = ENGINES["VLLM"]

COMMAND = [
    "python3",
    "-m",
    "vllm.entrypoints.openai.api_server",
    "--model",
    "$(MODEL)",
    "--port",
    "$(PORT)",
]
TEMPLATE = " the the the{% for m in messages %} {{ m.role }} the {{ m.content }} the{% endfor %} ä"
TOKENS = 64
KV_CACHE = "--kv-cache-memory-bytes=300000000"


def test_a_module_is_started_by_its_command_and_renders_with_the_clients_template(
    tmp_path: Path,
) -> None:
    template = tmp_path / "chat.jinja"
    port = free_port()
    template.write_text(TEMPLATE)
    served = ServedFiles(str(TINY_MODEL), "asked", chat_template=str(template))
    words = [*VLLM.filled_in(COMMAND, served), *VLLM.serve_args(served, COMMAND)]
    own = [str(port) if word == str(VLLM.port) else word for word in words[1:]]
    flags = [
        "--host=127.0.0.1",
        "--enforce-eager",
        "--dtype=float32",
        "--max-model-len=512",
        KV_CACHE,
    ]
    talk = stage(
        load=UsersLoad(concurrency=2),
        data=RandomData(input_tokens=TOKENS, output_tokens=4),
        api="Chat",
        requests=6,
    )
    url = f"http://127.0.0.1:{port}"
    target = {
        "base_url": url,
        "servers": 0,
        "metrics_urls": (f"{url}/metrics",),
        "served_model": "asked",
        "tokenizer": str(TINY_MODEL),
        "chat_template": str(template),
    }
    with vllm_process(
        [VLLM_PYTHON, *own, *flags], port, tmp_path / "log"
    ) as server:
        server.wait_healthy()
        with client(
            tmp_path / "client",
            plan(talk, target=target, health_deadline_seconds=60),
        ) as running:
            (record,), _ = running.pull_all()
    # vLLM's own count of what it rendered is what the client wrote its prompts for.
    assert record.errors == {}
    assert record.requests.input_tokens == (TOKENS,) * 6
    assert record.expected_input_tokens == 6 * TOKENS
    assert record.chat_template == hashlib.sha256(TEMPLATE.encode()).hexdigest()
    assert record.servers[0].served == ServedModel(id="asked", root=str(TINY_MODEL))
