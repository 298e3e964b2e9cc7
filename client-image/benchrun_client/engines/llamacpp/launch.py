"""How llama-server is started: its arguments, and the flags and variables to leave alone."""

from collections.abc import Callable, Mapping, Sequence

from benchrun_client.engines import owned_flags
from benchrun_client.engines.engine import ServedFiles
from benchrun_client.engines.settings import EngineSetting

PORT = 8080
USER = 2000  # The images run as root; any user works, since HOME and caches point to /tmp.
ENVIRONMENT = {
    "HOME": "/tmp",
    "XDG_CACHE_HOME": "/tmp/.cache",
    "LLAMA_CACHE": "/tmp/.cache/llama.cpp",
}
_TOOLS = ": lets whoever reaches the server run commands and read files in its pod"
FLAG_WARNINGS = {
    "--agent": _TOOLS,
    "-ag": _TOOLS,
    "--tools": _TOOLS,
    "--embedding": ": the server answers no completions",
    "--embeddings": ": the server answers no completions",
    "--log-disable": ": the log does not say why a start failed",
    "--sleep-idle-seconds": (
        ": an idle server unloads its model, so that a load point may begin with loading it"
    ),
}
_MODEL = (
    "set model.name and model.source instead: the client needs the same tokenizer"
)
_PLAIN_HTTP = "remove the flag: the client uses plain HTTP"
_NO_KEY = "remove the key: the client sends none, and whoever may read the run could read it"
_ONE_MODEL = "remove the flag: benchrun measures a server with a single model"
_TEMPLATE = "set chatTemplate instead: the client must render by the same"
OWNED_FLAGS = {
    "--model": _MODEL,
    "--model-url": _MODEL,
    "--hf-repo": _MODEL,
    "--docker-repo": _MODEL,
    "--models-dir": _ONE_MODEL,
    "--models-preset": _ONE_MODEL,
    "--alias": "set model.servedName instead: the client sends requests for that name",
    "--chat-template": _TEMPLATE,
    "--chat-template-file": _TEMPLATE,
    "--port": f"remove the flag: the server must use port {PORT}",
    "--host": "remove the flag: other pods must reach the server",
    "--api-prefix": "remove the flag: the client asks for paths without a prefix",
    "--ssl-key-file": _PLAIN_HTTP,
    "--ssl-cert-file": _PLAIN_HTTP,
    "--api-key": _NO_KEY,
    "--api-key-file": _NO_KEY,
    "--hf-token": "set model.source.hub.tokenSecretRef instead",
}
REFUSED_VARIABLES = {
    "LLAMA_API_KEY": _NO_KEY,
    "LLAMA_ARG_API_KEY_FILE": _NO_KEY,
    "LLAMA_ARG_API_PREFIX": OWNED_FLAGS["--api-prefix"],
    "LLAMA_ARG_SSL_KEY_FILE": _PLAIN_HTTP,
    "LLAMA_ARG_SSL_CERT_FILE": _PLAIN_HTTP,
    "LLAMA_ARG_MODELS_DIR": _ONE_MODEL,
    "LLAMA_ARG_MODELS_PRESET": _ONE_MODEL,
    "LLAMA_ARG_N_PARALLEL": "give --parallel in args instead: checks and reports read it there",
    "LLAMA_ARG_CTX_SIZE": "give --ctx-size in args instead: checks and reports read it there",
    "LLAMA_ARG_KV_UNIFIED": "give --kv-unified in args instead: checks and reports read it there",
}
"""What arguments would override is not among them: they win over variables."""
FLAG_SPELLINGS = {
    "-a": "alias",
    "-b": "batch-size",
    "-c": "ctx-size",
    "-ctk": "cache-type-k",
    "-dr": "docker-repo",
    "-hf": "hf-repo",
    "-hfr": "hf-repo",
    "-hft": "hf-token",
    "-kvu": "kv-unified",
    "-m": "model",
    "-mu": "model-url",
    "-no-kvu": "no-kv-unified",
    "-np": "parallel",
}
"""Other spelling of a flag -> its long name without dashes."""
SETTING_FLAGS = {
    EngineSetting.MAX_RUNNING: "parallel",
    EngineSetting.MAX_TOKENS: "ctx-size",
    EngineSetting.STEP_TOKENS: "batch-size",
    EngineSetting.KV_CACHE_TOKENS: "ctx-size",
    EngineSetting.PREFIX_CACHE: "cache-prompt",
    EngineSetting.KV_CACHE_DTYPE: "cache-type-k",  # that of values is nearly always equal
}
PLACEHOLDERS = {
    "--model": "$(MODEL)",
    "--hf-repo": "$(MODEL)",
    "--alias": "$(SERVED_NAME)",
    "--port": "$(PORT)",
}
"""Flag owned by the operator -> the placeholder that a command may give as its value."""
_CONTEXT_UNIT = 256  # Contexts are whole multiples of so many tokens.


