"""`spec.workloads[].dataset`: where prompts come from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from benchrun.api.base import Key, ObjectName, Rule, SpecModel, Unique, WorkloadName, exactly_one

# ---- files ------------------------------------------------------------------------------------------------------------
# Where a dataset's file is.

Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
FieldName = Annotated[str, Field(min_length=1, max_length=128)]
HttpUrl = Annotated[str, Field(max_length=1024, pattern=r"^https?://[^/?#@\s]+([/?][^#\s]*)?$")]


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


class SecretName(SpecModel):
    """A Secret of the run's namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class S3File(SpecModel):
    """An object in a store that speaks S3, downloaded by the client pod."""

    bucket: Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][a-z0-9.-]*[a-z0-9]$")] = Field(
        description="Name of the bucket."
    )
    key: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^/].*$")] = Field(
        description="Key of the object."
    )
    endpoint: Annotated[str, Field(max_length=253, pattern=r"^https?://[^/?#@\s]+/?$")] | None = Field(
        default=None, description="URL of the store; AWS if left out."
    )
    region: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9-]+$")] = Field(
        default="us-east-1", description="Region of the bucket; most stores of one's own don't mind."
    )
    credentials_secret_ref: SecretName | None = Field(
        default=None,
        description="Secret with the keys AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is one, AWS_SESSION_TOKEN. "
        "Left out, the object is asked for without credentials.",
    )


class DatasetFile(SpecModel):
    """Exactly one of `configMap`, `pvc`, `url`, `s3` and `path`. At most 2 GiB."""

    rules = (exactly_one("config_map", "pvc", "url", "s3", "path"),)
    config_map: ConfigMapFile | None = Field(default=None, description="A file in a ConfigMap of the run's namespace.")
    pvc: PvcFile | None = Field(
        default=None, description="A file on a claim of the run's namespace, mounted read-only."
    )
    url: HttpUrl | None = Field(default=None, description="Downloaded by the client pod.")
    s3: S3File | None = Field(default=None, description="An object in a store that speaks S3.")
    path: Annotated[str, Field(min_length=2, max_length=512, pattern=r"^/.*$")] | None = Field(
        default=None, description="A file in the client's image, or on a volume of client.pod.volumes."
    )


# ---- generated --------------------------------------------------------------------------------------------------------
# Datasets that need no file: their prompts are random words.


class RandomDataset(SpecModel):
    """No prompt shares its beginning with another, so the prefix cache stays cold; under cachePolicy Share every stage sends
    the same ones."""

    input_tokens: Tokens = Field(default=1024, description="Length of every prompt, in tokens.")
    output_tokens: Tokens = Field(default=128, description="Tokens asked for in every answer.")


class PrefixRepetitionDataset(SpecModel):
    """Random prompts that share prefixes: each stage has prefixes of its own, used in turns, and every prompt ends differently.
    The shared tokens are declared: hits on them are no contamination."""

    prefixes: Annotated[int, Field(ge=1, le=50_000)] = Field(default=10, description="Different prefixes in a stage.")
    prefix_tokens: Tokens = Field(
        default=256, description="Length of each prefix, in tokens; special tokens and chat template included."
    )
    suffix_tokens: Tokens = Field(default=256, description="Length of what follows it, in tokens.")
    output_tokens: Tokens = Field(default=128, description="Tokens asked for in every answer.")


# ---- rows -------------------------------------------------------------------------------------------------------------
# Datasets of prompts that somebody wrote: each row is used once a run.


class ShareGPTDataset(SpecModel):
    """The first turn of a conversation is the prompt. Each row is used once a run (under cachePolicy Share all stages of a
    workload send the same rows). Left out and counted: prompts and answers below 4 tokens, what is longer than the limits here
    or than the model takes, and prompts that came before."""

    file: DatasetFile = Field(description="Where the JSON file is.")
    output_tokens: Tokens | None = Field(
        default=None, description="Forces every answer to this length; the length of the row's own answer if left out."
    )
    max_prompt_tokens: Tokens = Field(
        default=1024, description="Longest prompt that is used; vLLM's own limit is 1024."
    )
    max_total_tokens: Tokens | None = Field(
        default=None,
        description="Longest prompt and answer together. Left out: 2048, as in vLLM; with outputTokens what the model takes.",
    )


