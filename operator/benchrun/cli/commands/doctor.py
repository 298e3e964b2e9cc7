"""`benchrun doctor [-f FILE]`: check whether a namespace of a cluster can run a benchmark."""

import argparse
import inspect
import json
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import yaml
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from benchrun.api import BenchmarkRunSpec, first_problem
from benchrun.api.sweep import KIND as SWEEP_KIND, BenchmarkSweepSpec
from benchrun.cli import errors, in_pod, interrupts, manifests, shared_options
from benchrun.cli.api_queries import Asker
from benchrun.doctor import (
    asking,
    dry_runs,
    limits,
    operators,
    placement,
    probe,
    references,
    rights,
    target,
)
from benchrun.names import KIND, MAX_RUN_NAME
from benchrun.observe import Place, labels_of, untrusted_json as raw
from benchrun.plan import planned_variants
from benchrun.report import exit_codes

MOST_TARGETS = 8
"""Most variants of a sweep that are checked, of those with different pods."""
LOOK_SECONDS = 1.0  # Seconds between two reads of a Lease or a test pod.
MORE_LEASE_SECONDS = 2.0
"""Seconds for which a Lease is read beyond its own duration."""
START_SECONDS = 120
DELETE_ATTEMPTS = 2
MARKS: dict[asking.State, tuple[str, str]] = {
    "Ok": ("ok", "green"),
    "Warning": ("warning", "yellow"),
    "Problem": ("problem", "red"),
    "NotChecked": ("not checked", "cyan"),
}
ANY: dict[str, Any] = {
    "model": {"name": "any"},
    "endpoint": {"url": "http://any"},
    "workloads": [
        {
            "name": "any",
            "dataset": {"random": {"inputTokens": 1, "outputTokens": 1}},
            "load": {"concurrencies": [1]},
            "requests": 1,
        }
    ],
}
"""Stands for a run if the user gives none. It has only the client's pod."""

