"""The cause of a server's end is the error that ended it, not a phrase somewhere in its log."""

import pytest
from benchrun.observe import diagnose_server, find_pod_with_hidden_cause
from benchrun_client.engines import ENGINES
from unit.observe.bodies import ended

VLLM = ENGINES["VLLM"]

API = "(APIServer pid=1) "
CORE = "(EngineCore pid=77) "
RETRIED = (
    f"{API}ERROR 02-02 14:28:39 [repo_utils.py:47] Error retrieving safetensors: Repo id must be "
    "in the form 'repo_name' or 'namespace/repo_name': '/models/acme'., retrying 1 of 2\n"
)
REFUSED = (
    f'{API}INFO:     10.0.0.7:5 - "GET /v1/models HTTP/1.1" 401 Unauthorized\n'
)
ASKED = f"{API}INFO 02-02 14:28:39 [logger.py:40] Received request: prompt: 'CUDA out of memory'\n"
WARNED = f"{API}WARNING 02-02 14:28:39 [x.py:1] Access to model weights: 403 Forbidden, skipped\n"
NAMED = f"{API}INFO 02-02 14:28:39 [x.py:1] model='acme/GatedRepoError-is-a-gated-repository'\n"
BENIGN = RETRIED + REFUSED + ASKED + WARNED + NAMED
CORE_FAILED = (
    f"{API}RuntimeError: Engine core initialization failed. See root cause above.\n"
)
CORE_DIED = (
    f"{API}vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack "
    "trace (above) for the root cause.\n"
)
WORKER_FAILED = (
    f"{CORE}Exception: WorkerProc initialization failed due to an exception in a background "
    "process. See stack trace for root cause.\n"
)
BFLOAT16 = f"{API}ValueError: Bfloat16 is only supported on GPUs with compute capability of 8.0\n"
ECC = f"{CORE}torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n"
CUDA_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB.\n"
)
GATED = "huggingface_hub.errors.GatedRepoError: 403 Client Error. Cannot access gated repo\n"
DIRECT = (
    "\nThe above exception was the direct cause of the following exception:\n\n"
)
MEANWHILE = (
    "\nDuring handling of the above exception, another exception occurred:\n\n"
)
TRACEBACK = 'Traceback (most recent call last):\n  File "/x.py", line 3, in f\n    raise g()\n'
NO_CONFIG = "OSError: Can't load the configuration of 'acme/x'.\n"
COMPILER = "gcc: error: unrecognized command-line option '-fx'\n"


def chained(link: str, *errors: str) -> str:
    return link.join(TRACEBACK + error for error in errors)


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("reason", "exit_code", "log"),
    [
        *(
            pytest.param(
                "UsageError",
                2,
                f"{BENIGN}usage: {program} [-h]\n{program}: error: unrecognized arguments: --x=1\n",
                id=f"a flag that {program} does not know",
            )
            for program in (
                *("vllm", "vllm serve", "vllm (offline)", "api_server.py"),
                *(
                    "benchrun_client.proxy",
                    "python3 -m vllm.entrypoints.openai.api_server",
                ),
            )
        ),
        pytest.param(
            "InvalidArgument",
            1,
            BENIGN + BFLOAT16,
            id="benign lines, a refused value",
        ),
        pytest.param(
            None, 1, BENIGN + ECC + CORE_FAILED, id="benign lines, a broken GPU"
        ),
        pytest.param(None, 139, BENIGN, id="benign lines, and ended by a signal"),
        pytest.param(
            None, 1, CORE + CUDA_OOM + ECC, id="an earlier error that it got over"
        ),
        pytest.param(
            "OutOfGPUMemory",
            1,
            CORE + CUDA_OOM + CORE_DIED,
            id="an engine that died",
        ),
        pytest.param(
            "OutOfGPUMemory",
            1,
            f"(Worker_TP0 pid=9) {CUDA_OOM}{WORKER_FAILED}{CORE_FAILED}",
            id="of a worker, through two processes",
        ),
        pytest.param(
            "OutOfGPUMemory",
            1,
            f"{CORE}{CUDA_OOM}{API}KeyboardInterrupt: terminated\n",
            id="told to end when its engine was gone",
        ),
        pytest.param(
            "ModelGated",
            1,
            chained(DIRECT, GATED, NO_CONFIG),
            id="what it came from",
        ),
        pytest.param(
            "ModelGated",
            1,
            chained(MEANWHILE, GATED, NO_CONFIG),
            id="while handled",
        ),
        pytest.param(
            "ModelGated",
            1,
            prefixed(
                CORE,
                chained(DIRECT, GATED, NO_CONFIG, "ValueError: no tokenizer\n"),
            ),
            id="what that came from",
        ),
        pytest.param(
            None,
            1,
            chained("", GATED, NO_CONFIG),
            id="two errors, not one of the other",
        ),
        pytest.param(
            "UsageError",
            2,
            f"{BENIGN}vllm serve: error: argument --x: bad\n",
            id="usage",
        ),
        pytest.param(
            "OutOfGPUMemory",
            2,
            COMPILER + CUDA_OOM,
            id="a compiler's complaint it got over",
        ),
        pytest.param(
            None, 2, f"{API}INFO error: none\n", id="a phrase, no complaint"
        ),
        pytest.param(
            None,
            1,
            f"{API}RuntimeError: CUDA error: unknown\n{REFUSED}",
            id="an access line after it",
        ),
        pytest.param(
            "InvalidArgument",
            1,
            f"{BFLOAT16}{API}WARNING 02-02 14:28:39 [x.py:1] {GATED}",
            id="a later error that it only warned of",
        ),
    ],
)
def test_the_cause_is_the_error_that_ended_it(
    reason: str | None, exit_code: int, log: str
) -> None:
    found = diagnose_server([ended(exit_code, log)], None, VLLM)
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize("hides", [CORE_FAILED, CORE_DIED, WORKER_FAILED])
def test_an_error_that_points_up_is_looked_for_there(hides: str) -> None:
    hidden = ended(1, hides)
    assert find_pod_with_hidden_cause([hidden], VLLM) == hidden
    found = diagnose_server(
        [hidden], None, VLLM, log_tail=BENIGN + CORE + CUDA_OOM + hides
    )
    assert found is not None
    assert found.reason == "OutOfGPUMemory"


