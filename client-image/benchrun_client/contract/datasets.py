"""The models of all datasets, with the fields, bounds and defaults of both the plan and the spec.

The API derives the datasets of a spec from these models (`benchrun.api.datasets`): camelCase,
without `kind`, and with the file in any place that a spec can name. Docstrings and descriptions
become those of the CustomResourceDefinition.
"""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from benchrun_client.contract.base import (
    Count,
    Hex,
    LeavesOut,
    LongText,
    Message,
    ShortText,
)

# Of a prompt, an answer or a part of them, in tokens.
Length = Annotated[int, Field(ge=1, le=10_000_000)]
FieldName = Annotated[str, Field(min_length=1, max_length=128)]


class S3Object(Message):
    """An object in a store that speaks S3."""

    bucket: LongText
    key: LongText
    endpoint: LongText | None = None  # URL of the store; None is AWS.
    region: LongText
    credentials: LongText | None = None
    """Prefix of the environment variables with the credentials; None: requests are not signed."""


class DataFile(Message):
    """Where a file is: exactly one of the fields is set."""

    # In the client's container: in its image, or on a volume.
    path: LongText | None = None
    url: LongText | None = None
    s3: S3Object | None = None

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if sum(place is not None for place in (self.path, self.url, self.s3)) != 1:
            raise ValueError("a file has exactly one of path, url and s3")
        return self


