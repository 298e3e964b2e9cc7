"""What is set up around the operator before it runs."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TypedDict

import pytest
from benchrun.runtime import main

PROGRAM = """
import json, sys
from benchrun.runtime import main
from benchrun.runtime.indexes import Indexes

DEEPEST = 9_990  # the API server reads no more than 10,000 levels of JSON

async def operate(settings, *, decide):
    def body(version):
        deep = '{"a":' * DEEPEST + "1" + "}" * DEEPEST
        meta = {"namespace": "lab", "name": "chat", "uid": "u", "resourceVersion": version}
        return json.loads('{"metadata":%s,"spec":{"affinity":%s}}' % (json.dumps(meta), deep))
    indexes = Indexes()
    assert indexes.heard("BenchmarkRun", body("1"), deleted=False) is not None
    assert indexes.heard("BenchmarkRun", body("2"), deleted=False) is None, "nothing has changed"
    print("read")
    return False

main.operate = operate
sys.exit(main.main())
"""


def test_the_deepest_object_that_an_api_server_takes_can_be_read() -> None:
    path = os.pathsep.join(part for part in sys.path if part)
    environment = os.environ | {
        "PYTHONPATH": path,
        "BENCHRUN_CLIENT_IMAGE": "client",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr[-2000:]


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Logging as it was, afterwards."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_json_line_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    main.configure(level="INFO", log_format="json")
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("benchrun.x").exception("pass %s", "failed")
    entry = json.loads(capsys.readouterr().err)
    assert entry["time"].endswith("+00:00")
    assert {key: entry[key] for key in ("level", "logger", "message")} == {
        "level": "error",
        "logger": "benchrun.x",
        "message": "pass failed",
    }
    assert "ValueError: broken" in entry["error"]


def test_json_entry_with_line_breaks_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main.configure(level="INFO", log_format="json")
    logging.getLogger("x").info("a\nb")
    assert capsys.readouterr().err.count("\n") == 1


def test_plain_line_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    main.configure(level="INFO", log_format="plain")
    logging.getLogger("x").info("hello")
    assert capsys.readouterr().err.endswith("INFO    x: hello\n")


def test_level_is_obeyed_and_what_says_something_for_every_request_is_silent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main.configure(level="INFO", log_format="plain")
    logging.getLogger("x").debug("too much")
    for name in ("aiohttp.access", "asyncio"):
        logging.getLogger(name).info("GET /metrics")
    assert capsys.readouterr().err == ""


def test_a_complaint_that_is_repeated_at_every_try_is_let_through_once_in_a_while() -> (
    None
):
    seconds = [0.0]
    sparing = main.Sparing(lambda: seconds[0])

    def passes(text: str) -> bool:
        return sparing.filter(
            logging.LogRecord("x", logging.ERROR, "", 0, text, None, None)
        )

    assert passes("Request attempt #1 failed; will retry: GET /a")
    assert not passes("Request attempt #2 failed; will retry: GET /a")
    assert passes("Request attempt #1 failed; will retry: GET /b")
    seconds[0] = main.REPEATED_SECONDS
    assert passes("Request attempt #9 failed; will retry: GET /a")
    for number in range(5000):
        passes(f"GET /{number}")
    assert len(sparing._let_through) <= 1000


# What the operator costs before it does anything.

# resident after importing everything; about 75 when this was written
IMPORT_MIB = 100

PROGRAM_FOOTPRINT = """
import json, sys
from benchrun.runtime.__main__ import main
del sys.argv[1:]
assert main() == 2  # there are no settings; by then all is imported
pages = int(open("/proc/self/statm").read().split()[1])
print(json.dumps({"modules": sorted(sys.modules), "mib": pages * 4096 // 2**20}))
"""


class Imported(TypedDict):
    modules: list[str]
    mib: int


@pytest.fixture(scope="module")
def imported() -> Imported:
    """A new process that imported the whole operator."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BENCHRUN_")
    }
    environment = inherited | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)
    }
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM_FOOTPRINT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found: Imported = json.loads(answer.stdout)
    return found


def test_typed_models_and_apis_of_the_kubernetes_client_are_never_imported(
    imported: Imported,
) -> None:
    modules = imported["modules"]
    typed = [
        m
        for m in modules
        if m.startswith(
            ("kubernetes.aio.client.models.", "kubernetes.aio.client.api.")
        )
    ]
    assert typed == []


def test_heavy_libraries_and_the_synchronous_kubernetes_client_are_not_imported(
    imported: Imported,
) -> None:
    modules = set(imported["modules"])
    assert {"kubernetes.aio", "kopf"} <= modules
    synchronous = {
        "requests",
        "requests_oauthlib",
        "websocket",
        "kubernetes.config",
        "kubernetes.stream",
    }
    heavy = {
        "numpy",
        "pandas",
        "vllm",
        "transformers",
        "jinja2",
        "vl_convert",
        "benchrun.report.html",
    }
    assert (synchronous | heavy) & modules == set()


def test_nothing_of_the_judge_is_imported(imported: Imported) -> None:
    """Whatever a tenant's pod sent is opened in a process of its own."""
    modules = imported["modules"]
    job = {"benchrun.judge_process", "benchrun.judge_process.messages"}
    assert [
        m
        for m in modules
        if m.startswith(("benchrun.judge.", "benchrun.judge_process"))
        and m not in job
    ] == []
    assert "benchrun.judge" not in modules


def test_import_stays_small(imported: Imported) -> None:
    assert imported["mib"] < IMPORT_MIB