SUMMARY = "can this namespace of this cluster run it?"
DESCRIPTION = """\
Check whether a namespace of the cluster can run a benchmark: operator, kinds, rights, nodes and \
GPUs, claims and Secrets,
quotas, NetworkPolicies. The API server also admits each object and pod of the run without \
storing it (dry run).

Without -f, only the client's pod is checked. Nothing is changed, except that --pods starts test \
pods and deletes them."""
EPILOG = f"""\
exit codes: 0 no problem (there may be warnings, and checks that could not be made); \
{exit_codes.UNFIT} a problem, or with --strict
a check that could not be made; 1 the cluster or the file can't be read."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-f", "--file", metavar="FILE", help="the run or sweep; - is standard input"
    )
    add(
        "--pods",
        nargs="?",
        const="client",
        choices=("client", "all"),
        help="start a test pod with the client's image: can it be pulled, does it reach DNS, the "
        "hub and the API server; all: also pods with the servers' images, without GPU",
    )
    add(
        "--timeout",
        type=shared_options.valid(_seconds),
        default=START_SECONDS,
        metavar="SECONDS",
        help=f"how long a test pod may take (default: {START_SECONDS})",
    )
    add(
        "--as-operator",
        action="store_true",
        help="make dry runs in the name of the operator and of the controllers that create pods; "
        "you need the right to impersonate them",
    )
    add(
        "--operator-namespace",
        default=operators.HOME,
        metavar="NAMESPACE",
        help="namespace of the operator, if you may not list all Deployments "
        f"(default: {operators.HOME})",
    )
    add(
        "--strict",
        action="store_true",
        help="exit with an error also if something could not be checked",
    )
    shared_options.add_cluster_options(parser)
    shared_options.add_output(parser)


def _seconds(text: str) -> float:
    value = shared_options.number_from_0(text)
    if value is None or not 1 <= value <= probe.LONGEST_WAIT_SECONDS:
        raise ValueError(
            f"{text!r} is not a number from 1 to {probe.LONGEST_WAIT_SECONDS}"
        )
    return value


def run(options: argparse.Namespace, console: Console) -> int:
    given = manifests.manifests_in([options.file]) if options.file else []
    namespace = _namespace(options, given)
    asker = Asker(namespace, options.context)
    answers = asking.ApiAnswers()
    checked = _installation(asker, answers, options)
    operator = operators.of_namespace(
        operators.operators_in(answers, options.operator_namespace), namespace
    )
    known = operator or operators.FoundOperator(
        namespace=options.operator_namespace
    )
    bodies = [yaml.load(each.text, Loader=manifests.LOADER) for each in given]
    targets, found = _targets(bodies, namespace, known)
    unknown = operators.defaults_line(operator)
    checked += [*found, *([] if unknown is None else [unknown])]
    checks = [
        rights.namespace_check(namespace),
        *_checks_of(targets, operator, options),
        *(_manifest_check(body, namespace) for body in _ours(bodies)),
    ]
    answers.update(references.brought(bodies, namespace))
    asker.all((query for each in checks for query in each.queries), answers)
    checked += [line for each in checks for line in each.read(answers)]
    if operator is not None:
        checked.append(_lease(asker, operator, answers))
    if options.pods:
        checked += _started(asker, targets, options)
    lines = list(dict.fromkeys(checked))
    if options.output == "json":
        print(json.dumps(as_json(namespace, lines), indent=2))
    else:
        show(console, lines)
    return exit_code(lines, strict=options.strict)


def exit_code(lines: Sequence[asking.CheckLine], *, strict: bool) -> int:
    """Return the exit code. With `strict`, NotChecked counts as a problem."""
    bad = ("Problem", "NotChecked") if strict else ("Problem",)
    has_problem = any(line.state in bad for line in lines)
    return exit_codes.UNFIT if has_problem else exit_codes.PASSED


def as_json(namespace: str, lines: Sequence[asking.CheckLine]) -> dict[str, object]:
    """Return the result for programs, as docs/doctor.md describes it."""
    counts = Counter(line.state for line in lines)
    return {
        "namespace": namespace,
        "counts": {
            f"{state[0].lower()}{state[1:]}": counts[state]
            for state in asking.STATES
        },
        "checks": [asdict(line) for line in lines],
    }


def show(console: Console, lines: Sequence[asking.CheckLine]) -> None:
    """Print each line, with its remedy below it, then how many lines each state has."""
    width = max(len(mark) for mark, _ in MARKS.values())
    for line in lines:
        mark, colour = MARKS[line.state]
        text = Text.assemble(
            (f"{mark:<{width}}  ", colour), f"{line.subject}: {line.sentence}"
        )
        console.print(text, soft_wrap=True)
        if line.remedy:
            console.print(Text(f"{'':<{width}}  -> {line.remedy}"), soft_wrap=True)
    counts = Counter(line.state for line in lines)
    words = (f"{counts[state]} {MARKS[state][0]}" for state in asking.STATES)
    console.print(", ".join(words), markup=False)


def _namespace(
    options: argparse.Namespace, given: Sequence[manifests.Manifest]
) -> str:
    """Return the namespace from the option, else the manifest, else kubectl's context.

    Raises CommandError if option and manifest differ.
    """
    named = {each.namespace for each in given if each.namespace}
    if options.namespace:
        named.add(options.namespace)
    if len(named) > 1:
        raise errors.CommandError(
            f"--namespace and the file name several namespaces ({', '.join(sorted(named))}); "
            "leave only one of them"
        )
    if named:
        return _as_name(named.pop())
    words = ("config", "view", "--minify", "--output=jsonpath={..namespace}")
    code, out, error = Asker("", options.context).kubectl(*words)
    if code != 0:
        raise errors.explained(error)
    return _as_name(out.decode("utf-8", "replace").strip() or "default")


def _as_name(text: str) -> str:
    """Return the text. Raises CommandError if it is not a valid name of a namespace."""
    if re.fullmatch("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text) is None:
        raise errors.CommandError(f"{text!r} is not a valid name of a namespace")
    return text


def _installation(
    asker: Asker, answers: asking.ApiAnswers, options: argparse.Namespace
) -> list[asking.CheckLine]:
    """Check kinds and operator first, because the other checks depend on the operator."""
    home = options.operator_namespace
    kinds = operators.kinds_check()
    asker.all((*operators.deployments(home), *kinds.queries), answers)
    about = operators.operator_checks(
        answers,
        home=home,
        namespace=asker.namespace,
        version=version("benchrun-operator"),
    )
    return [*kinds.read(answers), *about]


def _ours(bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return only the runs and sweeps."""
    return [body for body in bodies if body.get("kind") in (KIND, SWEEP_KIND)]


