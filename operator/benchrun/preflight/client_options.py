"""Hints for options and flags in the wrong place; each says what to write instead.

These are options of `vllm bench serve` among the server's flags, and server flags or client options
as fields of the spec.
"""

import re
from collections.abc import Iterable, Mapping

_FIELDS: Mapping[str, str] = {
    "max-concurrency": "workloads[].load.concurrencies, or load.maxConcurrency beside a rate",
    "num-prompts": "workloads[].requests",
    "request-rate": "workloads[].load.requestRates",
    "burstiness": "workloads[].load.burstiness",
    "ramp-up": "workloads[].load.requestRates",
    "random": "workloads[].dataset.random",
    "input-len": "workloads[].dataset.random.inputTokens",
    "output-len": "outputTokens of the workload's dataset",
    "sharegpt": "workloads[].dataset.shareGPT",
    "custom": "workloads[].dataset.custom",
    "hf": "workloads[].dataset.huggingFace",
    "prefix-repetition": "workloads[].dataset.prefixRepetition",
    "timed-trace": "workloads[].dataset.timedTrace",
    "dataset": "workloads[].dataset",
    "ignore-eos": "workloads[].ignoreEOS",
    "temperature": "workloads[].sampling",
    "top": "workloads[].sampling",
    "min-p": "workloads[].sampling",
    "logprobs": "workloads[].sampling.logprobs",
    "metadata": "metadata.labels, which report and export have",
    "frequency-penalty": "workloads[].sampling",
    "presence-penalty": "workloads[].sampling",
    "repetition-penalty": "workloads[].sampling",
    "extra-body": "workloads[].request.extraBody",
    "goodput": "objectives",
    "num-warmups": "measurement.warmup",
    "profile": "measurement.profile",
    "base-url": "endpoint.url",
    "lora": "workloads[].request.adapters",
}
"""Option's name, or the beginning of the name -> field of the spec that sets the same."""


def client_hint(option: str) -> str:
    """Return a sentence that says what to write instead of an option of the client."""
    name = option.lstrip("-").removeprefix("no-")
    begins = sorted((each for each in _FIELDS if name.startswith(each)), key=len)
    remedy = (
        f"set spec.{_FIELDS[begins[-1]]}"
        if begins
        else "the report shows this anyway"
    )
    return (
        f"{option} is an option of `vllm bench serve`, not of the server: remove the option; "
        f"{remedy}"
    )


def field_hint(
    path: str, name: str, *, flags: Iterable[str], options: Iterable[str]
) -> str | None:
    """Return a hint for an unknown field that is named like a server flag or a client option.

    Returns None if it is named like neither.
    """
    dashed = (
        "--"
        + re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", name).replace("_", "-").lower()
    )
    if dashed in flags and not re.match(
        r"spec(?:\.template)?\.(?:server|offline)$", path
    ):
        return f"a flag of the server: put {dashed} into spec.server.args"
    if dashed in options:
        return client_hint(dashed)
    return None
