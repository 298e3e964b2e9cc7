"""The chart's ValidatingAdmissionPolicies confine the operator's account, whatever its roles say,
and nobody else's.

The accounts of this test are given every right there is, so that whatever is refused is refused by
a policy."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from benchrun.plan import Owner
from benchrun.plan.network_policies import network_policy_manifests
from chart.rendering import Object, render
from kit.kubectl import RUN, CommandFailed, Namespace, command
from kit.polling import polling
from kit.runs import merged, simulated_run
from unit.plan.objects import objects
from unit.plan.specs import spec

POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
OPERATOR = "bench-benchrun"
RELEASE = "bench-benchrun-release"
NOT_OURS = "must carry the label benchrun.dev/run-uid"
SPECS: dict[str, dict[str, Any]] = {
    "one server": {},
    "fenced": {"measurement": {"cachePolicy": "Reset"}},
    "two roles": {
        "server": {
            "image": "v",
            "disaggregated": {"kvTransfer": {"connector": "NixlConnector"}},
        },
    },
}


class Confined:
    """What an account may do here, by dry runs."""

    def __init__(self, namespace: Namespace, account: str) -> None:
        self._as = f"--as=system:serviceaccount:{namespace.name}:{account}"
        self._namespace = namespace

    def create(self, manifest: Mapping[str, Any]) -> None:
        """Raises CommandFailed."""
        command(
            "kubectl",
            "create",
            "--filename=-",
            "--dry-run=server",
            self._as,
            stdin=json.dumps(manifest),
        )

    def __call__(self, *arguments: str) -> None:
        """Raises CommandFailed."""
        self._namespace.kubectl(*arguments, "--dry-run=server", self._as)


@pytest.fixture(scope="module")
def home(namespace: Namespace) -> Iterator[Namespace]:
    """A namespace with the policies of a release in it, and accounts that may do everything."""
    rendered = [
        entry
        for entry in render(namespace=namespace.name)
        if entry["kind"] in POLICIES
    ]
    policies = [
        entry["metadata"]["name"]
        for entry in rendered
        if entry["kind"] == POLICIES[0]
    ]
    assert len(policies) == 6
    command("kubectl", "apply", "--filename=-", stdin=as_list(rendered))
    accounts = [
        {"kind": "ServiceAccount", "name": name, "namespace": namespace.name}
        for name in (OPERATOR, RELEASE)
    ]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"all-rights-{namespace.name}"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": accounts,
    }
    command("kubectl", "apply", "--filename=-", stdin=json.dumps(binding))
    try:
        wait_until_in_force(namespace)
        yield namespace
    finally:
        command(
            "kubectl",
            "delete",
            "clusterrolebinding",
            f"all-rights-{namespace.name}",
            "--wait=false",
        )
        for kind in POLICIES:
            command(
                "kubectl",
                "delete",
                kind,
                *policies,
                "--wait=false",
                "--ignore-not-found",
            )


def wait_until_in_force(namespace: Namespace) -> None:
    """The API server learns of policies, and of rights, within a second or two."""
    for account in (OPERATOR, RELEASE):
        bare = {
            **config_map(namespace),
            "apiVersion": "apps/v1",
            "kind": "Deployment",
        }
        bare |= {"spec": deployment(namespace)["spec"]}
        for _ in polling(f"{account} is confined", seconds=30):
            if "denied request" in refused(Confined(namespace, account), bare):
                break


def as_list(items: list[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def refused(account: Confined, manifest: Mapping[str, Any]) -> str:
    """What is said against it; nothing where it is accepted."""
    try:
        account.create(manifest)
    except CommandFailed as error:
        return str(error)
    return ""


@pytest.fixture
def operator(home: Namespace) -> Confined:
    return Confined(home, OPERATOR)


@pytest.fixture
def release(home: Namespace) -> Confined:
    return Confined(home, RELEASE)


def owner(namespace: Namespace) -> Owner:
    return Owner(namespace.name, "chat", "7c9e6679-7425-40de-944b-e07fc1f90ae7")


def deployment(namespace: Namespace, **pod: Any) -> Object:
    """A proper one, with changes to its pods' spec."""
    made = objects(owner(namespace), spec())
    found = copy.deepcopy(
        next(each for each in made if each["kind"] == "Deployment")
    )
    spec_of_pods = found["spec"]["template"]["spec"]
    spec_of_pods |= pod | (
        {"volumes": [*spec_of_pods["volumes"], *pod["volumes"]]}
        if "volumes" in pod
        else {}
    )
    return found


