"""`spec.workloads[].dataset`: where prompts come from.

Most datasets are derived from the contract's models.
"""

from types import new_class
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from benchrun_client.contract import DATASETS, DatasetFields, Length
from benchrun_client.contract.datasets import (
    AgentData,
    SessionsData,
    SyntheticSessions,
)
from pydantic import Field, create_model
from pydantic.alias_generators import to_snake

from benchrun.api.base import (
    Key,
    ObjectName,
    Rule,
    SpecModel,
    Unique,
    WorkloadName,
    exactly_one,
)

HttpUrl = Annotated[
    str, Field(max_length=1024, pattern=r"^https?://[^/?#@\s]+([/?][^#\s]*)?$")
]


class ConfigMapFile(SpecModel):
    """A file in a ConfigMap of the run's namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    key: Key = Field(description="Key that holds the file.")


class PvcFile(SpecModel):
    """A file on a claim of the run's namespace, mounted read-only."""

    claim_name: ObjectName = Field(description="Name of the PersistentVolumeClaim.")
    path: str = Field(
        min_length=1,
        max_length=512,
        pattern=r"^[^/].*$",
        description="Path within the claim.",
    )


class SecretName(SpecModel):
    """The name of a Secret in the run's namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class S3File(SpecModel):
    """An object in a store that speaks S3, downloaded by the client pod."""

    bucket: Annotated[
        str,
        Field(
            min_length=3, max_length=63, pattern=r"^[a-z0-9][a-z0-9.-]*[a-z0-9]$"
        ),
    ]
    """Name of the bucket."""
    key: Annotated[
        str, Field(min_length=1, max_length=1024, pattern=r"^[^/].*$")
    ] = Field(description="Key of the object.")
    endpoint: (
        Annotated[str, Field(max_length=253, pattern=r"^https?://[^/?#@\s]+/?$")]
        | None
    ) = None
    """URL of the store; AWS S3 if left out."""
    region: Annotated[
        str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9-]+$")
    ] = "us-east-1"
    """Region of the store; most self-hosted stores ignore it."""
    credentials_secret_ref: SecretName | None = None
    """Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is one, AWS_SESSION_TOKEN.
    Left out: requests are not signed."""


class DatasetFile(SpecModel):
    """Exactly one of `configMap`, `pvc`, `url`, `s3` and `path`. At most 2 GiB."""

    rules = (exactly_one("config_map", "pvc", "url", "s3", "path"),)
    config_map: ConfigMapFile | None = Field(
        None, description="A file in a ConfigMap of the run's namespace."
    )
    pvc: PvcFile | None = Field(
        None,
        description="A file on a claim of the run's namespace, mounted read-only.",
    )
    url: HttpUrl | None = Field(None, description="Downloaded by the client pod.")
    s3: S3File | None = None
    path: (
        Annotated[str, Field(min_length=2, max_length=512, pattern=r"^/.*$")] | None
    ) = None
    """A file in the client's image, or on a volume of client.pod.volumes."""


class StaticPrefix(SpecModel):
    """All requests of a stage are copies of one another."""


class DynamicPrefix(SpecModel):
    """The date goes back one day from request to request."""

    variants: Annotated[int, Field(ge=2, le=50_000)] | None = None
    """Different dates in a stage, used in turn. Left out: every request has its own date."""


class AgentDataset(SpecModel):
    """One long conversation, sent as a prompt that ends before an answer.

    Time and date stand in front of the first user turn. Both come from the seed; each stage has its
    own time. Prefix cache hits on text that requests share do not count as contamination. Exactly
    one of `staticPrefix` and `dynamicPrefix`.
    """

    rules = (
        exactly_one("static_prefix", "dynamic_prefix"),
        Rule(
            cel="!has(self.outputTokens) || !has(self.inputOutputRatio)",
            message="set outputTokens or inputOutputRatio, not both",
        ),
    )
    conversation: DatasetFile | None = None
    """JSON with one conversation, of ShareGPT (conversations) or OpenAI (messages). Left out: the
    client's own, of about 3000 tokens."""
    static_prefix: StaticPrefix | None = Field(
        None, description="All requests have the same date."
    )
    dynamic_prefix: DynamicPrefix | None = Field(
        None, description="Each request has another date."
    )
    output_tokens: Length | None = Field(
        None,
        description="Tokens requested; by default the length of the next answer.",
    )
    input_output_ratio: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Prompt tokens per output token, for example 100; instead of outputTokens."""
    turns: int = Field(
        1,
        ge=1,
        le=64,
        description="Requests of a conversation, each with more of it. 1: one with the whole.",
    )

    def in_plan(self) -> AgentData:
        """Return the dataset as the client's plan has it, except the file."""
        variants = (
            self.dynamic_prefix.variants if self.dynamic_prefix is not None else 1
        )
        return AgentData(
            variants=variants,
            turns=self.turns,
            output_tokens=self.output_tokens,
            input_output_ratio=self.input_output_ratio,
        )


