"""What benchrun must know of a server engine: its start, endpoints, metrics and log."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from benchrun_client.engines.settings import EngineSetting

RequestField = Literal["priority", "adapters", "responseFormat"]
"""Parts of a spec's `request` that not every engine reads. The response format is meant for
/v1/completions: in chats all engines read it."""


_ADDRESS = re.compile(r"host='|https?://")


@dataclass(frozen=True, slots=True)
class LogCause:
    """A cause of failure, recognised by phrases in a server's error; case does not matter."""

    reason: str  # One of the operator's `Reason` values.
    what: str  # Text of the message; the error's own words follow it.
    remedy: str
    # Phrase in lower case -> the release in which it was seen.
    phrases: Mapping[str, str]
    unless: str | None = None  # A phrase that shows a different cause.
    address: re.Pattern[str] | None = None
    """Found, in lower case, in an error about this cause if the error names any address."""
    exit_code: int | None = None
    tries: int = 0  # Number of endings after which waiting is pointless.
    error_begins: str | None = None
    """What an error begins with; it is tried if no error has one of the phrases."""

    def is_named_in(self, error: str) -> bool:
        """Return whether an error names this cause."""
        words = error.lower()
        ruled_out = self.unless is not None and self.unless in words
        if self.address is not None and _ADDRESS.search(words) is not None:
            ruled_out = ruled_out or self.address.search(words) is None
        return not ruled_out and any(phrase in words for phrase in self.phrases)


