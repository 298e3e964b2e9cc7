"""Every dataset in the client's words, and its file where the pod has it."""

import pytest
from benchrun.api import Workload
from benchrun.plan import client_data, data_files
from benchrun_client.contract import (
    DATASETS,
    Data,
    DataFile,
    MixData,
    MixPartData,
    S3Object,
)
from benchrun_client.contract.datasets import AgentData, CustomData, RandomData
from pydantic.alias_generators import to_snake
from unit.plan.specs import Json, workload

IN_IMAGE: Json = {"path": "/opt/data/rows"}
THERE = DataFile(path="/opt/data/rows")


def workload_with(dataset: Json, name: str = "chat") -> Workload:
    own = {"load": {"sessions": [4]}} if "sessions" in dataset else {}
    return Workload.model_validate(workload(name, dataset=dataset, **own))


FIELDS: Json = {
    "random": {"inputTokens": 7, "outputTokens": 9, "generator": "VLLM", "seed": 0},
    "prefixRepetition": {
        "prefixes": 4,
        "prefixTokens": 5,
        "suffixTokens": 9,
        "outputTokens": 3,
    },
    "shareGPT": {
        "file": IN_IMAGE,
        "outputTokens": 2048,
        "maxPromptTokens": 4000,
        "maxTotalTokens": 9000,
    },
    "custom": {
        "file": IN_IMAGE,
        "promptField": "text",
        "outputTokensField": "n",
        "outputTokens": 3,
    },
    "texts": {
        "file": IN_IMAGE,
        "format": "JSONL",
        "column": "review",
        "textsPerPrompt": 40,
        "instruction": "?",
        "outputTokensPerText": 2,
        "duplicate": 100,
    },
    "huggingFace": {
        "repository": "a/b",
        "revision": "r",
        "subset": "s",
        "split": "test",
        "column": "c",
        "outputTokens": 5,
        "maxRows": 50,
    },
    "timedTrace": {
        "file": IN_IMAGE,
        "unit": "Seconds",
        "timestampField": "at",
        "inputTokensField": "in",
        "outputTokensField": "out",
        "blocksField": "ids",
        "blockTokens": 16,
    },
    "sessions": {
        "file": IN_IMAGE,
        "format": "Mooncake",
        "lengths": "Whole",
        "blockTokens": 16,
        "outputTokens": 9,
        "maxPauseSeconds": 5,
    },
}


@pytest.mark.parametrize(
    "kind",
    sorted({data.model_fields["kind"].default for data in DATASETS} - {"agent"}),
)
def test_every_field_arrives(kind: str) -> None:
    fields = {to_snake(name): value for name, value in FIELDS[kind].items()}
    data = client_data(workload_with({kind: FIELDS[kind]}), ())
    assert data.model_dump(exclude_none=True) == {"kind": kind, **fields}


@pytest.mark.parametrize(
    ("expected", "agent"),
    [
        (AgentData(variants=1), {"staticPrefix": {}}),
        (
            AgentData(variants=None, output_tokens=8),
            {"dynamicPrefix": {}, "outputTokens": 8},
        ),
        (
            AgentData(variants=1, turns=10, input_output_ratio=100),
            {"staticPrefix": {}, "turns": 10, "inputOutputRatio": 100},
        ),
        (
            AgentData(file=THERE, variants=100),
            {"conversation": IN_IMAGE, "dynamicPrefix": {"variants": 100}},
        ),
    ],
)
def test_an_agent_has_variants(expected: Data, agent: Json) -> None:
    assert client_data(workload_with({"agent": agent}), ()) == expected


def test_a_mix_takes_the_datasets_of_the_workloads_it_names() -> None:
    mixed = workload_with(
        {"mix": [{"workload": "short", "weight": 3}, {"workload": "talk"}]}, "mixed"
    )
    parts = [
        workload_with({"agent": {"staticPrefix": {}}}, "talk"),
        workload_with({"random": {}}, "short"),
    ]
    assert client_data(mixed, [mixed, *parts]) == MixData(
        parts=(
            MixPartData(
                weight=3, data=RandomData(input_tokens=1024, output_tokens=128)
            ),
            MixPartData(weight=1, data=AgentData(variants=1)),
        )
    )


@pytest.mark.parametrize(
    ("expected", "file"),
    [
        (
            DataFile(path="/data/chat/configmap/c/k.json"),
            {"configMap": {"name": "c", "key": "k.json"}},
        ),
        (
            DataFile(path="/data/chat/pvc/d/f.json"),
            {"pvc": {"claimName": "c", "path": "d/f.json"}},
        ),
        (DataFile(url="https://d/x?y=1"), {"url": "https://d/x?y=1"}),
        (THERE, IN_IMAGE),
        (
            DataFile(s3=S3Object(bucket="data", key="k", region="us-east-1")),
            {"s3": {"bucket": "data", "key": "k"}},
        ),
        (
            DataFile(
                s3=S3Object(
                    bucket="data",
                    key="k",
                    region="r",
                    endpoint="http://s",
                    credentials="BENCHRUN_S3_CHAT",
                )
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
    data = client_data(workload_with({"custom": {"file": file}}), ())
    assert isinstance(data, CustomData)
    assert data.file == expected


def test_files_of_workloads_never_share_a_name() -> None:
    files = [
        {"configMap": {"name": "c", "key": "k"}},
        {
            "s3": {
                "bucket": "b-b",
                "key": "k",
                "credentialsSecretRef": {"name": "s"},
            }
        },
    ]
    parts = [{"custom": {"file": file}} for file in files]
    names = ["chat", "chat-0", "0-chat", "chat--1"]
    workloads = [
        workload_with(part, f"{name}-{n}")
        for name in names
        for n, part in enumerate(parts)
    ]
    placed = data_files(workloads)
    volumes = [volume["name"] for file in placed for volume in file.volumes]
    mounts = [mount["mountPath"] for file in placed for mount in file.mounts]
    variables = [variable["name"] for file in placed for variable in file.env]
    assert (len(set(volumes)), len(set(mounts)), len(set(variables))) == (4, 4, 12)
    assert max(map(len, volumes)) <= 63


def test_credentials_come_from_the_secret_and_may_be_missing() -> None:
    (file,) = data_files(
        [
            workload_with(
                {
                    "custom": {
                        "file": {
                            "s3": {
                                "bucket": "data",
                                "key": "k",
                                "credentialsSecretRef": {"name": "store"},
                            }
                        }
                    }
                }
            )
        ]
    )
    assert [(v["name"], v["valueFrom"]["secretKeyRef"]) for v in file.env] == [
        (
            "BENCHRUN_S3_CHAT_ACCESS_KEY_ID",
            {"name": "store", "key": "AWS_ACCESS_KEY_ID", "optional": True},
        ),
        (
            "BENCHRUN_S3_CHAT_SECRET_ACCESS_KEY",
            {"name": "store", "key": "AWS_SECRET_ACCESS_KEY", "optional": True},
        ),
        (
            "BENCHRUN_S3_CHAT_SESSION_TOKEN",
            {"name": "store", "key": "AWS_SESSION_TOKEN", "optional": True},
        ),
    ]