TUNNEL = (
    "requests.exceptions.ProxyError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', "
    "port=443): Max retries exceeded with url: /x (Caused by ProxyError('Unable to connect to "
    "proxy', OSError('Tunnel connection failed: {}')))\"))"
)
SERVER_ERROR = "huggingface_hub.errors.HfHubHTTPError: Server error '{}' for url 'https://hub/x'"


@pytest.mark.parametrize(
    "error",
    [
        TUNNEL.format("403 Forbidden"),
        TUNNEL.format("407 Proxy Authentication Required"),
        "httpx.ProxyError: 403 Forbidden",
        "httpx.ProxyError: 407 Proxy Authentication Required",
        SERVER_ERROR.format("502 Bad Gateway"),
        SERVER_ERROR.format("503 Service Unavailable"),
        SERVER_ERROR.format("504 Gateway Time-out"),
    ],
)
def test_a_proxy_is_not_the_hub(error: str) -> None:
    found = diagnose_server([ended(1, error)], None, VLLM)
    assert found is not None
    assert (found.reason, found.terminal) == ("ModelNotFound", False)
    last = diagnose_server([ended(1, error, restarts=2)], None, VLLM)
    assert last is not None
    assert (last.reason, last.terminal) == ("ModelNotFound", True)


@pytest.mark.parametrize(
    "error",
    [
        "huggingface_hub.errors.HfHubHTTPError: Client error '401 Unauthorized' for url 'https://h'",
        "huggingface_hub.errors.HfHubHTTPError: Client error '403 Forbidden' for url 'https://h'",
        GATED,
    ],
)
def test_the_hub_that_refuses_is_the_hub(error: str) -> None:
    found = diagnose_server([ended(1, error)], None, VLLM)
    assert found is not None
    assert (found.reason, found.terminal) == ("ModelGated", True)


HTTP = (
    "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://"
)
POOL = "requests.exceptions.ConnectionError: HTTPConnectionPool(host='{}', port=80): Max retries "


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            f"{HTTP}openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
            None,
        ),
        (
            "httpx.HTTPStatusError: Client error '401 Unauthorized' for url 'https://traces/v1'",
            None,
        ),
        (POOL.format("traces") + "exceeded with url: /v1/traces", None),
        (f"{HTTP}mirror.corp/acme/x/resolve/main/config.json", "ModelGated"),
        (f"{HTTP}huggingface.co/api/models/acme/x", "ModelGated"),
        (
            POOL.format("mirror") + "exceeded with url: /api/models/acme/x",
            "ModelNotFound",
        ),
        (
            "OSError: We couldn't connect to 'https://mirror.corp' to load the files",
            "ModelNotFound",
        ),
    ],
)
def test_another_host_is_not_the_hub(error: str, reason: str | None) -> None:
    found = diagnose_server([ended(1, error)], None, VLLM)
    assert (found.reason if found else None) == reason