class DatasetFields(Message):
    """The base class of all datasets but the mix.

    It lists the facts about a dataset that other modules ask for. A subclass must give each fact
    that has no value here: a class that lacks one is refused when it is defined, so that no new
    kind of dataset is handled by a wrong default.
    """

    kind: ShortText  # Its name in plan and spec.
    is_random_text: ClassVar[bool]  # Whether prompts are, or may be, random words.
    # Whether as many prompts are made up as are wanted.
    is_unlimited: ClassVar[bool]
    # Whether rows come from the hub, where they may change.
    reads_hub: ClassVar[bool]
    # Whether rows that are too long for the model are left out.
    drops_long_rows: ClassVar[bool]
    is_mixable: ClassVar[bool]  # Whether it can be a part of a mix.
    sends_again_in_spec: ClassVar[str] = ""
    """CEL: whether `sends_again` is true, for the dataset `self` of a spec; empty: it never is."""
    rules_in_spec: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Rules between fields of a spec: a CEL expression, and the message if it is false."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Raise TypeError for a dataset that does not state every fact.

        A fact need not be stated if this base class has a value for it.
        """
        asked = (
            "is_random_text",
            "is_unlimited",
            "reads_hub",
            "drops_long_rows",
            "is_mixable",
        )
        missing = [name for name in asked if not hasattr(cls, name)]
        if getattr(cls.longest, "__isabstractmethod__", False):
            missing.append("longest")
        may_send_again = cls.sends_again is not DatasetFields.sends_again
        if may_send_again != bool(cls.sends_again_in_spec):
            missing.append("both sends_again and sends_again_in_spec")
        if missing:
            raise TypeError(f"{cls.__name__} does not state {', '.join(missing)}")

    @property
    @abstractmethod
    def longest(self) -> tuple[int | None, int | None]:
        """Return the tokens of the longest prompt and the longest answer.

        None: the length depends on the data.
        """

    @property
    def sends_again(self) -> bool:
        """Return whether every stage sends the same prompts under any cachePolicy."""
        return False

    @property
    def has_random_words(self) -> bool:
        """Return whether the prompts of this dataset are random words."""
        return self.is_random_text

    @property
    def rows_per_prompt(self) -> int:
        """Return how many rows make a prompt."""
        return 1

    @property
    def copies(self) -> int:
        """Return how many times in a row each prompt is sent."""
        return 1

    def for_warmup(self) -> Self:
        """Return a dataset for the warm-up, whose prompts no stage may send."""
        return self


# Generated: prompts of random words.


class DrawnLengths(Message):
    """Drawn from a normal distribution that is cut at min and max; lengths are in tokens."""

    model_config = ConfigDict(strict=True)
    mean: Length = Field(description="Mean before cutting at min and max.")
    stdev: Length = Field(description="Standard deviation.")
    min: Length = Field(description="Shortest.")
    max: Length = Field(description="Longest.")


class RandomData(DatasetFields, LeavesOut):
    """Random tokens, of fixed or drawn length.

    No prompt shares its beginning with another, so the prefix cache stays cold.
    """

    left_out: ClassVar[frozenset[str]] = frozenset(
        {"version", "range_ratio", "rangeRatio"}
    )
    sends_again_in_spec = "has(self.seed)"
    is_random_text = True
    is_unlimited = True
    reads_hub = False
    drops_long_rows = False
    is_mixable = True
    rules_in_spec = (
        (
            "!(has(self.inputTokens) && has(self.inputLengths)) && !(has(self.outputTokens) && "
            "has(self.outputLengths))",
            "set only one of inputTokens and inputLengths, and only one of "
            "outputTokens and outputLengths",
        ),
        *(
            (
                f"!has({of}) || ({of}.min <= {of}.mean && {of}.mean <= {of}.max)",
                "mean must be from min to max",
            )
            for of in ("self.inputLengths", "self.outputLengths")
        ),
        (
            "self.generator == 'VLLM' ? !has(self.inputLengths) && !has(self.outputLengths) : "
            "!has(self.seed)",
            "with generator VLLM leave out inputLengths and outputLengths; without it "
            "leave out seed",
        ),
        (
            "self.generator == 'VLLM' || !has(self.version)",
            "version needs generator VLLM",
        ),
        (
            "!has(self.rangeRatio) || (has(self.version) && self.version == '0.9')",
            "rangeRatio needs generator VLLM with version '0.9'",
        ),
    )
    kind: Literal["random"] = "random"
    generator: Literal["Distinct", "VLLM"] = Field(
        "Distinct",
        description="VLLM: as `vllm bench serve --dataset-name random`; prompts may repeat.",
    )
    version: Literal["0.9", "0.32"] | None = Field(
        None,
        description="Whose generator: 0.32 (default) or 0.9, that of benchmark_serving.py in "
        "June 2025, where the beginnings depend on lengths and requests.",
    )
    range_ratio: (
        Annotated[str, Field(max_length=8, pattern=r"^0(\.[0-9]{1,6})?$")] | None
    ) = Field(
        None,
        description="Its --random-range-ratio: lengths from (1 - ratio) to (1 + ratio) times.",
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(
        None,
        description="Its --seed, in every stage; workloads with equal seeds send equal beginnings.",
    )
    input_lengths: DrawnLengths | None = Field(
        None, description="Instead of inputTokens."
    )
    output_lengths: DrawnLengths | None = Field(
        None, description="Instead of outputTokens."
    )
    input_tokens: Length | None = Field(
        None,
        validate_default=True,
        description="Length of every prompt, in tokens; 1024 without inputLengths.",
    )
    output_tokens: Length | None = Field(
        None,
        validate_default=True,
        description="Tokens requested for every answer; 128 without outputLengths.",
    )

    @property
    def longest(self) -> tuple[int, int]:
        """Return the tokens of the longest prompt and the longest answer."""
        return self.input.max, self.output.max

    @property
    def sends_again(self) -> bool:
        """Return whether the dataset has a seed of its own, which every stage uses."""
        return self.seed is not None

    def for_warmup(self) -> Self:
        """Return prompts that no stage sends, whatever the seed and the generator."""
        own = {
            "generator": "Distinct",
            "version": None,
            "range_ratio": None,
            "seed": None,
        }
        return self.model_copy(update=own)

    @field_validator("input_tokens", "output_tokens")
    @classmethod
    def _fixed(cls, tokens: int | None, info: ValidationInfo) -> int | None:
        lengths, default = (
            ("input_lengths", 1024)
            if info.field_name == "input_tokens"
            else ("output_lengths", 128)
        )
        return (
            default if tokens is None and info.data.get(lengths) is None else tokens
        )

    @property
    def input(self) -> DrawnLengths:
        """Return the distribution of prompt lengths; a fixed length is its mean, min and max."""
        return self.input_lengths or _around(self.input_tokens, self.range_ratio)

    @property
    def output(self) -> DrawnLengths:
        """Return the distribution of requested answer lengths; see `input` for a fixed length."""
        return self.output_lengths or _around(self.output_tokens, self.range_ratio)


def _around(tokens: int | None, ratio: str | None) -> DrawnLengths:
    assert tokens is not None, "where no lengths are drawn the length is fixed"
    low, high = length_range(tokens, ratio)
    return DrawnLengths(mean=tokens, stdev=1, min=max(low, 1), max=high)


def length_range(tokens: int, ratio: str | None) -> tuple[int, int]:
    """Return the least and the greatest length that vLLM 0.9 draws, rounded like vLLM's."""
    part = float(ratio or 0)
    return int(tokens * (1 - part)), int(tokens * (1 + part))