MAX_MIX_PARTS = 8


class MixPart(SpecModel):
    """The name of another workload, and the share of the requests that come from this workload."""

    workload: WorkloadName
    """Workload of this spec whose dataset is sent: any but a mix or a timedTrace. It needs no
    load."""
    weight: int = Field(
        1,
        ge=1,
        le=10_000,
        description="Share of the requests, relative to the others.",
    )


class SyntheticSessionsSpec(SpecModel, SyntheticSessions):
    """Sessions of random words, drawn by the stage's seed.

    A session's first turn is the system prompt and its own text; each later turn adds to all before
    it and its answer.
    """


def _in_spec(data: type[DatasetFields]) -> type[SpecModel]:
    """Derive the spec's model of a dataset from the contract's.

    It is in camelCase, without `kind`, and its file may come from wherever a spec can name one.
    """
    annotations: dict[str, object] = {"kind": ClassVar[str]}
    members = {
        "__doc__": data.__doc__,
        "__module__": __name__,
        "__annotations__": annotations,
        "kind": data.model_fields["kind"].default,
        "rules": tuple(
            Rule(cel=cel, message=message) for cel, message in data.rules_in_spec
        ),
    }
    if (file := data.model_fields.get("file")) is not None:
        told = file.description
        if file.is_required():
            annotations["file"] = DatasetFile
            members["file"] = Field(description=told)
        else:
            annotations["file"] = DatasetFile | None
            members["file"] = Field(None, description=told)
    if data is SessionsData:
        annotations["synthetic"] = SyntheticSessionsSpec | None
        members["synthetic"] = None
    return new_class(
        f"{data.__name__}set",
        (SpecModel, data),
        exec_body=lambda body: body.update(members),
    )


_MODELS = {
    to_snake(data.model_fields["kind"].default): AgentDataset
    if data is AgentData
    else _in_spec(data)
    for data in DATASETS
}
"""Every dataset but the mix, by its field."""
if TYPE_CHECKING:
    _Members = SpecModel
else:
    _Members = create_model(
        "_Members",
        __base__=SpecModel,
        **{name: (model | None, None) for name, model in _MODELS.items()},
    )


class Dataset(_Members):
    """Exactly one dataset."""

    rules = (exactly_one(*_MODELS, "mix"),)
    mix: (
        Annotated[
            list[MixPart],
            Field(min_length=2, max_length=MAX_MIX_PARTS),
            Unique("workload"),
        ]
        | None
    ) = None
    """The datasets of several workloads in one stream, in an order drawn by the seed. The mix's own
    api, ignoreEOS, sampling and request apply."""

    @property
    def _set(self) -> DatasetFields | AgentDataset | None:
        return next(
            (each for name in _MODELS if (each := getattr(self, name)) is not None),
            None,
        )

    @property
    def single(self) -> DatasetFields | None:
        """Return the dataset that is set; None: a mix.

        The file that it reads, if any, is in the property `file`.
        """
        return (
            self._set.in_plan()
            if isinstance(self._set, AgentDataset)
            else self._set
        )

    @property
    def file(self) -> DatasetFile | None:
        """Return the file that the dataset reads; None if it reads none."""
        fields = () if self._set is None else type(self._set).model_fields
        values = (getattr(self._set, name) for name in fields)
        return next(
            (value for value in values if isinstance(value, DatasetFile)), None
        )

    def plan_fields(self) -> dict[str, Any]:
        """Return the fields in the client's plan, except the file.

        It must not be called for a mix, whose parts are other workloads.
        """
        assert self.single is not None
        return {
            "kind": self.single.kind,
            **self.single.model_dump(exclude={"file"}),
        }
