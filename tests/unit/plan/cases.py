"""The experiments whose manifests are kept as golden files.

They have every source, every dataset and every target.
"""

from unit.plan.specs import (
    Json,
    concurrencies,
    endpoint_body,
    rates,
    spec_body,
    workload,
)


def _share_gpt(file: Json) -> Json:
    return workload(
        "talk",
        dataset={"shareGPT": {"file": file, "outputTokens": 32}},
        load=rates("2"),
        requests=20,
    )


_OBJECT: Json = {
    "s3": {
        "bucket": "data",
        "key": "c.json",
        "credentialsSecretRef": {"name": "store"},
    }
}

CASES: dict[str, Json] = {
    "hub-with-token": spec_body(
        model={
            "name": "meta-llama/Llama-3.1-8B",
            "revision": "main",
            "source": {"hub": {"tokenSecretRef": {"name": "hf"}}},
        }
    ),
    "hub-cache": spec_body(
        model={
            "name": "meta-llama/Llama-3.1-8B",
            "revision": "main",
            "source": {
                "hub": {
                    "tokenSecretRef": {"name": "hf"},
                    "endpoint": "https://hub.example",
                    "cacheClaim": "models",
                }
            },
        }
    ),
    "pvc": spec_body(
        model={
            "name": "qwen",
            "source": {"pvc": {"claimName": "models", "path": "qwen3-4b"}},
            "servedName": "Qwen/Qwen3-4B",
        }
    ),
    "image-volume": spec_body(
        model={
            "name": "qwen",
            "source": {
                "imageVolume": {"reference": "registry.example/models/qwen:1"}
            },
        }
    ),
    "client-env": spec_body(
        client={
            "env": [
                {"name": "HF_HUB_DISABLE_XET", "value": "1"},
                {
                    "name": "CORPORATE_CA",
                    "valueFrom": {
                        "configMapKeyRef": {"name": "ca", "key": "ca.crt"}
                    },
                },
            ],
        }
    ),
    "path": spec_body(
        model={
            "name": "tiny",
            "source": {"path": {"path": "/models/tiny"}},
            "tokenizer": "/models/tokenizer",
        }
    ),
    "sharegpt-configmap": spec_body(
        workloads=[
            _share_gpt({"configMap": {"name": "talks", "key": "talks.json"}})
        ]
    ),
    "sharegpt-pvc": spec_body(
        workloads=[
            _share_gpt(
                {"pvc": {"claimName": "data", "path": "sharegpt/talks.json"}}
            )
        ]
    ),
    "dataset-files": spec_body(
        workloads=[
            workload(
                "mixed",
                dataset={
                    "mix": [
                        {"workload": "short", "weight": 2},
                        {"workload": "prompts"},
                        {"workload": "reviews"},
                        {"workload": "talks"},
                    ]
                },
                load=rates("1"),
                requests=20,
            ),
            {"name": "short", "dataset": {"random": {}}},
            {
                "name": "prompts",
                "dataset": {
                    "custom": {
                        "file": {"configMap": {"name": "prompts", "key": "a.jsonl"}}
                    }
                },
            },
            {
                "name": "reviews",
                "dataset": {
                    "texts": {
                        "file": {"pvc": {"claimName": "data", "path": "b.csv"}},
                        "column": "review",
                    }
                },
            },
            {"name": "talks", "dataset": {"shareGPT": {"file": _OBJECT}}},
            workload(
                "replayed",
                dataset={"timedTrace": {"file": _OBJECT, "unit": "Seconds"}},
                load={"traceSpeeds": ["1", "2.0"]},
                requests=20,
            ),
        ]
    ),
    "every-dataset": spec_body(
        workloads=[
            workload(
                "prefixes",
                dataset={"prefixRepetition": {"prefixes": 4}},
                load=concurrencies(1, 8),
            ),
            workload(
                "daily", dataset={"agent": {"staticPrefix": {}, "outputTokens": 8}}
            ),
            workload(
                "clock",
                dataset={
                    "agent": {
                        "conversation": {"path": "/opt/talk.json"},
                        "dynamicPrefix": {"variants": 9},
                    }
                },
            ),
            workload(
                "lines",
                dataset={
                    "custom": {
                        "file": {"path": "/opt/prompts.jsonl"},
                        "promptField": "text",
                    }
                },
            ),
            workload(
                "reviews",
                dataset={
                    "texts": {
                        "file": {"url": "https://data.example/r.csv"},
                        "column": "review",
                        "textsPerPrompt": 4,
                    }
                },
                requests=None,
                durationSeconds=30,
            ),
            workload(
                "hub",
                dataset={
                    "huggingFace": {
                        "repository": "openai/gsm8k",
                        "column": "question",
                        "outputTokens": 9,
                    }
                },
            ),
            workload(
                "agents",
                dataset={
                    "sessions": {
                        "file": {"path": "/opt/talks.jsonl"},
                        "format": "Turns",
                    }
                },
                load={"sessions": [4]},
            ),
        ],
        measurement={"warmup": {"none": {}}},
    ),
    "short-warm-up": spec_body(
        measurement={"warmup": {"auto": {"maxSeconds": 5}}, "seed": 7}
    ),
    "replicas": spec_body(
        server={
            "image": "vllm/vllm-openai:v0.32.0",
            "replicas": 3,
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        }
    ),
    "many-nodes": spec_body(
        server={
            "image": "vllm/vllm-openai:v0.32.0",
            "replicas": 2,
            "nodesPerReplica": 2,
            "args": ["--tensor-parallel-size=8", "--pipeline-parallel-size=2"],
            "resources": {"limits": {"nvidia.com/gpu": 8, "rdma/ib": 8}},
            "sharedMemory": "32Gi",
        },
        measurement={"cachePolicy": "Reset"},
    ),
    "command": spec_body(
        server={
            "image": "vllm/vllm-openai:v0.8.4",
            "command": [
                "python3",
                "-m",
                "vllm.entrypoints.openai.api_server",
                "--model",
                "$(MODEL)",
            ],
            "args": ["--dtype=half"],
        },
        chatTemplate={
            "inline": "{% for m in messages %}{{ m.content }}{% endfor %}"
        },
    ),
    "chat-template-configmap": spec_body(
        chatTemplate={"configMap": {"name": "templates", "key": "chat.jinja"}},
        workloads=[workload(api="Chat")],
    ),
    "offline": spec_body(
        server=None,
        offline={
            "image": "vllm/vllm-openai:v0.32.0",
            "args": ["--max-num-batched-tokens=16000"],
            "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "INFO"}],
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "sharedMemory": "8Gi",
        },
        workloads=[
            workload("packed", load=rates("inf")),
            workload(
                "batches", load={"batchSizes": [1, 16]}, requests=32, api="Chat"
            ),
        ],
    ),
    "sharegpt-url": spec_body(
        workloads=[_share_gpt({"url": "https://data.example/talks.json"})]
    ),
    "endpoint-url": endpoint_body(
        {
            "url": "https://llm.example/base/",
            "apiKeySecretRef": {"name": "llm", "key": "api-key"},
            "caConfigMapRef": {"name": "company-ca"},
        }
    ),
    "endpoint-gateway": endpoint_body(
        {
            "url": "https://gateway.example/tenant-a",
            "caConfigMapRef": {"name": "company-ca"},
            "clientCertificateSecretRef": {"name": "pair"},
            "headers": [
                {"name": "X-Tenant", "value": "bench"},
                {"name": "X-Api-Key", "secretKeyRef": {"name": "keys", "key": "k"}},
            ],
            "query": [{"name": "api-version", "value": "2026-01-01"}],
            "metrics": {"pods": {"labels": {"app": "chat"}}},
        }
    ),
    "endpoint-pages": endpoint_body(
        {
            "url": "http://gateway.example",
            "metrics": {"urls": ["http://replica-0:8000/metrics"]},
        }
    ),
    "endpoint-service": endpoint_body(
        {"serviceRef": {"name": "qwen-prod", "port": 8080}}
    ),
    "env-and-placement": spec_body(
        server={
            "image": "vllm/vllm-openai:v0.32.0",
            "args": ["--max-model-len=12000", "--no-enable-prefix-caching"],
            "env": [
                {"name": "VLLM_LOGGING_LEVEL", "value": "DEBUG"},
                {"name": "HOME", "value": "/data/home"},
                {
                    "name": "KEY",
                    "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}},
                },
            ],
            "resources": {
                "limits": {"nvidia.com/gpu": 2, "memory": "64Gi"},
                "requests": {"cpu": "8"},
            },
            "sharedMemory": "16Gi",
            "pod": {
                "nodeSelector": {"gpu": "h100"},
                "tolerations": [
                    {
                        "key": "nvidia.com/gpu",
                        "operator": "Exists",
                        "effect": "NoSchedule",
                    }
                ],
                "runtimeClassName": "nvidia",
                "priorityClassName": "benchmarks",
                "imagePullSecrets": ["pull"],
                "volumes": [
                    {
                        "name": "cache",
                        "persistentVolumeClaim": {"claimName": "cache"},
                    }
                ],
                "volumeMounts": [{"name": "cache", "mountPath": "/data"}],
            },
        },
        client={
            "image": "registry.example/client:1",
            "resources": {"limits": {"cpu": "4", "memory": "8Gi"}},
            "pod": {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "kubernetes.io/hostname",
                                "labelSelector": {
                                    "matchLabels": {"benchrun.dev/role": "server"}
                                },
                            }
                        ]
                    }
                },
                "schedulerName": "batch",
                "serviceAccountName": "bench",
            },
        },
        workloads=[
            workload(
                load=rates("1", "4", "inf")
                | {"maxConcurrency": 64, "burstiness": "0.5"},
                api="Chat",
            )
        ],
        repeats=2,
        pendingDeadlineSeconds=600,
    ),
    "reset": spec_body(
        measurement={"cachePolicy": "Reset"},
        workloads=[workload(load=rates("1", "4"))],
        repeats=2,
    ),
    "shards-in-one-pod": spec_body(
        client={
            "parallelism": 4,
            "resources": {"requests": {"cpu": "4"}, "limits": {"memory": "12Gi"}},
        },
        workloads=[workload(load=concurrencies(500))],
    ),
    "shards-in-pods": spec_body(
        client={"parallelism": "Auto"},
        workloads=[workload(load=rates("50", "250"))],
    ),
    "search": spec_body(
        workloads=[
            workload("listed", load=rates("2")),
            workload(
                load={
                    "search": {
                        "axis": "RequestRate",
                        "from": "0.50",
                        "to": "16",
                        "maxProbes": 3,
                        "maxRepeats": 2,
                    }
                }
            ),
        ],
        objectives=[{"metric": "TTFT", "percentile": "95", "maxMilliseconds": 500}],
    ),
    "share": spec_body(
        measurement={"cachePolicy": "Share", "order": "AsListed"}, repeats=2
    ),
}
ENDPOINT_ADDRESSES = {
    "endpoint-gateway": ("10.0.0.7:8000", "10.0.0.8:8000"),
    "endpoint-service": ("10.0.0.7:8080", "10.0.0.8:8080"),
}