class PrefixRepetitionData(DatasetFields):
    """Random tokens, many prompts beginning alike.

    Each stage has its own prefixes, used in turns, and every prompt ends differently. Hits on the
    shared tokens do not count as contamination.
    """

    is_random_text = True
    is_unlimited = True
    reads_hub = False
    drops_long_rows = False
    is_mixable = True

    kind: Literal["prefixRepetition"] = "prefixRepetition"
    prefixes: Annotated[int, Field(ge=1, le=50_000)] = Field(
        10, description="Different prefixes in a stage."
    )
    prefix_tokens: Length = Field(
        256,
        description="Length of each prefix, with special tokens and chat template.",
    )
    suffix_tokens: Length = Field(
        256, description="Length of what follows it, in tokens."
    )
    output_tokens: Length = Field(
        128, description="Tokens requested for every answer."
    )

    @property
    def longest(self) -> tuple[int, int]:
        """Return the tokens of the longest prompt and the longest answer."""
        return self.prefix_tokens + self.suffix_tokens, self.output_tokens


class AgentData(DatasetFields):
    """One long conversation, with date and time in front of its first user turn.

    A spec has other fields for these values (`benchrun.api.datasets.AgentDataset`).
    """

    is_random_text = False
    is_unlimited = False
    reads_hub = False
    drops_long_rows = False
    is_mixable = True

    kind: Literal["agent"] = "agent"
    # None stands for the conversation that comes with the client.
    file: DataFile | None = None
    variants: Count | None = Field(None, ge=1)
    """Number of different dates in a stage; 1 is a static prefix. None: each request has its own
    date."""
    turns: Annotated[int, Field(ge=1, le=64)] = 1
    """Requests of a conversation, each with more of it than the one before. 1: a single request
    with everything before the last answer."""
    # None stands for the length of the next answer in the conversation.
    output_tokens: Length | None = None
    input_output_ratio: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Input tokens for each output token that is requested, instead of output_tokens; 100 is common
    for agents."""

    @property
    def longest(self) -> tuple[None, None]:
        """Return None twice: both lengths depend on the conversation."""
        return None, None


# Read from files or the hub: each row is used once a run.


SHARE_GPT_TOTAL_TOKENS = 2048
"""vLLM's limit where none is set and each row has its own answer length."""