def _targets(
    given: Sequence[dict[str, Any]],
    namespace: str,
    operator: operators.FoundOperator,
) -> tuple[list[target.RunTarget], list[asking.CheckLine]]:
    """Return the runs to check, and lines on specs that are not valid or not checked.

    Raises CommandError if the file has neither a run nor a sweep.
    """
    if not given:
        spec = BenchmarkRunSpec.model_validate(ANY)
        any_run = target.target_of(namespace, "any", spec, operator, is_given=False)
        return [any_run], []
    bodies = _ours(given)
    if not bodies:
        raise errors.CommandError(
            f"the file has neither a {KIND} nor a {SWEEP_KIND}"
        )
    found: list[target.RunTarget] = []
    checked: list[asking.CheckLine] = []
    for body in bodies:
        try:
            found += [
                target.target_of(
                    namespace, name, spec, operator, labels=labels_of(body)
                )
                for name, spec in _specs(body)
            ]
        except ValueError as error:
            checked.append(_invalid(body, error))
    different = target.merged(found)
    if len(different) > MOST_TARGETS:
        more = len(different) - MOST_TARGETS
        checked.append(
            asking.not_checked(
                "variants",
                subject="variants",
                sentence=f"{more} more variants with different pods are not checked",
                remedy="Check them as runs of their own.",
            )
        )
    return different[:MOST_TARGETS], checked


def _specs(body: dict[str, Any]) -> list[tuple[str, BenchmarkRunSpec]]:
    """Return name and spec of a run, or of each variant of a sweep.

    Raises ValueError if the spec is not valid.
    """
    metadata = raw.mapping(body.get("metadata"))
    name = raw.text(metadata.get("name")) or raw.text(metadata.get("generateName"))
    name = name.strip("-") or "run"
    given = body.get("spec")
    if body["kind"] == KIND:
        return [(name, BenchmarkRunSpec.model_validate(given))]
    sweep = BenchmarkSweepSpec.model_validate(given)
    return [
        (f"{name}-{each.name}"[:MAX_RUN_NAME].strip("-"), each.spec)
        for each in planned_variants(sweep)
    ]


def _invalid(body: dict[str, Any], error: ValueError) -> asking.CheckLine:
    why = (
        first_problem(error, root="spec")
        if isinstance(error, ValidationError)
        else str(error)
    )
    return asking.problem(
        "spec",
        subject=f"{body['kind']} {raw.text(raw.mapping(body.get('metadata')).get('name'))}",
        sentence=f"is not valid: {why}",
        remedy="Correct it; benchrun check -f FILE names every mistake.",
    )


def _manifest_check(body: dict[str, Any], namespace: str) -> asking.Check:
    """Check that the API server would accept the run or sweep itself."""
    query = dry_runs.dry_run(body, namespace)
    name = raw.text(raw.mapping(body.get("metadata")).get("name"))
    subject = f"{body['kind']} {name}"

    def read(answers: asking.ApiAnswers) -> list[asking.CheckLine]:
        answer = answers.of(query)
        if not answer.trouble:
            return [
                asking.ok("manifest", subject=subject, sentence="would be accepted")
            ]
        if "already exists" in answer.words:
            return [
                asking.warning(
                    "manifest",
                    subject=subject,
                    sentence="already exists",
                    remedy="A run is measured once: use another name, or generateName.",
                )
            ]
        line = dry_runs.refused("manifest", subject, answer, Place(""))
        if line.state != "Problem":
            return [line]
        remedy = "Correct what the message names; benchrun check -f FILE says more."
        return [replace(line, remedy=remedy)]

    return asking.Check((query,), read)


def _checks_of(
    targets: Sequence[target.RunTarget],
    operator: operators.FoundOperator | None,
    options: argparse.Namespace,
) -> list[asking.Check]:
    return [
        *(rights.rights_check(each, operator) for each in targets[:1]),
        *(
            check if len(targets) == 1 else _titled(check, each.title)
            for each in targets
            for check in _checks(each, operator, options)
        ),
    ]


def _checks(
    each: target.RunTarget,
    operator: operators.FoundOperator | None,
    options: argparse.Namespace,
) -> list[asking.Check]:
    return [
        dry_runs.dry_run_check(each, operator, as_operator=options.as_operator),
        limits.quota_check(each),
        references.reference_check(each),
        placement.placement_check(each),
        limits.network_check(each, operator),
    ]


def _titled(check: asking.Check, title: str) -> asking.Check:
    """Return the check with the run's title before the subject of each line."""

    def read(answers: asking.ApiAnswers) -> list[asking.CheckLine]:
        return [
            replace(line, subject=f"{title}: {line.subject}")
            for line in check.read(answers)
        ]

    return asking.Check(check.queries, read)