def config_map(namespace: Namespace, **metadata: Any) -> Object:
    """One of nobody's, with changes to its metadata."""
    meta = {"name": "any", "namespace": namespace.name, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


@pytest.mark.parametrize("case", SPECS)
def test_the_operator_makes_what_a_run_is_made_of(
    operator: Confined, home: Namespace, case: str
) -> None:
    whose = owner(home)
    body = spec(**SPECS[case])
    made = [
        *objects(whose, body),
        *network_policy_manifests(whose, body, operator_namespace=home.name),
    ]
    assert (
        refused(operator, {"apiVersion": "v1", "kind": "List", "items": made}) == ""
    )


def reference(**changes: Any) -> Object:
    uid = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    run = {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "name": "chat",
        "uid": uid,
    }
    return {**run, "controller": True, **changes}


LABELS = {"benchrun.dev/run-uid": reference()["uid"]}


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"labels": LABELS}, id="the label alone"),
        pytest.param({"ownerReferences": [reference()]}, id="the owner alone"),
        pytest.param(
            {
                "labels": {"benchrun.dev/run-uid": "other"},
                "ownerReferences": [reference()],
            },
            id="other uid",
        ),
        pytest.param(
            {"labels": LABELS, "ownerReferences": [reference(controller=False)]},
            id="no controller",
        ),
        pytest.param(
            {
                "labels": LABELS,
                "ownerReferences": [reference(apiVersion="apps/v1")],
            },
            id="other group",
        ),
        pytest.param(
            {
                "labels": LABELS,
                "ownerReferences": [reference(kind="BenchmarkSweep")],
            },
            id="other kind",
        ),
    ],
)
def test_what_belongs_to_no_run_it_can_not_make(
    operator: Confined, home: Namespace, metadata: Object
) -> None:
    assert NOT_OURS in refused(operator, config_map(home, **metadata))


def test_in_kube_system_it_can_make_nothing(
    operator: Confined, home: Namespace
) -> None:
    proper = config_map(home, labels=LABELS, ownerReferences=[reference()])
    assert refused(operator, proper) == ""
    elsewhere = {
        **proper,
        "metadata": {**proper["metadata"], "namespace": "kube-system"},
    }
    assert "admissionPolicy.forbiddenNamespaces" in refused(operator, elsewhere)


TOKEN = {
    "name": "t",
    "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
}


@pytest.mark.parametrize(
    "pod",
    [
        {"automountServiceAccountToken": True},
        {"automountServiceAccountToken": None},
        {"hostNetwork": True},
        {"hostPID": True},
        {"hostIPC": True},
        {"volumes": [TOKEN]},
    ],
    ids=lambda pod: next(iter(pod)),
)
def test_its_pods_get_no_token_and_nothing_of_the_node(
    operator: Confined, home: Namespace, pod: Object
) -> None:
    assert refused(operator, deployment(home)) == ""
    assert "pods of a run get no ServiceAccount token" in refused(
        operator, deployment(home, **pod)
    )