class ShareGPTData(DatasetFields, LeavesOut):
    """Conversations from a ShareGPT file.

    The first turn of a conversation is the prompt. Each row is used once a run (under cachePolicy
    Share all stages of a workload send the same rows). Skipped and counted: prompts and answers
    below 4 tokens, what is longer than the limits or the model takes, and prompts that came before
    (not under Share).
    """

    left_out: ClassVar[frozenset[str]] = frozenset({"seed"})
    sends_again_in_spec = "has(self.seed)"
    is_random_text = False
    is_unlimited = False
    reads_hub = False
    drops_long_rows = True
    is_mixable = True

    kind: Literal["shareGPT"] = "shareGPT"
    file: DataFile = Field(description="Where the JSON file is.")
    output_tokens: Length | None = Field(
        None,
        description=(
            "Forces every answer to this length; the length of the row's own answer if left out."
        ),
    )
    max_prompt_tokens: Length = Field(
        1024, description="Longest prompt that is used; vLLM's own limit is 1024."
    )
    max_total_tokens: Length | None = Field(
        None,
        description=(
            "Longest prompt and answer together. Left out: 2048, as in vLLM; with outputTokens "
            "what the model takes."
        ),
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(
        None,
        description="As vLLM's benchmarks with this --seed: their rows in their order, equal ones "
        "too; the same in every stage and workload with it.",
    )

    @property
    def longest(self) -> tuple[int, int]:
        """Return the tokens of the longest prompt and the longest answer."""
        rest = max(
            1,
            (self.max_total_tokens or SHARE_GPT_TOTAL_TOKENS)
            - self.max_prompt_tokens,
        )
        return self.max_prompt_tokens, self.output_tokens or rest

    @property
    def sends_again(self) -> bool:
        """Return whether the rows are drawn by vLLM's sampler, with the dataset's own seed."""
        return self.seed is not None


class CustomData(DatasetFields):
    """Prompts from a JSON Lines file, as `vllm bench serve --dataset-name custom` takes it.

    One object a line. Each line is used once a run. Skipped and counted: prompts that came before,
    and what is longer than the model takes. Hits on what all prompts begin with do not count as
    contamination.
    """

    is_random_text = False
    is_unlimited = False
    reads_hub = False
    drops_long_rows = True
    is_mixable = True

    kind: Literal["custom"] = "custom"
    file: DataFile = Field(description="Where the JSON Lines file is.")
    prompt_field: FieldName = Field(
        "prompt", description="Field that holds the prompt."
    )
    output_tokens_field: FieldName = Field(
        "output_tokens",
        description="Field with the tokens to request; unused with outputTokens.",
    )
    output_tokens: Length | None = Field(
        None,
        description="Tokens requested for every answer; by default each line's.",
    )

    @property
    def longest(self) -> tuple[None, int | None]:
        """Return the tokens of every answer if they are fixed; the prompts' depend on the data."""
        return None, self.output_tokens


COPY = "{copy}"
"""Placeholder in an instruction of `texts` for the number of the prompt's copy, from 0 on."""


class TextsData(DatasetFields, LeavesOut):
    """Texts of a CSV or JSON Lines column, packed into prompts with an instruction behind them.

    One text a line, textsPerPrompt of them in a prompt. Each text is used once a run: a stage takes
    requests x textsPerPrompt / duplicate of them. Skipped and counted: empty texts, those that came
    before, and prompts longer than the model takes.
    """

    left_out: ClassVar[frozenset[str]] = frozenset({"order"})
    sends_again_in_spec = "has(self.order) && self.order == 'File'"
    rules_in_spec = (
        (
            "self.outputTokensPerText * self.textsPerPrompt <= 1000000",
            "outputTokensPerText x textsPerPrompt must be at most 1000000",
        ),
    )
    is_random_text = False
    is_unlimited = False
    reads_hub = False
    drops_long_rows = True
    is_mixable = True

    kind: Literal["texts"] = "texts"
    file: DataFile = Field(description="Where the CSV or JSON Lines file is.")
    format: Literal["CSV", "JSONL"] = Field(
        "CSV",
        description=(
            "CSV: commas, double quotes, a header. JSONL: one JSON object a line. Both in UTF-8."
        ),
    )
    column: FieldName = Field(description="Column, or field, that holds the texts.")
    texts_per_prompt: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1, description="Texts in one prompt."
    )
    instruction: Annotated[str, Field(max_length=4096)] = Field(
        "",
        description="Task for the model, behind the texts. {copy} in it is the copy's number, so "
        "that each copy of a prompt ends with tokens of its own.",
    )
    output_tokens_per_text: Annotated[int, Field(ge=1, le=100_000)] = Field(
        1,
        description="Tokens requested for each text: an answer gets this times textsPerPrompt.",
    )
    duplicate: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1,
        description="How often each prompt is sent in a row; these cache hits are expected.",
    )
    order: Literal["Drawn", "File"] | None = Field(
        None,
        description="Drawn (default): by the seed, each used once. File: the first texts as they "
        "stand, equal ones too, the same in every stage and workload.",
    )

    @property
    def longest(self) -> tuple[None, int]:
        """Return the tokens of every answer."""
        return None, self.output_tokens_per_text * self.texts_per_prompt

    @property
    def rows_per_prompt(self) -> int:
        """Return how many texts make a prompt."""
        return self.texts_per_prompt

    @property
    def copies(self) -> int:
        """Return how many times in a row each prompt is sent."""
        return self.duplicate

    @property
    def sends_again(self) -> bool:
        """Return whether every stage takes the first texts of the file."""
        return self.order == "File"