def _lease(
    asker: Asker, operator: operators.FoundOperator, answers: asking.ApiAnswers
) -> asking.CheckLine:
    """Read the Lease until it was renewed, or its duration has passed."""
    query = operators.lease_query(operator)
    before = after = asker.one(query)
    ends_at = (
        time.monotonic() + operators.lease_seconds(before) + MORE_LEASE_SECONDS
    )
    while (
        operators.lease_seconds(after)
        and operators.lease_check(operator, before, after).state != "Ok"
        and time.monotonic() < ends_at
    ):
        time.sleep(LOOK_SECONDS)
        after = asker.one(query)
    return operators.lease_check(operator, before, after)


def _started(
    asker: Asker, targets: Sequence[target.RunTarget], options: argparse.Namespace
) -> list[asking.CheckLine]:
    """Start test pods, one after the other, and return their results."""
    checked: list[asking.CheckLine] = []
    for each in targets[:1]:
        if each.pods[0].spec["containers"][0]["image"] == operators.UNKNOWN_IMAGE:
            return [
                asking.not_checked(
                    "started",
                    subject="started pod of client",
                    sentence="the client's image is unknown, because no operator was found",
                    remedy="Set spec.client.image, or --operator-namespace.",
                )
            ]
        script = inspect.getsource(in_pod)
        pods = [(each.pods[0], probe.client_probe(each, script, _new_name()))]
        if options.pods == "all":
            pods += [
                (pod, probe.server_probe(pod, each, _new_name()))
                for pod in each.pods[1:]
            ]
        for pod, manifest in pods:
            checked += _shown(asker, pod, manifest, options.timeout)
    return checked


def _new_name() -> str:
    """Return a new name for a test pod.

    The API server does not choose it, so the pod can be deleted even if the answer is lost.
    """
    return f"benchrun-doctor-{secrets.token_hex(5)}"


def _shown(
    asker: Asker, pod: target.PlannedPod, manifest: dict[str, Any], seconds: float
) -> list[asking.CheckLine]:
    """Start a test pod, wait for its end, and delete it in any case. Return its results."""
    name = manifest["metadata"]["name"]
    answer = asking.UNASKED
    lines: list[asking.CheckLine] = []
    with interrupts.sigterm_interrupts():
        try:
            # Ctrl-C is deferred until the answer says whether the pod was created.
            with interrupts.signals_deferred():
                answer = asker.one(probe.creation(manifest, asker.namespace))
            if (refused := probe.created(answer, pod)) is not None:
                lines.append(refused)
            else:
                lines += _seen(asker, name, pod, seconds)
        finally:
            with interrupts.signals_deferred():
                left = _deleted(asker, name) if probe.may_be_there(answer) else None
                if left is not None:
                    lines.append(left)
                    # An interrupted command prints no results.
                    print(f"{left.subject} {left.sentence}", file=sys.stderr)
    return lines


def _seen(
    asker: Asker, name: str, pod: target.PlannedPod, seconds: float
) -> list[asking.CheckLine]:
    body = _ended(asker, name, seconds)
    _, out, _ = asker.kubectl("logs", name, "--tail=20", "--limit-bytes=16384")
    lines = out.decode("utf-8", "replace").splitlines()
    return list(probe.results(body, lines, pod))


def _deleted(asker: Asker, name: str) -> asking.CheckLine | None:
    """Delete the test pod, if it exists. Return a warning if that failed, else None."""
    how = ("--ignore-not-found", "--wait=false", "--now")
    for _ in range(DELETE_ATTEMPTS):
        code, _, error = asker.kubectl("delete", "pod", name, *how)
        if code == 0:
            return None
    words = error.strip()[:300] or "kubectl did not answer"
    return probe.left_behind(name, asker.namespace, words)


def _ended(asker: Asker, name: str, seconds: float) -> raw.Object:
    """Wait until the pod ends, can't start, or `seconds` pass; return it as last seen."""
    query = asking.ApiQuery(f"/api/v1/namespaces/{asker.namespace}/pods/{name}")
    ends_at = time.monotonic() + seconds
    body = asker.one(query).found
    while not probe.has_ended(body) and time.monotonic() < ends_at:
        time.sleep(LOOK_SECONDS)
        body = asker.one(query).found or body
    return body
