"""Datasets that must be accepted, and datasets that must be refused.

A refused one comes with the field that is named, and with the message where it is the project's.
"""

from typing import Any

Dataset = dict[str, Any]

FILE: Dataset = {"pvc": {"claimName": "data", "path": "rows"}}
_TEXTS: Dataset = {"file": FILE, "column": "review"}


def mix(*names: str) -> Dataset:
    """Build a mix of these workloads, in equal shares."""
    return {"mix": [{"workload": name} for name in names]}


_DRAWN: Dataset = {"mean": 1000, "stdev": 300, "min": 100, "max": 4000}


def _drawn(**changes: Any) -> Dataset:
    return {"random": {"inputLengths": {**_DRAWN, **changes}}}


REFUSED_DATASETS: dict[str, tuple[str, Dataset, str | None]] = {
    "two datasets": (
        "",
        {"random": {}, "prefixRepetition": {"prefixes": 2}},
        "must set exactly one of random, ",
    ),
    "a file from two places": (
        ".custom.file",
        {"custom": {"file": {**FILE, "path": "/data/rows"}}},
        "must set exactly one of configMap, ",
    ),
    "an agent with both kinds of prefix": (
        ".agent",
        {"agent": {"staticPrefix": {}, "dynamicPrefix": {"variants": 2}}},
        "must set exactly one of staticPrefix and dynamicPrefix",
    ),
    "answers whose mean is above their maximum": (
        ".random",
        {"random": {"outputLengths": {**_DRAWN, "mean": 4001}}},
        "mean must be from min to max",
    ),
    "a fixed length and a drawn one": (
        ".random",
        {"random": {"inputTokens": 1024, "inputLengths": _DRAWN}},
        "only one of inputTokens and inputLengths",
    ),
    "answers of a fixed length and a drawn one": (
        ".random",
        {"random": {"outputTokens": 1024, "outputLengths": _DRAWN}},
        "only one of outputTokens and outputLengths",
    ),
    "vLLM's prompts of drawn lengths": (
        ".random",
        {"random": {"generator": "VLLM", "inputLengths": _DRAWN}},
        "with generator VLLM leave out inputLengths",
    ),
    "a version of vLLM without its generator": (
        ".random",
        {"random": {"version": "0.9"}},
        "version needs generator VLLM",
    ),
    "a range of lengths for today's generator": (
        ".random",
        {"random": {"generator": "VLLM", "rangeRatio": "0.1"}},
        "rangeRatio needs generator VLLM with version",
    ),
    "a range as wide as the length": (
        ".random.rangeRatio",
        {"random": {"generator": "VLLM", "version": "0.9", "rangeRatio": "1"}},
        None,
    ),
    "a version whose generator is not known": (
        ".random.version",
        {"random": {"generator": "VLLM", "version": "0.8"}},
        None,
    ),
    "a generator unheard of": (
        ".random.generator",
        {"random": {"generator": "Sonnet"}},
        None,
    ),
    "a mean below the shortest": (
        ".random",
        _drawn(mean=99),
        "mean must be from min to max",
    ),
    "a mean above the longest": (
        ".random",
        _drawn(mean=4001),
        "mean must be from min to max",
    ),
    "no spread": (".random.inputLengths.stdev", _drawn(stdev=0), None),
    "a length as a text": (".random.inputLengths.mean", _drawn(mean="1000"), None),
    "no longest": (
        ".random.inputLengths.max",
        {"random": {"inputLengths": {**_DRAWN, "max": None}}},
        None,
    ),
    "a dataset path within the image that is relative": (
        ".custom.file.path",
        {"custom": {"file": {"path": "data/x"}}},
        None,
    ),
    "an object without a bucket": (
        ".custom.file.s3.bucket",
        {"custom": {"file": {"s3": {"key": "k"}}}},
        None,
    ),
    "a bucket in capitals": (
        ".custom.file.s3.bucket",
        {"custom": {"file": {"s3": {"bucket": "Data", "key": "k"}}}},
        None,
    ),
    "a store with a path": (
        ".custom.file.s3.endpoint",
        {
            "custom": {
                "file": {
                    "s3": {
                        "bucket": "data",
                        "key": "k",
                        "endpoint": "http://s/data",
                    }
                }
            }
        },
        None,
    ),
    "a store with a password": (
        ".custom.file.s3.endpoint",
        {
            "custom": {
                "file": {
                    "s3": {"bucket": "data", "key": "k", "endpoint": "http://a:b@s"}
                }
            }
        },
        None,
    ),
    "texts without a column": (".texts.column", {"texts": {"file": FILE}}, None),
    "no text in a prompt": (
        ".texts.textsPerPrompt",
        {"texts": {**_TEXTS, "textsPerPrompt": 0}},
        None,
    ),
    "texts of an unknown format": (
        ".texts.format",
        {"texts": {**_TEXTS, "format": "Parquet"}},
        None,
    ),
    "answers beyond all bounds": (
        ".texts",
        {"texts": {**_TEXTS, "textsPerPrompt": 10_000, "outputTokensPerText": 101}},
        "outputTokensPerText x textsPerPrompt must be at most 1000000",
    ),
    "one variant of a dynamic prefix": (
        ".agent.dynamicPrefix.variants",
        {"agent": {"dynamicPrefix": {"variants": 1}}},
        None,
    ),
    "a ratio beside a length": (
        ".agent",
        {"agent": {"staticPrefix": {}, "outputTokens": 9, "inputOutputRatio": 100}},
        "outputTokens or inputOutputRatio",
    ),
    "no turn": (".agent.turns", {"agent": {"staticPrefix": {}, "turns": 0}}, None),
    "no prefix to repeat": (
        ".prefixRepetition.prefixes",
        {"prefixRepetition": {"prefixes": 0}},
        None,
    ),
    "a hub dataset without a column": (
        ".huggingFace.column",
        {"huggingFace": {"repository": "openai/gsm8k", "outputTokens": 9}},
        None,
    ),
    "a hub dataset by its path": (
        ".huggingFace.repository",
        {
            "huggingFace": {
                "repository": "/data/x",
                "column": "c",
                "outputTokens": 9,
            }
        },
        None,
    ),
    "a trace in minutes": (
        ".timedTrace.unit",
        {"timedTrace": {"file": FILE, "unit": "Minutes"}},
        None,
    ),
    "a mix of one": (".mix", mix("a"), None),
    "a mix of nine": (".mix", mix(*"abcdefghi"), None),
    "a part that names no workload": (
        ".mix[0].workload",
        {"mix": [{"weight": 2}, {"workload": "a"}]},
        None,
    ),
    "a part without weight": (
        ".mix[0].weight",
        {"mix": [{"workload": "a", "weight": 0}, {"workload": "b"}]},
        None,
    ),
}