class HuggingFaceData(DatasetFields):
    """Prompts from the Hugging Face hub: a column of texts.

    Each row is used once a run. The client's image needs the Python package `datasets`, which comes
    with vllm[bench]; a token for the hub is that of model.source.hub.
    """

    is_random_text = False
    is_unlimited = False
    reads_hub = True
    drops_long_rows = True
    is_mixable = True

    kind: Literal["huggingFace"] = "huggingFace"
    repository: Annotated[
        str,
        Field(
            min_length=1,
            max_length=200,
            pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?$",
        ),
    ] = Field(description="Name of the dataset, for example openai/gsm8k.")
    revision: FieldName | None = Field(
        None,
        description="Commit, tag or branch; name a commit to get the same rows tomorrow.",
    )
    subset: FieldName | None = Field(
        None, description="Configuration of the dataset, where it has several."
    )
    split: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        "train", description="Which split."
    )
    column: FieldName = Field(description="Column that holds the prompt.")
    output_tokens: Length = Field(description="Tokens requested for every answer.")
    max_rows: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        10_000,
        description="Rows read, from the first on: prompts are drawn from among them.",
    )

    @property
    def longest(self) -> tuple[None, int]:
        """Return the tokens of every answer."""
        return None, self.output_tokens


class TimedTraceData(DatasetFields):
    """Recorded requests from a JSON Lines file.

    Each has its instant, the lengths of prompt and answer, and the blocks that its prompt was made
    of. The words are random; equal blocks within a stage get
    equal words, and hits on them do not count as contamination. Each stage sends the first ones: at
    their instants under load.traceSpeeds, else by the load. Skipped and counted: what is longer
    than the model takes.
    """

    is_random_text = True
    is_unlimited = False
    reads_hub = False
    drops_long_rows = True
    is_mixable = False  # its instants belong to the whole stage

    kind: Literal["timedTrace"] = "timedTrace"
    file: DataFile = Field(description="Where the JSON Lines file is.")
    unit: Literal["Seconds", "Milliseconds"] = Field(
        "Milliseconds", description="Unit of the instants."
    )
    timestamp_field: FieldName = Field(
        "timestamp", description="Field that holds the instant."
    )
    input_tokens_field: FieldName = Field(
        "input_length", description="Field that holds the prompt's length."
    )
    output_tokens_field: FieldName = Field(
        "output_length", description="Field that holds the answer's length."
    )
    blocks_field: FieldName = Field(
        "hash_ids",
        description="Field that lists the prompt's blocks; without it the prompt is unique.",
    )
    block_tokens: Annotated[int, Field(ge=1, le=100_000)] = Field(
        512, description="Tokens of a block; Mooncake's: 512."
    )

    @property
    def longest(self) -> tuple[None, None]:
        """Return None twice: both lengths depend on the trace."""
        return None, None


SessionFormat = Literal[
    "Turns", "ShareGPT", "Mooncake", "Weka", "OpenTelemetry", "BurstGPT"
]


class Pause(Message):
    """A pause between an answer and the next turn: a tool that runs, or a user who thinks."""

    mean: Annotated[
        str, Field(max_length=8, pattern=r"^[0-9]{1,4}(\.[0-9]{1,3})?$")
    ] = Field(description="Mean, in seconds.")
    distribution: Literal["Exponential", "Constant"] = Field(
        "Exponential",
        description="Drawn with the stage's seed, or always the mean.",
    )


class SyntheticSessions(LeavesOut):
    """Sessions of random words, drawn by the stage's seed.

    A session's first turn is the system prompt and its own text; each later turn adds to all before
    it and its answer.
    """

    left_out: ClassVar[frozenset[str]] = frozenset({"pause_seconds"})

    turns: DrawnLengths = Field(
        description="Turns of a session; max is at most 4096."
    )
    system_tokens: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        0, description="Tokens that all sessions of a stage begin with."
    )
    first_tokens: DrawnLengths = Field(
        description="What the first turn adds to that."
    )
    turn_tokens: DrawnLengths = Field(
        description="What each later turn adds, such as a tool's result."
    )
    output_tokens: DrawnLengths = Field(
        description="Tokens requested for an answer."
    )
    pause_seconds: Pause | None = Field(
        None, description="Between an answer and the next turn; left out: none."
    )


