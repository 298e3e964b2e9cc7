"""Every dataset in the client's words, and its file where the pod has it."""

from __future__ import annotations

import pytest
from benchrun.api import Workload
from benchrun.plan.client_plan import client_data
from benchrun.plan.files import placed_files
from benchrun_client.contract import (
    AgentData,
    CustomData,
    Data,
    DataFile,
    HuggingFaceData,
    MixData,
    MixPart,
    PrefixRepetitionData,
    RandomData,
    S3Object,
    ShareGPTData,
    TextsData,
    TimedTraceData,
)
from unit.plan.specs import Json, workload

IN_IMAGE: Json = {"path": "/opt/data/rows"}
THERE = DataFile(path="/opt/data/rows")


def of(dataset: Json, name: str = "chat") -> Workload:
    return Workload.model_validate(workload(name, dataset=dataset))


@pytest.mark.parametrize(
    ("expected", "dataset"),
    [
        (RandomData(input_tokens=7, output_tokens=128), {"random": {"inputTokens": 7}}),
        (
            PrefixRepetitionData(prefixes=4, prefix_tokens=256, suffix_tokens=9, output_tokens=128),
            {"prefixRepetition": {"prefixes": 4, "suffixTokens": 9}},
        ),
        (AgentData(variants=1), {"agent": {"staticPrefix": {}}}),
        (AgentData(variants=None, output_tokens=8), {"agent": {"dynamicPrefix": {}, "outputTokens": 8}}),
        (
            AgentData(file=THERE, variants=100),
            {"agent": {"conversation": IN_IMAGE, "dynamicPrefix": {"variants": 100}}},
        ),
        (
            ShareGPTData(file=THERE, output_tokens=2048, max_prompt_tokens=4000, max_total_tokens=9000),
            {"shareGPT": {"file": IN_IMAGE, "outputTokens": 2048, "maxPromptTokens": 4000, "maxTotalTokens": 9000}},
        ),
        (
            CustomData(file=THERE, prompt_field="text", output_tokens_field="n", output_tokens=3),
            {"custom": {"file": IN_IMAGE, "promptField": "text", "outputTokensField": "n", "outputTokens": 3}},
        ),
        (
            TextsData(
                file=THERE,
                format="JSONL",
                column="review",
                texts_per_prompt=40,
                instruction="?",
                output_tokens_per_text=2,
                duplicate=100,
            ),
            {
                "texts": {
                    "file": IN_IMAGE,
                    "format": "JSONL",
                    "column": "review",
                    "textsPerPrompt": 40,
                    "instruction": "?",
                    "outputTokensPerText": 2,
                    "duplicate": 100,
                }
            },
        ),
        (
            HuggingFaceData(
                repository="a/b", revision="r", subset="s", split="test", column="c", output_tokens=5, max_rows=50
            ),
            {
                "huggingFace": {
                    "repository": "a/b",
                    "revision": "r",
                    "subset": "s",
                    "split": "test",
                    "column": "c",
                    "outputTokens": 5,
                    "maxRows": 50,
                }
            },
        ),
        (
            TimedTraceData(
                file=THERE,
                unit="Seconds",
                timestamp_field="at",
                input_tokens_field="in",
                output_tokens_field="out",
                blocks_field="ids",
                block_tokens=16,
            ),
            {
                "timedTrace": {
                    "file": IN_IMAGE,
                    "unit": "Seconds",
                    "timestampField": "at",
                    "inputTokensField": "in",
                    "outputTokensField": "out",
                    "blocksField": "ids",
                    "blockTokens": 16,
                }
            },
        ),
    ],
    ids=lambda value: value.kind if not isinstance(value, dict) else "",
)
def test_every_field_arrives(expected: Data, dataset: Json) -> None:
    assert client_data(of(dataset), ()) == expected


def test_a_mix_takes_the_datasets_of_the_workloads_it_names() -> None:
    mixed = of({"mix": [{"workload": "short", "weight": 3}, {"workload": "talk"}]}, "mixed")
    parts = [of({"agent": {"staticPrefix": {}}}, "talk"), of({"random": {}}, "short")]
    assert client_data(mixed, [mixed, *parts]) == MixData(
        parts=(
            MixPart(weight=3, data=RandomData(input_tokens=1024, output_tokens=128)),
            MixPart(weight=1, data=AgentData(variants=1)),
        )
    )


@pytest.mark.parametrize(
    ("expected", "file"),
    [
        (DataFile(path="/data/chat/configmap/c/k.json"), {"configMap": {"name": "c", "key": "k.json"}}),
        (DataFile(path="/data/chat/pvc/d/f.json"), {"pvc": {"claimName": "c", "path": "d/f.json"}}),
        (DataFile(url="https://d/x?y=1"), {"url": "https://d/x?y=1"}),
        (THERE, IN_IMAGE),
        (DataFile(s3=S3Object(bucket="data", key="k", region="us-east-1")), {"s3": {"bucket": "data", "key": "k"}}),
        (
            DataFile(
                s3=S3Object(bucket="data", key="k", region="r", endpoint="http://s", credentials="BENCHRUN_S3_CHAT")
            ),
            {
                "s3": {
                    "bucket": "data",
                    "key": "k",
                    "region": "r",
                    "endpoint": "http://s",
                    "credentialsSecretRef": {"name": "store"},
                }
            },
        ),
    ],
)
def test_a_file_is_where_the_pod_has_it(expected: DataFile, file: Json) -> None:
    data = client_data(of({"custom": {"file": file}}), ())
    assert isinstance(data, CustomData)
    assert data.file == expected


def test_files_of_workloads_never_share_a_name() -> None:
    files = [
        {"configMap": {"name": "c", "key": "k"}},
        {"s3": {"bucket": "b-b", "key": "k", "credentialsSecretRef": {"name": "s"}}},
    ]
    parts = [{"custom": {"file": file}} for file in files]
    names = ["chat", "chat-0", "0-chat", "chat--1"]
    workloads = [of(part, f"{name}-{n}") for name in names for n, part in enumerate(parts)]
    placed = placed_files(workloads)
    volumes = [volume["name"] for file in placed if (volume := file.volume())]
    mounts = [mount["mountPath"] for file in placed if (mount := file.mount())]
    variables = [variable["name"] for file in placed for variable in file.variables()]
    assert (len(set(volumes)), len(set(mounts)), len(set(variables))) == (4, 4, 12)
    assert max(map(len, volumes)) <= 63


def test_credentials_come_from_the_secret_and_may_be_missing() -> None:
    (file,) = placed_files(
        [of({"custom": {"file": {"s3": {"bucket": "data", "key": "k", "credentialsSecretRef": {"name": "store"}}}}})]
    )
    assert [(v["name"], v["valueFrom"]["secretKeyRef"]) for v in file.variables()] == [
        ("BENCHRUN_S3_CHAT_ACCESS_KEY_ID", {"name": "store", "key": "AWS_ACCESS_KEY_ID", "optional": True}),
        ("BENCHRUN_S3_CHAT_SECRET_ACCESS_KEY", {"name": "store", "key": "AWS_SECRET_ACCESS_KEY", "optional": True}),
        ("BENCHRUN_S3_CHAT_SESSION_TOKEN", {"name": "store", "key": "AWS_SESSION_TOKEN", "optional": True}),
    ]