def _chosen(given: Mapping[str, str | None], flag: str) -> int | None:
    """Return a flag's number; None if it is not given, or if the server chooses it (0 or less).

    Raises ValueError if the flag's value is not a whole number.
    """
    text = given.get(flag)
    number = None if text is None else int(text)
    return number if number is not None and number > 0 else None


def slots(given: Mapping[str, str | None]) -> int | None:
    """Return how many requests run at once; None if the server chooses it.

    Raises ValueError if the flag's value is not a whole number.
    """
    return _chosen(given, "parallel")


def longest_sequence(given: Mapping[str, str | None]) -> int | None:
    """Return the tokens of one slot; None if the model or the server chooses them.

    The slots share the context equally, unless it is unified: by --kv-unified, or because the
    number of slots is left to the server. Raises ValueError if a flag's value is not a whole
    number.
    """
    context = _chosen(given, "ctx-size")
    if context is None:
        return None
    whole = _in_units(context)
    count = slots(given)
    switches = [name for name in given if name in ("kv-unified", "no-kv-unified")]
    if count is None:  # Some releases start one slot then, others several.
        return whole if switches[-1:] != ["no-kv-unified"] else None
    is_unified = switches[-1:] == ["kv-unified"]
    return whole if is_unified else _in_units(whole // count)


def _in_units(tokens: int) -> int:
    return -(-tokens // _CONTEXT_UNIT) * _CONTEXT_UNIT


COMPUTED_SETTINGS: Mapping[
    EngineSetting, Callable[[Mapping[str, str | None]], int | None]
] = {
    EngineSetting.MAX_RUNNING: slots,
    EngineSetting.MAX_TOKENS: longest_sequence,
}


def serve_args(model: ServedFiles, command: Sequence[str]) -> list[str]:
    """Return the arguments of `llama-server` for a model, the model first.

    A flag and its value are two words, because it takes no `--flag=value`. Arguments that the
    command already has as placeholders are left out. Metrics are turned on, and the server made to
    listen on all addresses, because neither is its default. Tokenizer and revision are not given:
    a GGUF file has its own tokenizer, and --hf-repo takes no revision.
    """
    source = "--model" if model.path.startswith("/") else "--hf-repo"
    own = {source: model.path, "--alias": model.name, "--port": str(PORT)}
    left = {
        flag: value
        for flag, value in own.items()
        if not any(PLACEHOLDERS[flag] in word for word in command)
    }
    if model.chat_template is not None:
        left["--chat-template-file"] = model.chat_template
    words = [word for pair in left.items() for word in pair]
    return [*words, "--host", "0.0.0.0", "--metrics"]


def owned_flag(
    words: Sequence[str], *, placeholders: Mapping[str, str] | None = None
) -> tuple[int, str] | None:
    """Return the position of the first flag that only the operator may set, and a message.

    A flag that is joined to its value is refused too, since llama-server would not start. None if
    there is neither. The message does not repeat the value, which may be secret.
    """
    owned = owned_flags.first_owned(
        words, OWNED_FLAGS, FLAG_SPELLINGS, placeholders or {}
    )
    joined = next(
        (
            (place, word.partition("=")[0])
            for place, word in enumerate(words)
            if word.startswith("--") and "=" in word and not word.endswith("=")
        ),
        None,
    )
    if joined is None or (owned is not None and owned[0] <= joined[0]):
        return owned
    place, flag = joined
    return (
        place,
        f"{flag} and its value must be two arguments: llama-server takes no {flag}=...",
    )


def command_problem(command: Sequence[str]) -> tuple[int, str] | None:
    """Return the position of the first problem in a command, and a message; None without problem.

    The contents of a script are not examined.
    """
    return owned_flags.first_owned(
        command, OWNED_FLAGS, FLAG_SPELLINGS, PLACEHOLDERS
    )