class SessionsData(DatasetFields, LeavesOut):
    """Sessions of users or agents: turns one after another, each with all that came before it.

    Prompts have the recorded answers as history, so every stage sends the same. Stages take the
    sessions in the order of the file, from the first on, behind words of their own; `requests` are
    turns, and may cut the last session short. Skipped and counted: turns that are longer than the
    model takes, with those after them. With load.sessions a turn waits for the answer to the one
    before and its pause.
    """

    left_out: ClassVar[frozenset[str]] = frozenset(
        {"file", "format", "lengths", "block_tokens", "output_tokens", "synthetic"}
    )
    rules_in_spec = (
        (
            "has(self.file) != has(self.synthetic)",
            "set exactly one of file and synthetic",
        ),
        (
            "has(self.file) == has(self.format)",
            "set format with file, and only with it",
        ),
        (
            "has(self.lengths) == (has(self.format) && self.format in ['Mooncake', 'BurstGPT'])",
            "set lengths with format Mooncake and BurstGPT, and only with them: their files do not "
            "say whether a row has the length of the whole prompt or of what the turn adds",
        ),
        (
            "!has(self.blockTokens) || (has(self.format) && self.format in ['Mooncake', 'Weka'])",
            "blockTokens needs format Mooncake or Weka",
        ),
        *(
            (
                f"!has(self.synthetic) || (self.synthetic.{of}.min <= self.synthetic.{of}.mean && "
                f"self.synthetic.{of}.mean <= self.synthetic.{of}.max)",
                "mean must be from min to max",
            )
            for of in ("turns", "firstTokens", "turnTokens", "outputTokens")
        ),
        (
            "!has(self.synthetic) || self.synthetic.turns.max <= 4096",
            "synthetic.turns.max must be at most 4096",
        ),
    )
    is_random_text = True
    is_unlimited = False
    reads_hub = False
    drops_long_rows = True
    is_mixable = False  # Its turns belong together.

    kind: Literal["sessions"] = "sessions"
    file: DataFile | None = Field(
        None, description="Where the recorded sessions are; see docs/sessions.md."
    )
    format: SessionFormat | None = Field(
        None, description="Format of the file; Turns is benchrun's own."
    )
    lengths: Literal["Whole", "Added"] | None = Field(
        None,
        description="Of Mooncake and BurstGPT: whether a row has the length (and blocks) of the "
        "whole prompt, or of what its turn adds to the turns and answers before.",
    )
    block_tokens: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None,
        description="Tokens of a block; by default 512 of Mooncake, 64 of Weka.",
    )
    output_tokens: Length | None = Field(
        None,
        description="Tokens requested for every answer; by default the recorded.",
    )
    max_pause_seconds: Annotated[int, Field(ge=0, le=86_400)] = Field(
        60,
        description="Longest pause between turns; longer ones are shortened to it.",
    )
    synthetic: SyntheticSessions | None = None

    @property
    def has_random_words(self) -> bool:
        """Return whether only lengths and blocks of the prompts are known.

        Formats that may have either count as words.
        """
        return self.format in (None, "Mooncake", "Weka", "BurstGPT")

    @property
    def longest(self) -> tuple[None, int | None]:
        """Return the tokens of every answer if they are fixed; the rest depends on the sessions."""
        return None, self.output_tokens


_Mixable = (
    RandomData
    | PrefixRepetitionData
    | AgentData
    | ShareGPTData
    | CustomData
    | TextsData
    | HuggingFaceData
)
SingleData = _Mixable | TimedTraceData | SessionsData
DATASETS: tuple[type[DatasetFields], ...] = get_args(SingleData)
"""Every dataset but the mix, in the order of the spec's fields."""
if {data for data in DATASETS if data.is_mixable} != {*get_args(_Mixable)}:
    raise TypeError(
        "_Mixable must have exactly the datasets whose is_mixable is true"
    )
MixableData = Annotated[_Mixable, Field(discriminator="kind")]


class MixPartData(Message):
    """One dataset of a mix, with the share of the requests that come from this dataset."""

    weight: Count = Field(ge=1)
    data: MixableData


class MixData(Message):
    """Several datasets in one stream of requests."""

    kind: Literal["mix"] = "mix"
    parts: tuple[MixPartData, ...] = Field(min_length=2, max_length=64)


Data = Annotated[SingleData | MixData, Field(discriminator="kind")]


TOO_LONG = "TooLongForModel"
"""Reason why a row or turn is left out: the model can't hold it with its answer."""


class DatasetFacts(Message):
    """What was read for a workload, and what was left out.

    Every record of the workload has the same facts.
    """

    part: int = Field(0, ge=0, le=64)  # Position in a mix; 0 for the only one.
    source: ShortText
    sha256: Hex  # Of the file as it was read, or of the rows taken from the hub.
    rows_read: Count
    rows_used: Count  # Taken by this workload over the run, its warm-up included.
    rows_dropped: dict[Annotated[str, Field(max_length=30)], Count] = Field(
        default_factory=dict, max_length=8
    )
    """Rows of the file that can't be used, by reason, over all workloads."""
