"""What ends a command early, and what kubectl says made into one clear line with the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Literal

from benchrun.api.sweep import spec
from benchrun.names import GROUP, KIND, PLURAL


class CommandError(RuntimeError):
    """What was asked for can't be done; the text says why."""

    code = 1
    """How the command ends."""


def unknown(what: str, name: str, known: Sequence[str]) -> CommandError:
    """A name that does not exist: the nearest ones that do, then all."""
    by_lower = {each.lower(): each for each in known}
    near = [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3)]
    guess = f"; did you mean {' or '.join(near)}?" if near else "."
    return CommandError(f"there is no {what} {name!r}{guess} There are: {', '.join(known)}")


Trouble = Literal[
    "NoKubectl", "NoCluster", "NoContext", "NotLoggedIn", "NotInstalled", "Forbidden", "NotFound", "Immutable", "Other"
]
OF_THE_CLUSTER: frozenset[Trouble] = frozenset({"NoKubectl", "NoCluster", "NoContext", "NotLoggedIn", "NotInstalled"})
"""Whatever is asked for fails so."""
INSTALL = "docs/install.md"
MAX_NAMES = 10
"""Names of other runs in an error."""
IMMUTABLE = re.compile(r"spec\.(\w+) is immutable")


class KubectlError(CommandError):
    """kubectl could not do it; the text says why, and what to do."""

    def __init__(self, text: str, trouble: Trouble = "Other") -> None:
        super().__init__(text)
        self.trouble: Trouble = trouble


def explained(said: str) -> KubectlError:
    """From what kubectl wrote to stderr. What is not known is passed on in its own words."""
    text = _own_words(said)
    for pattern, trouble, tell in _KNOWN:
        found = pattern.search(text)
        if found is not None:
            return KubectlError(tell(found), trouble)
    return KubectlError(_PREFIX.sub("", text) or "kubectl failed without an error message")


def no_such(kind: str, name: str, namespace: str | None, others: Sequence[str]) -> KubectlError:
    """With the nearest names that there are."""
    place = f"namespace {namespace}" if namespace else "this namespace"
    return KubectlError(f"there is no {kind} {name} in {place}{_instead(name, others)}", "NotFound")


def _instead(name: str, others: Sequence[str]) -> str:
    if not others:
        return ", nor any other; -n names another namespace, and benchrun get -A lists all"
    near = get_close_matches(name, others, n=3)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    more = f" and {len(others) - MAX_NAMES} more" if len(others) > MAX_NAMES else ""
    return f"; there are: {', '.join(others[:MAX_NAMES])}{more}"


NO_KUBECTL = KubectlError(
    "kubectl was not found on PATH; install it (https://kubernetes.io/docs/tasks/tools/): "
    "it is how this command logs in to the cluster",
    "NoKubectl",
)


def _own_words(said: str) -> str:
    """Without the log lines of its libraries, in one line; but several problems of an object stay under one another."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _NOISE.match(line)]
    return " ".join(f"\n  {line}" if line.startswith("* ") else line for line in lines).replace(" \n", "\n")


def _no_cluster(found: re.Match[str]) -> str:
    if found["host"] in ("localhost:8080", "127.0.0.1:8080"):
        return "kubectl knows no cluster: set KUBECONFIG, or choose one with --context (kubectl config get-contexts)"
    return f"the cluster at {found['host']} does not answer; is it up, and is it the one you mean? {_WHICH}"


def _forbidden(found: re.Match[str]) -> str:
    user, verb, resource, where = (found[name] for name in ("user", "verb", "resource", "where"))
    role = "view" if verb in ("get", "list", "watch") else "edit"
    if "cluster scope" in where:
        return f"{user} may not {verb} {resource} of all namespaces; leave -A out, or ask for the ClusterRole {role} in the cluster"
    place = where.removeprefix("in the namespace ").strip('"')
    return (
        f"{user} may not {verb} {resource} in namespace {place}; ask for the ClusterRole {role} there, "
        "or name another namespace with -n"
    )


def _no_kind(kind: str) -> str:
    return f"this cluster does not know {kind}: install benchrun there ({INSTALL}), or choose another with --context"


def _unknown_kind(found: re.Match[str]) -> str:
    if found["version"].startswith(f"{GROUP}/"):
        return _no_kind(found["kind"])
    return f"this cluster does not know the kind {found['kind']} of {found['version']}"


_KINDS = {PLURAL: KIND, spec.PLURAL: spec.KIND}
_WHICH = "(kubectl config current-context)"
_NOISE = re.compile(r"[EWI]\d{4} \d\d:\d\d:|\* <nil>: .*some validation rules were not checked")
"""Log lines of its libraries, and that an object which breaks its schema was not put to the other rules."""
_PREFIX = re.compile(r"^(error: |Error in configuration: |Error from server( \(\w+\))?: |error when \w+ \"STDIN\": )+")
_KNOWN: tuple[tuple[re.Pattern[str], Trouble, Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"connection to the server (?P<host>\S+) was refused"), "NoCluster", _no_cluster),
    (
        re.compile(r"Unable to connect to the server: (?P<why>.+)"),
        "NoCluster",
        lambda found: f"the cluster does not answer ({found['why']}); is it up, and is it the one you mean? {_WHICH}",
    ),
    (
        re.compile(
            r"context was not found for specified context: (?P<name>.+)|context \"(?P<other>.+?)\" does not exist"
        ),
        "NoContext",
        lambda found: f"there is no context {found['name'] or found['other']}; kubectl config get-contexts lists them",
    ),
    (
        re.compile(r"must be logged in to the server|\(Unauthorized\)|Unauthorized$"),
        "NotLoggedIn",
        lambda _: f"the cluster does not take your credentials: log in to it again, or choose another context {_WHICH}",
    ),
    (
        re.compile(rf"doesn't have a resource type \"(?P<plural>{'|'.join(_KINDS)})\""),
        "NotInstalled",
        lambda found: _no_kind(_KINDS[found["plural"]]),
    ),
    (
        re.compile(r"no matches for kind \"(?P<kind>\w+)\" in version \"(?P<version>.+?)\""),
        "NotInstalled",
        _unknown_kind,
    ),
    (
        re.compile(
            r"User \"(?P<user>.+?)\" cannot (?P<verb>\w+) resource \"(?P<resource>\S+?)\".*?"
            r"(?P<where>in the namespace \".+?\"|at the cluster scope)"
        ),
        "Forbidden",
        _forbidden,
    ),
    (
        re.compile(r"\(NotFound\).*namespaces \"(?P<name>.+?)\" not found"),
        "NotFound",
        lambda found: f"there is no namespace {found['name']}; kubectl create namespace {found['name']}",
    ),
    (
        re.compile(rf"(?P<plural>{'|'.join(_KINDS)})\.{re.escape(GROUP)} \"(?P<name>.+?)\" not found"),
        "NotFound",
        lambda found: f"there is no {_KINDS[found['plural']]} {found['name']} here",
    ),
    (
        re.compile(r"\(NotFound\).*pods \"(?P<name>.+?)\" not found"),
        "NotFound",
        lambda found: f"the pod {found['name']} is gone",
    ),
    (
        IMMUTABLE,
        "Immutable",
        lambda found: f"{', '.join(dict.fromkeys(IMMUTABLE.findall(found.string)))} can't be changed",
    ),
)
