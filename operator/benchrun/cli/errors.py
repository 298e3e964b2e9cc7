"""Errors that end a command; kubectl's messages become one clear line with the remedy."""

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Literal, TypeVar

from pydantic import ValidationError

from benchrun.api import first_problem
from benchrun.api.sweep import spec
from benchrun.names import GROUP, KIND, PLURAL

B = TypeVar("B")
R = TypeVar("R")


class CommandError(RuntimeError):
    """An error that ends a command; the text says why."""

    code = 1  # The command's exit code.


def readable(read: Callable[[B], R], body: B, name: str) -> R:
    """Read the object `name`, or a part of it, with `read`.

    Raises CommandError if another version of benchrun wrote it.
    """
    try:
        return read(body)
    except ValueError as error:
        raise CommandError(another_version(name, error)) from error


def another_version(name: str, error: ValueError) -> str:
    """Return the message that another version of benchrun wrote the object `name`.

    `error` was raised by reading it.
    """
    root = "status" if getattr(error, "title", "").endswith("Status") else "spec"
    why = (
        first_problem(error, root=root)
        if isinstance(error, ValidationError)
        else error
    )
    return (
        f"{name} was written by another version of benchrun ({why}); use the command of the "
        "operator's version (benchrun --version shows both)"
    )


def unknown(what: str, name: str, known: Sequence[str]) -> CommandError:
    """Build the error for a name that does not exist.

    It suggests the most similar names, then lists all.
    """
    by_lower = {each.lower(): each for each in known}
    near = [
        by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3)
    ]
    guess = f"; did you mean {' or '.join(near)}?" if near else "."
    return CommandError(
        f"there is no {what} {name!r}{guess} There are: {', '.join(known)}"
    )


Trouble = Literal[
    "NoKubectl",
    "NoCluster",
    "NoContext",
    "NotLoggedIn",
    "NotInstalled",
    "Forbidden",
    "NotFound",
    "Immutable",
    "Other",
]
OF_THE_CLUSTER: frozenset[Trouble] = frozenset(
    {"NoKubectl", "NoCluster", "NoContext", "NotLoggedIn", "NotInstalled"}
)
"""Causes that make every call of kubectl fail."""
MAX_NAMES = 10  # Most names of other runs in an error.
IMMUTABLE = r"spec\.(\w+) is immutable"


class KubectlError(CommandError):
    """A kubectl command failed; the text says why, and what to do."""

    def __init__(self, text: str, trouble: Trouble = "Other") -> None:
        super().__init__(text)
        self.trouble: Trouble = trouble


def explained(stderr: str) -> KubectlError:
    """Build an error from what kubectl wrote to stderr, without its libraries' log lines.

    Known messages are explained; unknown ones are passed on unchanged.
    """
    lines = _said(stderr)
    # All on one line, except that several problems of an object keep a line each.
    text = " ".join(
        f"\n  {line}" if line.startswith("* ") else line for line in lines
    ).replace(" \n", "\n")
    for pattern, trouble, sentence in _KNOWN:
        if (found := re.search(pattern, text)) is not None:
            words = (
                sentence.format(**found.groupdict())
                if isinstance(sentence, str)
                else sentence(found)
            )
            return KubectlError(words, trouble)
    return KubectlError(
        _PREFIX.sub("", text) or "kubectl failed without an error message"
    )


def _said(stderr: str) -> list[str]:
    """Return the lines that kubectl itself wrote."""
    return [
        line.strip()
        for line in stderr.splitlines()
        if line.strip() and not _NOISE.match(line)
    ]


def refusal_in(stderr: str) -> tuple[str, str]:
    """Return the reason and the words with which the API server refused a request.

    The reason is that of its answer, such as Forbidden; empty where kubectl does not say it.
    """
    text = " ".join(_said(stderr))
    if (
        invalid := re.match(r"The (\S+ \S+ is invalid: )(?:: |\* )?", text)
    ) is not None:
        # kubectl puts its own words around the server's, and a star before each of several causes.
        return "Invalid", invalid[1] + text[invalid.end() :].replace(" * ", ", ")
    reason = re.match(r"Error from server \((\w+)\): ", text)
    return reason[1] if reason is not None else "", _PREFIX.sub("", text)


def no_such(
    kind: str, name: str, namespace: str | None, others: Sequence[str]
) -> KubectlError:
    place = f"namespace {namespace}" if namespace else "this namespace"
    more = f" and {len(others) - MAX_NAMES} more" if len(others) > MAX_NAMES else ""
    instead = f"; there are: {', '.join(others[:MAX_NAMES])}{more}"
    if near := get_close_matches(name, others, n=3):
        instead = f"; did you mean {' or '.join(near)}?"
    elif not others:
        instead = (
            "; the namespace has none: use -n, or list all with benchrun get -A"
        )
    return KubectlError(
        f"there is no {kind} {name} in {place}{instead}", "NotFound"
    )