class CustomDataset(SpecModel):
    """A JSON Lines file, one object a line, as `vllm bench serve --dataset-name custom` takes it. Each line is used once a run.
    Left out and counted: prompts that came before, and what is longer than the model takes. What all prompts begin with is
    measured and declared."""

    file: DatasetFile = Field(description="Where the JSON Lines file is.")
    prompt_field: FieldName = Field(default="prompt", description="Field that holds the prompt.")
    output_tokens_field: FieldName = Field(
        default="output_tokens", description="Field that holds the length to ask for; not read with outputTokens."
    )
    output_tokens: Tokens | None = Field(
        default=None, description="Tokens asked for in every answer; each line's own if left out."
    )


class HuggingFaceDataset(SpecModel):
    """A column of texts from a dataset on the Hugging Face hub. Each row is used once a run. The client's image needs the Python
    package `datasets`, which comes with vllm[bench]; a token for the hub is that of model.source.hub."""

    repository: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?$")] = (
        Field(description="Name of the dataset, for example openai/gsm8k.")
    )
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="Commit, tag or branch; name a commit to get the same rows tomorrow."
    )
    subset: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="Configuration of the dataset, where it has several."
    )
    split: Annotated[str, Field(min_length=1, max_length=64)] = Field(default="train", description="Which split.")
    column: FieldName = Field(description="Column that holds the prompt.")
    output_tokens: Tokens = Field(description="Tokens asked for in every answer.")
    max_rows: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=10_000, description="Rows read, from the first on: prompts are drawn from among them."
    )


# ---- agent ------------------------------------------------------------------------------------------------------------
# How agents talk to a model: a long history that hardly changes, and a clock that does.


class StaticPrefix(SpecModel):
    """All requests of a stage carry the same date: they are copies of one another."""


class DynamicPrefix(SpecModel):
    """Each request goes one more day back: they have only in common what stands before the date."""

    variants: Annotated[int, Field(ge=2, le=50_000)] | None = Field(
        default=None,
        description="Different dates in a stage; then they come again. Left out: every request has its own.",
    )


class AgentDataset(SpecModel):
    """One conversation, sent as one prompt up to its last answer, with time and date in front of the first user turn. Both come
    from the seed, never from the clock; the time of day is each stage's own, so stages share nothing but what stands before it.
    What requests have in common is declared. Exactly one of `staticPrefix` and `dynamicPrefix`."""

    rules = (exactly_one("static_prefix", "dynamic_prefix"),)
    conversation: DatasetFile | None = Field(
        default=None,
        description="A JSON file with one conversation, as ShareGPT (conversations) or OpenAI (messages) writes it. Left out: "
        "one of about 3000 tokens that comes with the client.",
    )
    static_prefix: StaticPrefix | None = Field(default=None, description="The same date in all requests of a stage.")
    dynamic_prefix: DynamicPrefix | None = Field(default=None, description="Another date in each request.")
    output_tokens: Tokens | None = Field(
        default=None, description="Tokens asked for; the length of the conversation's last answer if left out."
    )


# ---- texts ------------------------------------------------------------------------------------------------------------
# Texts in bulk: classify so many in one prompt, or each in its own.

MAX_TEXTS = 10_000


