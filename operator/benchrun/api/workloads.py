"""`spec.workloads`: what is sent, how fast, how often."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from benchrun.api.base import DIFFERENT_NUMBERS, DnsLabel, Key, ObjectName, PositiveDecimal, Rate, SpecModel
from benchrun.api.rules import Rule, Unique, exactly_one

MAX_LOAD_POINTS = 32
MAX_WORKLOADS = 16
MAX_CELLS = 64
MAX_STAGES = 256
MAX_REQUESTS = 50_000
"""Requests of one stage."""

Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
Concurrency = Annotated[int, Field(ge=1, le=100_000)]
Concurrencies = Annotated[list[Concurrency], Field(min_length=1, max_length=MAX_LOAD_POINTS), Unique()]
Rates = Annotated[list[Rate], Field(min_length=1, max_length=MAX_LOAD_POINTS), Unique(), DIFFERENT_NUMBERS]


class RandomDataset(SpecModel):
    """No prompt shares its beginning with another, so the prefix cache stays cold; under cachePolicy Share every stage sends
    the same ones."""

    input_tokens: Tokens = Field(default=1024, description="Length of every prompt, in tokens.")
    output_tokens: Tokens = Field(default=128, description="Tokens asked for in every answer.")


class ConfigMapFile(SpecModel):
    """A file in a ConfigMap of the run's namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    key: Key = Field(description="Key that holds the file.")


class PvcFile(SpecModel):
    """A file on a claim of the run's namespace, mounted read-only."""

    claim_name: ObjectName = Field(description="Name of the PersistentVolumeClaim.")
    path: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^/].*$")] = Field(
        description="Path within the claim."
    )


class DatasetFile(SpecModel):
    """Exactly one of `configMap`, `pvc` and `url`."""

    rules = (exactly_one("config_map", "pvc", "url"),)
    config_map: ConfigMapFile | None = Field(default=None, description="A file in a ConfigMap of the run's namespace.")
    pvc: PvcFile | None = Field(
        default=None, description="A file on a claim of the run's namespace, mounted read-only."
    )
    url: Annotated[str, Field(max_length=1024, pattern=r"^https?://[^/?#@\s]+([/?][^#\s]*)?$")] | None = Field(
        default=None, description="Downloaded by the client pod."
    )


class ShareGPTDataset(SpecModel):
    """The first turn of a conversation is the prompt. Each row is used once a run (under cachePolicy Share all stages of a
    workload send the same rows). Left out: prompts and answers below 4 tokens, prompts above 1024, more than 2048 in all."""

    file: DatasetFile = Field(description="Where the JSON file is.")
    output_tokens: Tokens | None = Field(
        default=None, description="Forces every answer to this length; the length of the row's own answer if left out."
    )


class Dataset(SpecModel):
    """Exactly one of `random` and `shareGPT`."""

    rules = (exactly_one("random", "share_gpt"),)
    random: RandomDataset | None = Field(default=None, description="Random tokens of fixed length.")
    share_gpt: ShareGPTDataset | None = Field(default=None, description="Conversations from a ShareGPT file.")


class Load(SpecModel):
    """Load points: request rates (open loop) or concurrencies (closed loop)."""

    rules = (
        exactly_one("request_rates", "concurrencies"),
        Rule(
            cel="!has(self.maxConcurrency) || has(self.requestRates)",
            holds=lambda load: load.max_concurrency is None or load.request_rates is not None,
            message="maxConcurrency caps requestRates; remove it",
        ),
        Rule(
            cel="!has(self.burstiness) || has(self.requestRates)",
            holds=lambda load: load.burstiness is None or load.request_rates is not None,
            message="burstiness shapes requestRates; remove it",
        ),
    )
    request_rates: Rates | None = Field(
        default=None, description='Requests a second, each a load point: decimals above 0, or "inf" for all at once.'
    )
    max_concurrency: Concurrency | None = Field(
        default=None, description="Most requests in flight at once; further arrivals wait in the client."
    )
    burstiness: PositiveDecimal | None = Field(
        default=None,
        description="Shape of the gaps between arrivals: 1 is Poisson (the default), below 1 is burstier, above 1 more even.",
    )
    concurrencies: Concurrencies | None = Field(
        default=None, description="Users that each send the next request when the last was answered; each a load point."
    )


class Workload(SpecModel):
    """One kind of traffic, measured at every load point."""

    rules = (
        exactly_one("requests", "duration_seconds"),
        Rule(
            cel="!has(self.durationSeconds) || (has(self.load.requestRates) && self.load.requestRates.all(r, r != 'inf'))",
            holds=lambda workload: workload.duration_seconds is None or _rates_are_finite(workload.load),
            message="durationSeconds needs finite requestRates; use requests instead",
        ),
        Rule(
            cel="!has(self.durationSeconds) || !has(self.load.requestRates) || self.load.requestRates.all("
            f"r, r == 'inf' || double(r) * double(self.durationSeconds) <= {MAX_REQUESTS}.0)",
            holds=lambda workload: (
                workload.duration_seconds is None
                or not _rates_are_finite(workload.load)
                or _highest_rate(workload.load) * workload.duration_seconds <= MAX_REQUESTS
            ),
            message=f"rate x durationSeconds must be at most {MAX_REQUESTS} requests a stage",
        ),
    )
    name: Annotated[DnsLabel, Field(max_length=40)] = Field(description="Name of the workload, part of every stage id.")
    dataset: Dataset = Field(description="What the requests say.")
    load: Load = Field(description="How the requests arrive.")
    requests: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] | None = Field(
        default=None, description="Requests of each stage."
    )
    duration_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = Field(
        default=None, description="Instead of requests: how long each stage sends, at a finite rate."
    )
    api: Literal["Completions", "Chat"] = Field(
        default="Completions", description="Endpoint: /v1/completions or /v1/chat/completions."
    )
    ignore_eos: bool = Field(
        default=True, description="Whether answers run to the length asked for, or end where the model ends them."
    )


def _rates_are_finite(load: Load) -> bool:
    return load.request_rates is not None and "inf" not in load.request_rates


def _highest_rate(load: Load) -> float:
    return max(float(rate) for rate in load.request_rates or ["0"])