ACCEPTED_DATASETS: dict[str, Dataset] = {
    "prefixes": {"prefixRepetition": {"prefixes": 4, "prefixTokens": 64}},
    "an agent with its own conversation": {
        "agent": {"conversation": FILE, "staticPrefix": {}, "outputTokens": 8}
    },
    "an agent whose clock goes on": {"agent": {"dynamicPrefix": {"variants": 100}}},
    "an agent in ten turns": {
        "agent": {"staticPrefix": {}, "turns": 10, "inputOutputRatio": 100}
    },
    "talks with limits": {
        "shareGPT": {"file": FILE, "maxPromptTokens": 4000, "maxTotalTokens": 8000}
    },
    "prompts in the image": {
        "custom": {"file": {"path": "/opt/data/prompts.jsonl"}}
    },
    "prompts in a store": {
        "custom": {
            "file": {
                "s3": {
                    "bucket": "data",
                    "key": "a b/ü.jsonl",
                    "endpoint": "http://minio.storage:9000",
                    "region": "eu-1",
                    "credentialsSecretRef": {"name": "store"},
                }
            },
            "promptField": "text",
            "outputTokens": 9,
        }
    },
    "texts packed": {
        "texts": {
            **_TEXTS,
            "format": "JSONL",
            "textsPerPrompt": 40,
            "instruction": "Positive or negative?",
            "duplicate": 100,
        }
    },
    "the hub": {
        "huggingFace": {
            "repository": "openai/gsm8k",
            "subset": "main",
            "column": "question",
            "outputTokens": 9,
        }
    },
    "a trace as a list of lengths": {
        "timedTrace": {"file": FILE, "unit": "Seconds", "blockTokens": 16}
    },
}
