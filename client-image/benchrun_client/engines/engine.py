"""What benchrun must know of a server engine: its start, endpoints, metrics and log."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LogCause:
    """A cause of failure that a server's error names, by phrases in any case."""

    reason: str  # One of the operator's `Reason`.
    what: str  # The error's own words follow.
    remedy: str
    phrases: Mapping[str, str]  # In small letters; each with the release that it was seen in.
    unless: str | None = None  # A phrase that shows that it is another cause.
    exit_code: int | None = None
    tries: int = 0  # Endings until waiting is in vain.
    error_begins: str | None = None  # Begins the error itself where no error has a phrase.

    def is_named_in(self, error: str) -> bool:
        """Return whether an error names this cause."""
        words = error.lower()
        ruled_out = self.unless is not None and self.unless in words
        return not ruled_out and any(phrase in words for phrase in self.phrases)


@dataclass(frozen=True, slots=True)
class StartupPhases:
    """Disjoint parts of a start, in seconds; None means "the log does not say", never 0."""

    download: float | None = None
    load: float | None = None
    compile: float | None = None
    warm_up: float | None = None
    chosen: Mapping[str, str] = field(default_factory=dict)
    """What the server chose for itself, by setting: its attention backend, its dtype. Bounded in
    number and length."""


@dataclass(frozen=True, slots=True)
class ServedFiles:
    """The model that a server serves, and the files that belong to it."""

    path: str  # Of the model in the pod, or its id on the hub.
    name: str  # What requests call it.
    revision: str | None = None
    tokenizer: str | None = None  # None: the model's own.
    chat_template: str | None = None  # Path in the pod. None: the model's own.


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One server engine."""

    name: str

    # How it is started.
    command: tuple[str, ...] = ()  # In place of its image's entry point; empty: that is the server.
    module_before_serve: str = ""  # Which images before that entry point begin with.
    container: str
    port: int
    user: int
    environment: Mapping[str, str]  # Variables of every server; a user's own win over them.
    development_mode: (
        str  # The variable that opens `reset_path`, and endpoints that run code and show variables.
    )
    node_address: (
        str  # The variable with the address at which the other nodes of a server find this one.
    )
    transfer_address: str  # The variable with the address at which other servers fetch KV cache.
    serve_args: Callable[[ServedFiles, Sequence[str]], list[str]]
    """Arguments for a model, the first of them its path or hub id; a command in place of the entry
    point may carry some."""
    filled_in: Callable[
        [Sequence[str], ServedFiles], list[str]
    ]  # That command, with the values of its placeholders.
    owned_flag: Callable[[Sequence[str]], tuple[int, str] | None]
    """The first flag that the operator sets, among words that the user wrote: its place, and what
    to do instead."""
    command_problem: Callable[[Sequence[str]], tuple[int, str] | None]  # The same, in a command.
    node_args: Callable[
        [int], list[str]
    ]  # Further ones of each pod of a server over so many nodes.
    worker_args: tuple[str, ...]  # Further ones of the pods that don't answer requests.
    transfer_args: Callable[[str, str | None, Mapping[str, object] | None], list[str]]
    """Further ones from the connector's name, the role (prefill or decode; None: both) and the
    connector's own settings."""
    refused_variables: Mapping[str, str]  # Of the environment, by name: what to do instead.
    flag_warnings: Mapping[
        str, str
    ]  # What goes wrong with a flag that hides something from the operator.
    short_flags: Mapping[
        str, str
    ]  # By its own flag, with dashes: vLLM's long name of what means the same.

    # Paths of its HTTP server, beside those of the OpenAI API.
    health_path: str
    models_path: str
    version_path: str
    metrics_path: str
    reset_path: str
    start_profile_path: str
    stop_profile_path: str
    profile_remedy: str  # What a server without these paths lacks.
    profiled: Callable[[str, str], tuple[list[str], Mapping[str, str]]]
    """Further arguments and variables that open them, from the server's image and the directory for
    traces."""
    is_reset: Callable[
        [str], bool
    ]  # Whether the body of an answer with status 200 reports that it was emptied.

    # Its metrics.
    sample_series: Mapping[str, tuple[str, ...]]
    """Of a figure in the operator's samples, the names of its series, newest first: an endpoint
    with several counts once."""
    counter_series: Mapping[str, tuple[str, ...]]
    """Of a counter in the client's records, the names of its series, likewise."""
    labelled_counters: Mapping[
        str, tuple[str, str]
    ]  # Of a counter in the records, its series and the label of its lines.
    settings_series: str  # The series whose labels are the server's settings.
    measured_settings: frozenset[
        str
    ]  # Labels of it that are no settings: they differ a little between equal servers.
    cache_tokens: Callable[
        [Mapping[str, str]], int | None
    ]  # Of one engine's KV cache, from those labels.

    # Its log.
    log_prefix: re.Pattern[str]  # What each line begins with; lines of one message share it.
    cause_is_above: tuple[str, ...]
    """Words of errors that only point to their cause further up in the log; none is empty."""
    log_causes: tuple[LogCause, ...]  # The surest first.
    startup_phases: Callable[
        [str], StartupPhases
    ]  # Of a log from its beginning; as far as it goes.
    compilations: Callable[[str], tuple[float, ...]]
    """When kernels were compiled while serving, in Unix seconds, in order. The kubelet's instant
    begins each line."""

    def points_up(self, error: str) -> bool:
        """Return whether an error only points to its cause further up in the log."""
        return any(words in error for words in self.cause_is_above)