class TextsDataset(SpecModel):
    """Texts of one column, a line each, so many to a prompt, and an instruction behind them. Each text is used once a run: a
    stage takes requests x textsPerPrompt / duplicate of them. Left out and counted: empty texts, those that came before, and
    prompts longer than the model takes."""

    rules = (
        Rule(
            cel="self.outputTokensPerText * self.textsPerPrompt <= 1000000",
            message="outputTokensPerText x textsPerPrompt must be at most 1000000",
        ),
    )
    file: DatasetFile = Field(description="Where the CSV or JSON Lines file is.")
    format: Literal["CSV", "JSONL"] = Field(
        default="CSV", description="CSV: commas, double quotes, a header. JSONL: one JSON object a line. Both in UTF-8."
    )
    column: FieldName = Field(description="Column, or field, that holds the texts.")
    texts_per_prompt: Annotated[int, Field(ge=1, le=MAX_TEXTS)] = Field(default=1, description="Texts in one prompt.")
    instruction: Annotated[str, Field(max_length=4096)] = Field(
        default="", description="What is asked about the texts, behind the last of them."
    )
    output_tokens_per_text: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1, description="Tokens asked for: so many times textsPerPrompt."
    )
    duplicate: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1,
        description="How often each prompt is sent, one right after the other. All but the first can come from the prefix cache; "
        "that is declared, so it is no contamination.",
    )


# ---- timed trace ------------------------------------------------------------------------------------------------------
# Recorded traffic, replayed.


class TimedTraceDataset(SpecModel):
    """A JSON Lines file in which each line is a recorded request: instant, lengths of prompt and answer, and the blocks that its
    prompt was made of. The words are random; equal blocks within a stage get equal words, and that is declared. Each stage sends
    the first requests of the trace: at their instants under load.traceSpeeds, else as the load says. Left out and counted: what
    is longer than the model takes."""

    file: DatasetFile = Field(description="Where the JSON Lines file is.")
    unit: Literal["Seconds", "Milliseconds"] = Field(
        default="Milliseconds", description="Unit of the instants; they must not go back."
    )
    timestamp_field: FieldName = Field(default="timestamp", description="Field that holds the instant.")
    input_tokens_field: FieldName = Field(default="input_length", description="Field that holds the prompt's length.")
    output_tokens_field: FieldName = Field(default="output_length", description="Field that holds the answer's length.")
    blocks_field: FieldName = Field(
        default="hash_ids",
        description="Field that lists the blocks of the prompt; where a line has none, its prompt is unique.",
    )
    block_tokens: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=512, description="Tokens of a block: 512 in Mooncake's traces."
    )


# ---- union ------------------------------------------------------------------------------------------------------------

MAX_MIX_PARTS = 8


class MixPart(SpecModel):
    """Another workload, and its share of the requests."""

    workload: WorkloadName = Field(
        description="Workload of this spec whose dataset is sent: any but a mix or a timedTrace. It needs no load of its own."
    )
    weight: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1, description="Share of the requests, against the weights of the others."
    )


class Dataset(SpecModel):
    """Exactly one dataset."""

    rules = (
        exactly_one(
            "random",
            "prefix_repetition",
            "agent",
            "share_gpt",
            "custom",
            "texts",
            "hugging_face",
            "timed_trace",
            "mix",
        ),
    )
    random: RandomDataset | None = Field(default=None, description="Random tokens of fixed length.")
    prefix_repetition: PrefixRepetitionDataset | None = Field(
        default=None, description="Random tokens, many prompts beginning alike."
    )
    agent: AgentDataset | None = Field(default=None, description="One long conversation with a date in front.")
    share_gpt: ShareGPTDataset | None = Field(default=None, description="Conversations from a ShareGPT file.")
    custom: CustomDataset | None = Field(default=None, description="Prompts from a JSON Lines file.")
    texts: TextsDataset | None = Field(default=None, description="Texts of a CSV or JSON Lines column, packed.")
    hugging_face: HuggingFaceDataset | None = Field(default=None, description="Prompts from the Hugging Face hub.")
    timed_trace: TimedTraceDataset | None = Field(default=None, description="Recorded requests, replayed.")
    mix: Annotated[list[MixPart], Field(min_length=2, max_length=MAX_MIX_PARTS), Unique("workload")] | None = Field(
        default=None,
        description="The datasets of several workloads in one stream, in an order drawn by the seed. api and ignoreEOS are "
        "those of the mix.",
    )

    @property
    def file(self) -> DatasetFile | None:
        """The file it reads; None: it reads none."""
        if self.agent is not None:
            return self.agent.conversation
        reading = (self.share_gpt, self.custom, self.texts, self.timed_trace)
        return next((each.file for each in reading if each is not None), None)