@pytest.mark.parametrize(
    ("pod", "value"),
    [
        ({"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}, "allowHostPath"),
        ({"securityContext": {"runAsUser": 0}}, "allowRoot"),
        ({"securityContext": None}, "allowRoot"),
        ({"serviceAccountName": "s3"}, "serviceAccounts"),
        ({"priorityClassName": "system-node-critical"}, "priorityClasses"),
    ],
    ids=["hostPath", "root", "image's user", "account", "priority"],
)
def test_its_pods_are_what_values_allow(
    operator: Confined, home: Namespace, pod: Object, value: str
) -> None:
    assert f"admissionPolicy.{value}" in refused(operator, deployment(home, **pod))


@pytest.mark.parametrize(
    "security",
    [
        {"privileged": True},
        {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}},
    ],
    ids=["privileged", "capability"],
)
def test_its_containers_get_no_capability_that_no_value_names(
    operator: Confined, home: Namespace, security: Object
) -> None:
    made = deployment(home)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["securityContext"] = security
    assert "only the capabilities that the chart's runs name" in refused(
        operator, made
    )


def test_it_deletes_what_belongs_to_a_run_and_nothing_else(
    operator: Confined, release: Confined, home: Namespace
) -> None:
    home.apply(simulated_run("mine", suspend=True))
    uid = home.get(RUN, "mine")["metadata"]["uid"]
    ours = merged(deployment(home), {"spec": {"replicas": 0}})
    ours["metadata"] |= {"name": "ours", "labels": {"benchrun.dev/run-uid": uid}}
    ours["metadata"]["ownerReferences"] = [reference(name="mine", uid=uid)]
    unlabelled = merged(ours, {"metadata": {"name": "unlabelled", "labels": None}})
    orphaned = merged(
        ours, {"metadata": {"name": "orphaned", "ownerReferences": None}}
    )
    theirs = merged(
        ours,
        {"metadata": {"name": "theirs", "labels": None, "ownerReferences": None}},
    )
    home.apply(config_map(home, name="other"))
    # the garbage collector takes what a missing object controls
    there = home.get("configmap", "other")["metadata"]["uid"]
    other = reference(apiVersion="v1", kind="ConfigMap", name="other", uid=there)
    controlled = merged(
        ours, {"metadata": {"name": "controlled", "ownerReferences": [other]}}
    )
    home.apply(ours, unlabelled, orphaned, theirs, controlled)
    for account in (operator, release):
        for name in ("ours", "unlabelled", "orphaned"):
            account("delete", "deployment", name)
        for name in ("theirs", "controlled"):
            with pytest.raises(CommandFailed, match=NOT_OURS):
                account("delete", "deployment", name)
        with pytest.raises(CommandFailed, match="denied request"):
            account("annotate", "deployment", "ours", "a=b")


def test_a_run_it_makes_and_cancels_only_for_a_sweep(
    operator: Confined, home: Namespace
) -> None:
    run = merged(
        simulated_run("swept", suspend=True), {"metadata": {"namespace": home.name}}
    )
    assert "BenchmarkSweep" in refused(operator, run)
    swept = reference(kind="BenchmarkSweep", name="sweep")
    assert (
        refused(operator, merged(run, {"metadata": {"ownerReferences": [swept]}}))
        == ""
    )
    home.apply(simulated_run("theirs", suspend=True))
    with pytest.raises(CommandFailed, match="BenchmarkSweep"):
        operator(
            "patch",
            RUN,
            "theirs",
            "--type=merge",
            '--patch={"spec":{"cancel":true}}',
        )
    operator(
        "patch",
        RUN,
        "theirs",
        "--type=merge",
        "--subresource=status",
        '--patch={"status":{"message":"x"}}',
    )


@pytest.mark.parametrize(
    ("name", "kind_of_secret", "accepted"),
    [
        ("benchrun-channel-key", "Opaque", True),
        ("another", "Opaque", False),
        ("benchrun-channel-key", "kubernetes.io/service-account-token", False),
    ],
)
def test_its_one_secret_is_its_key(
    operator: Confined,
    home: Namespace,
    name: str,
    kind_of_secret: str,
    accepted: bool,
) -> None:
    account = {"kubernetes.io/service-account.name": "default"}
    meta = {"name": name, "namespace": home.name, "annotations": account}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "type": kind_of_secret,
    }
    assert (refused(operator, secret) == "") is accepted


def test_whoever_releases_makes_nothing(release: Confined, home: Namespace) -> None:
    assert "only deletes servers" in refused(release, deployment(home))


def test_nobody_else_is_concerned(home: Namespace) -> None:
    other = Confined(home, "somebody-else")
    assert "denied the request" not in refused(other, config_map(home))
    command(
        "kubectl",
        "create",
        "--filename=-",
        "--dry-run=server",
        stdin=json.dumps(config_map(home)),
    )
