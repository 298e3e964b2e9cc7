"""`huggingFace` data with the real library `datasets`, reading a directory as it would read the
hub."""

import json
import os
import subprocess
from pathlib import Path

from client.processes import CLIENT_PYTHON, CLIENT_ROOT

SCRIPT = """
import json, sys
from benchrun_client.contract.datasets import HuggingFaceData
from benchrun_client.datasets.text_datasets import read_hugging_face
from benchrun_client.failures import RunFailure

for arguments in json.load(sys.stdin):
    try:
        file = read_hugging_face(HuggingFaceData(**arguments))
        print(json.dumps([file.name, file.sha256, file.read, [row.text for row in file.rows], file.dropped]))
    except RunFailure as failure:
        print(json.dumps([failure.reason, failure.message]))
"""


def asked(*questions: dict[str, object], folder: Path) -> list[list[object]]:
    """What each of these datasets gives, in one process: importing the library takes seconds.
    `folder`: where it runs."""
    done = subprocess.run(
        [CLIENT_PYTHON, "-c", SCRIPT],
        input=json.dumps(questions),
        env={
            **os.environ,
            "PYTHONPATH": str(CLIENT_ROOT),
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
        },
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_rows_are_read_up_to_the_bound_and_faults_are_named(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(
        "".join(f'{{"question": "q{n}", "n": {n}}}\n' for n in range(5))
    )
    (tmp_path / "test.jsonl").write_text(
        '{"question": "a", "n": 1}\n{"question": null, "n": 2}\n{"question": "a", "n": 3}\n'
    )
    here = {
        "repository": tmp_path.name,
        "column": "question",
        "output_tokens": 4,
        "max_rows": 3,
    }
    first, again, dropped, column, number, split, absent = asked(
        here,
        here,
        {**here, "split": "test"},
        {**here, "column": "answer"},
        {**here, "column": "n"},
        {**here, "split": "validation"},
        {**here, "repository": "nobody/nothing"},
        folder=tmp_path.parent,
    )
    assert first == again
    assert first[2:] == [3, ["q0", "q1", "q2"], {}]
    # Whether equal rows are sent is the policy's: a reader gives them all.
    assert dropped[2:] == [3, ["a", "a"], {"EmptyText": 1}]
    assert column[0] == "DatasetInvalid"
    assert 'row 0: there is no column "answer"; it has "question", "n"' in str(
        column[1]
    )
    assert '"n" must be a text, but is int' in str(number[1])
    assert split[0] == "DatasetNotFound"
    assert "validation" in str(split[1])
    assert absent[0] == "DatasetNotFound"
    assert "nobody/nothing (train) from the hub" in str(absent[1])