@dataclass(frozen=True, slots=True)
class StartupPhases:
    """Disjoint parts of a server's start, in seconds; None if the log does not say."""

    download: float | None = None
    load: float | None = None
    compile: float | None = None
    warm_up: float | None = None
    from_cache: bool | None = None
    """Whether all that it compiles came from a cache; None: the log does not say."""
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Settings that the server chose for itself, such as its attention backend and dtype, by name.
    Bounded in number and length."""


@dataclass(frozen=True, slots=True)
class ServedFiles:
    """The model that a server serves, and the files that belong to it."""

    path: str  # Path of the model in the pod, or its id on the hub.
    name: str  # Model name in requests.
    revision: str | None = None
    tokenizer: str | None = None  # None: the model's own.
    chat_template: str | None = None  # Path in the pod. None: the model's own.


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """How a server spans several nodes, a pod on each."""

    address: (
        str  # The variable for the address at which the other nodes find this one.
    )
    args: Callable[[int], list[str]]
    """Return the additional arguments of each pod of a server that spans so many nodes."""
    # Additional arguments of the pods that do not answer requests.
    worker_args: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """How servers that prefill hand over KV cache to servers that decode."""

    address: (
        str  # The variable for the address at which other servers fetch KV cache.
    )
    args: Callable[[str, str | None, Mapping[str, object] | None], list[str]]
    """Return the additional arguments for a connector's name, a role (prefill or decode; None if
    both) and the connector's own settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiler:
    """The profiler of a server; HTTP requests start and stop it."""

    start_path: str
    stop_path: str
    remedy: str  # What a server without these paths lacks.
    enabled_by: Callable[[str, str], tuple[list[str], Mapping[str, str]]]
    """Return the additional arguments and environment variables that enable the paths, for the
    server's image and the directory for traces."""
    reader: str  # File in the engine's folder: the program that serves a summary of a trace.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Engine:
    """One server engine. A value that an engine does not have is None or empty."""

    name: str  # As its makers write it.
    seen: str  # Where the names below were seen, for the documentation: "real, CPU: 0.32".

    # How it is started.
    command: tuple[str, ...]
    """Command that replaces the image's entry point; empty: the entry point is the server."""
    # Module that starts images older than that entry point.
    module_before_serve: str | None
    port: int
    user: int  # Its uid in the engine's images.
    weights: str  # Ending of the files whose weights it reads, where a model has several formats.
    environment: Mapping[str, str]
    """Environment variables of every server; the user's own values override them."""
    compile_caches: Mapping[str, str]
    """Environment variable that names a cache of what is compiled -> folder within the place where
    all of them are kept; empty: the engine has none that may be kept."""
    development_mode: str | None
    """Environment variable that enables `reset_path`, but also endpoints that run code and show
    environment variables."""
    nodes: Nodes | None  # How a server spans several nodes.
    transfer: Transfer | None  # How servers hand over KV cache to each other.
    serve_args: Callable[[ServedFiles, Sequence[str]], list[str]]
    """Return the arguments for a model, its path or hub id first, without those that the command,
    if it replaces the entry point, already contains."""
    owned_flag: Callable[[Sequence[str]], tuple[int, str] | None]
    """Return the position of the user's first flag that only the operator may set, and a message
    that says what to do instead; None if there is none."""
    # The same for a command.
    command_problem: Callable[[Sequence[str]], tuple[int, str] | None]
    refused_variables: Mapping[str, str]
    """Name of a refused environment variable -> what to do instead."""
    flag_warnings: Mapping[str, str]
    """Flag that hides something from the operator -> the consequence, for a warning."""
    flag_spellings: Mapping[str, str]
    """Other spelling of a flag, with dashes -> its long name without them."""
    flag_separator: Literal["-", "_"]  # Between the words of a flag's long name.
    readable_flags: frozenset[str]
    """Long names, without dashes, of the flags whose values are read. The beginning of a name is
    taken for the name if no other name begins so."""
    setting_flags: Mapping[EngineSetting, str]
    """Setting -> long name, without dashes, of the flag with its value or that turns it on."""
    flags_off: Mapping[EngineSetting, str]
    """Setting -> flag that turns it off, in addition to `no-` before the one that turns it on."""
    reported_settings: Mapping[EngineSetting, str]
    """Setting -> its name among what a server reports: a label of `settings_series`, or a name of
    `answered_settings`."""
    computed_settings: Mapping[
        EngineSetting, Callable[[Mapping[str, str | None]], int | None]
    ]
    """Setting -> its value by the flags that were given, by their long names, where that is not the
    number that its flag has. None: the engine chooses it. Raises ValueError if a
    flag's value is not a whole number."""
    loaded_adapters: Callable[[Sequence[str]], Sequence[str]]
    """Return the names of the adapters that a server with these arguments loads, by which requests
    may ask for them."""
    accepts_by_lot: Callable[[Sequence[str]], bool]
    """Return whether a server with these arguments accepts draft tokens at random, as tests of
    speculation do."""
    default_block_tokens: int  # Value of BLOCK_TOKENS where a server says none.
    evicts_blocks: bool
    """Whether a full prefix cache lets the blocks go that were used least recently."""
    default_running_step: int | None
    """A number that divides every default of MAX_RUNNING; None if the defaults are not known."""

    # Paths of its HTTP server, beside those of the OpenAI API.
    health_path: str
    version_path: str
    version_key: str  # Field of the answer, a JSON object, that has the version.
    answered_settings: Callable[[Mapping[str, object]], Mapping[str, str]]
    """Return the settings that the answer of `version_path` has, beside those of
    `settings_series`, by names of the engine's own."""
    metrics_path: str
    unheard: Mapping[RequestField, str]
    """What requests may say -> what to do instead, where the engine ignores it."""
    embeddings: bool  # Whether its embeddings are measured (`api: Embeddings`).
    cached_in_answers: str | None
    """Flag with which its answers tell how many prompt tokens were found in a cache. None: they
    always do."""
    reset_path: str | None  # None: no request empties the prefix cache.
    reset_remedy: str
    """What a server without the reset path lacks; of an engine without one: what to do instead."""
    profiler: Profiler | None
    is_reset: Callable[[str], bool]
    """Return whether the body of an answer with status 200 says that the prefix cache was reset."""

    # Its metrics.
    series_begin: (
        str  # What the names of its own series begin with, and no other engine's.
    )
    sample_series: Mapping[str, tuple[str, ...]]
    """Name of a figure in the operator's samples -> names of its series, newest first. If an
    endpoint has several of them, only one is counted."""
    counter_series: Mapping[str, tuple[str, ...]]
    """Name of a counter in the client's records -> names of its series, newest first."""
    sample_sums: Mapping[str, tuple[str, ...]]
    """Name of a further figure -> names of the series that add up to it. Without one of them it is
    not known."""
    counter_sums: Mapping[str, tuple[str, ...]]  # The same for counters.
    labelled_counters: Mapping[str, tuple[str, str]]
    """Name of a counter in the records -> its series and the label of its lines."""
    counters_at_first_event: frozenset[str]
    """Counters whose series are missing until the first event. They count as 0 if the metrics have
    the counter `request_success_total`."""
    # The series whose labels are the server's settings.
    settings_series: tuple[str, ...]
    measured_settings: frozenset[str]
    """Labels of `settings_series` that are not settings: they differ slightly between equal
    servers."""
    cache_tokens: Callable[[Mapping[str, str]], int | None]
    """Return the number of tokens of one engine process's KV cache, from the labels of
    `settings_series`."""
    cache_tokens_series: tuple[str, ...]
    """The series whose values, multiplied, are that number, if the labels do not have it."""

    # Its log.
    # Start of each line; lines of one message share it.
    log_prefix: re.Pattern[str]
    error_lines: re.Pattern[str] | None
    """Beginning of a line, prefix included, that states an error. The first such line names the
    cause. None: errors are Python's exceptions and the complaints of argparse."""
    cause_is_above: tuple[str, ...]
    """Phrases of errors that only refer to their cause earlier in the log. No phrase is empty."""
    log_causes: tuple[LogCause, ...]  # Causes, the most certain first.
    startup_phases: Callable[[str], StartupPhases]
    """Return the phases found in a log, given from its beginning, perhaps not to its end."""
    compilations: Callable[[str], tuple[float, ...]] | None
    """Return when kernels were compiled while serving, in Unix seconds, in order, from a log whose
    lines begin with the kubelet's timestamps. None if this engine's log does not say."""

    def __repr__(self) -> str:
        """Return a short text, because facts and queries that contain an engine are logged."""
        return f"Engine({self.name})"

    def __deepcopy__(self, _: object) -> Self:
        """Return the engine itself: it never changes, and engines are compared by identity."""
        return self

    def filled_in(self, command: Sequence[str], model: ServedFiles) -> list[str]:
        """Return the command that replaces the entry point, with values for its placeholders."""
        values = {
            "$(MODEL)": model.path,
            "$(SERVED_NAME)": model.name,
            "$(PORT)": str(self.port),
        }
        filled = list(command)
        for placeholder, value in values.items():
            filled = [word.replace(placeholder, value) for word in filled]
        return filled

    def points_up(self, error: str) -> bool:
        """Return whether an error only refers to its cause earlier in the log."""
        return any(words in error for words in self.cause_is_above)

    def reported(
        self, setting: EngineSetting, labels: Mapping[str, str]
    ) -> str | None:
        """Return a setting's value from what a server reports; None if not reported."""
        label = self.reported_settings.get(setting)
        return labels.get(label) if label is not None else None


def no_settings(_: Mapping[str, object]) -> Mapping[str, str]:
    """Return no settings, for an engine whose answer has none."""
    return {}