NO_KUBECTL = KubectlError(
    "kubectl was not found on PATH; install it "
    "(https://kubernetes.io/docs/tasks/tools/): this command uses it to log in to "
    "the cluster",
    "NoKubectl",
)


def _no_cluster(found: re.Match[str]) -> str:
    if found["host"] in ("localhost:8080", "127.0.0.1:8080"):
        return (
            "kubectl has no cluster: set KUBECONFIG, or choose a context with "
            "--context (kubectl config get-contexts lists them)"
        )
    return (
        f"the cluster at {found['host']} does not answer; is it up, and is it the one you mean? "
        f"{_WHICH}"
    )


def _forbidden(found: re.Match[str]) -> str:
    user, verb, resource, where = (
        found[name] for name in ("user", "verb", "resource", "where")
    )
    role = "view" if verb in ("get", "list", "watch") else "edit"
    if "cluster scope" in where:
        return (
            f"{user} may not {verb} {resource} of all namespaces; leave -A out, or ask for the "
            f"ClusterRole {role} in the cluster"
        )
    place = where.removeprefix("in the namespace ").strip('"')
    return (
        f"{user} may not {verb} {resource} in namespace {place}; ask for the ClusterRole {role} "
        "there, "
        "or name another namespace with -n"
    )


def _unknown_kind(found: re.Match[str]) -> str:
    kind = found["kind"]
    version = found["version"]
    if version.startswith(f"{GROUP}/"):
        return _NOT_INSTALLED.format(kind)
    return (
        f"this cluster does not know the kind {kind} of {version}; correct kind and "
        "apiVersion, or install what defines them"
    )


_KINDS = {PLURAL: KIND, spec.PLURAL: spec.KIND}
_OURS = "|".join(_KINDS)
_WHICH = "(kubectl config current-context)"
_NO_CONTEXT = "there is no context {name}; kubectl config get-contexts lists them"
_NOT_INSTALLED = (
    "this cluster does not know {}: install benchrun there (docs/install.md), or choose another "
    "with --context"
)
_NOISE = re.compile(
    r"[EWI]\d{4} \d\d:\d\d:|Warning: |\* <nil>: .*some validation rules were not checked"
)
"""Log lines of kubectl's libraries, the server's warnings, and kubectl's remark that rules were not
checked for an object that breaks its schema."""
_PREFIX = re.compile(
    r"^(error: |Error in configuration: |Error from server( \(\w+\))?: "
    r"|error when \w+ \"STDIN\": )+"
)
_KNOWN: tuple[tuple[str, Trouble, str | Callable[[re.Match[str]], str]], ...] = (
    (
        r"connection to the server (?P<host>\S+) was refused",
        "NoCluster",
        _no_cluster,
    ),
    (
        r"Unable to connect to the server: (?P<why>.+)",
        "NoCluster",
        f"the cluster does not answer ({{why}}); is it up, and is it the one you mean? {_WHICH}",
    ),
    (
        r"context was not found for specified context: (?P<name>.+)",
        "NoContext",
        _NO_CONTEXT,
    ),
    (r"context \"(?P<name>.+?)\" does not exist", "NoContext", _NO_CONTEXT),
    (
        r"must be logged in to the server|\(Unauthorized\)|Unauthorized$",
        "NotLoggedIn",
        "the cluster refuses your credentials: log in to it again, or choose another context "
        f"{_WHICH}",
    ),
    (
        rf"doesn't have a resource type \"({_OURS})\"",
        "NotInstalled",
        lambda m: _NOT_INSTALLED.format(_KINDS[m[1]]),
    ),
    (
        r"no matches for kind \"(?P<kind>\w+)\" in version \"(?P<version>.+?)\"",
        "NotInstalled",
        _unknown_kind,
    ),
    (
        r"User \"(?P<user>.+?)\" cannot (?P<verb>\w+) resource \"(?P<resource>\S+?)\".*?"
        r"(?P<where>in the namespace \".+?\"|at the cluster scope)",
        "Forbidden",
        _forbidden,
    ),
    (
        r"\(NotFound\).*namespaces \"(?P<name>.+?)\" not found",
        "NotFound",
        "there is no namespace {name}; kubectl create namespace {name}",
    ),
    (
        rf"({_OURS})\.{re.escape(GROUP)} \"(.+?)\" not found",
        "NotFound",
        lambda m: (
            f"there is no {_KINDS[m[1]]} {m[2]} in the namespace that was searched: name another "
            "namespace with -n, or list all with benchrun get -A"
        ),
    ),
    (
        r"\(NotFound\).*pods \"(?P<name>.+?)\" not found",
        "NotFound",
        "the pod {name} is gone",
    ),
    (
        IMMUTABLE,
        "Immutable",
        lambda m: (
            f"{', '.join(dict.fromkeys(re.findall(IMMUTABLE, m.string)))} can't be changed"
        ),
    ),
)
