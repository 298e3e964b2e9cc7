"""What is set up around the operator before it runs."""

from __future__ import annotations

import os
import subprocess
import sys

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
    environment = os.environ | {"PYTHONPATH": path, "BENCHRUN_CLIENT_IMAGE": "client"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr[-2000:]
