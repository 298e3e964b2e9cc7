"""kubectl's words, as kubectl 1.29 to 1.36 writes them, made into one line with a remedy."""

import asyncio

import pytest
from benchrun.cli.__main__ import main
from benchrun.cli.cluster import Kubectl
from benchrun.cli.errors import KubectlError, explained, no_such
from unit.cli.fake_kubectl import FakeKubectl
from unit.golden_messages import assert_golden, golden

REFUSED = "The connection to the server {} was refused - did you specify the right host or port?"
LIBRARY = 'E1121 17:51:24.518025    5654 memcache.go:265] "Unhandled Error" err="couldn\'t get current server API group list"'
FORBIDDEN = (
    'Error from server (Forbidden): benchmarkruns.benchrun.dev{} is forbidden: User "eve" cannot {} resource '
    '"benchmarkruns" in API group "benchrun.dev" {}'
)


@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        pytest.param(
            f"{LIBRARY}\n{LIBRARY}\n" + REFUSED.format("localhost:8080"),
            "NoCluster",
            id="no kubeconfig",
        ),
        pytest.param(
            REFUSED.format("10.0.0.1:6443"), "NoCluster", id="cluster down"
        ),
        pytest.param(
            "Unable to connect to the server: dial tcp: lookup nowhere: no such host",
            "NoCluster",
            id="no such host",
        ),
        pytest.param(
            "Error in configuration: context was not found for specified context: prod",
            "NoContext",
            id="no such context",
        ),
        pytest.param(
            'error: context "prod" does not exist',
            "NoContext",
            id="no such context, newer words",
        ),
        pytest.param(
            "error: You must be logged in to the server (Unauthorized)",
            "NotLoggedIn",
            id="not logged in",
        ),
        pytest.param(
            'error: the server doesn\'t have a resource type "benchmarkruns"',
            "NotInstalled",
            id="not installed, get",
        ),
        pytest.param(
            'error: resource mapping not found for name: "a" namespace: "" from "STDIN": no matches for kind "BenchmarkRun" '
            'in version "benchrun.dev/v1alpha1"\nensure CRDs are installed first',
            "NotInstalled",
            id="not installed, apply",
        ),
        pytest.param(
            'error: resource mapping not found for name: "a" namespace: "" from "STDIN": no matches for kind "Widget" in '
            'version "x.dev/v1"\nensure CRDs are installed first',
            "NotInstalled",
            id="another kind",
        ),
        pytest.param(
            FORBIDDEN.format(' "a"', "get", 'in the namespace "lab"'),
            "Forbidden",
            id="may not read",
        ),
        pytest.param(
            FORBIDDEN.format("", "create", 'in the namespace "lab"'),
            "Forbidden",
            id="may not write",
        ),
        pytest.param(
            FORBIDDEN.format("", "list", "at the cluster scope"),
            "Forbidden",
            id="may not list all",
        ),
        pytest.param(
            'Error from server (NotFound): error when creating "STDIN": namespaces "lab" not found',
            "NotFound",
            id="no namespace",
        ),
        pytest.param(
            'The BenchmarkRun "a" is invalid: \n* spec.model: Invalid value: "object": spec.model is immutable; create a new '
            'run\n* spec.repeats: Invalid value: "integer": spec.repeats is immutable; create a new run',
            "Immutable",
            id="immutable",
        ),
        pytest.param(
            'Error from server (BadRequest): error when creating "STDIN": BenchmarkRun in version "v1alpha1" cannot be '
            'handled as a BenchmarkRun: strict decoding error: unknown field "spec.sever"',
            "Other",
            id="unknown field",
        ),
        pytest.param(
            'The BenchmarkRun "a" is invalid: \n* spec.repeats: Invalid value: 0: should be at least 1\n* spec.server.image: '
            "Required value\n* <nil>: Invalid value: null: some validation rules were not checked "
            "because the object was "
            "invalid; correct the existing errors to complete validation",
            "Other",
            id="several problems stand under one another",
        ),
        pytest.param(
            "error: something\n  new\n",
            "Other",
            id="what is not known is passed on",
        ),
        pytest.param("", "Other", id="nothing"),
    ],
)
def test_each_kubectl_error_prints_one_line_with_the_remedy(
    message: str, trouble: str, request: pytest.FixtureRequest
) -> None:
    error = explained(message)
    assert error.trouble == trouble
    assert_golden("kubectl", request.node.callspec.id, str(error))


@pytest.mark.parametrize(
    ("namespace", "others", "line"),
    [
        pytest.param(
            None,
            ["chat-1", "rag"],
            "in this namespace; did you mean chat-1?",
            id="near",
        ),
        pytest.param(
            "lab", ["rag"], "in namespace lab; there are: rag", id="others"
        ),
        pytest.param(
            "lab",
            [f"z{n}" for n in range(12)],
            f"in namespace lab; there are: {', '.join(f'z{n}' for n in range(10))} and 2 more",
            id="many others",
        ),
        pytest.param(
            "lab",
            [],
            "in namespace lab, nor any other; -n names another namespace, and benchrun get -A "
            "lists all",
            id="none",
        ),
    ],
)
def test_a_run_that_is_not_there(
    namespace: str | None, others: list[str], line: str
) -> None:
    golden(str(no_such("BenchmarkRun", "chat", namespace, others)))


NOT_FOUND = (
    'Error from server (NotFound): benchmarkruns.benchrun.dev "chta" not found'
)


@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("BenchmarkRun or BenchmarkSweep", ["get"]),
        ("BenchmarkRun or BenchmarkSweep", ["watch"]),
        ("BenchmarkRun or BenchmarkSweep", ["report"]),
        ("BenchmarkRun", ["logs"]),
        ("BenchmarkRun", ["judge"]),
    ],
)
def test_every_command_names_those_that_there_are(
    what: str,
    command: list[str],
    kubectl: FakeKubectl,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kubectl.fails("get", "chta", error=NOT_FOUND, unless="--ignore-not-found")
    kubectl.answer("get", "chta", "--ignore-not-found")
    kubectl.gives("get", body={"items": [{"metadata": {"name": "chat"}}]})
    assert main([*command, "chta", "-n", "lab"]) == 1
    golden(capsys.readouterr().err)


def test_who_may_not_list_gets_no_names(
    kubectl: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.fails("get", "chta", error=NOT_FOUND)
    kubectl.fails(
        "get", error=FORBIDDEN.format("", "list", 'in the namespace "lab"')
    )
    assert main(["get", "chta"]) == 1
    golden(capsys.readouterr().err)


async def test_much_on_stderr_holds_up_no_line(kubectl: FakeKubectl) -> None:
    kubectl.answer("logs", out="one\ntwo\n", error="x" * 2_000_000, code=1)
    found = []

    async def read() -> None:
        async for line in Kubectl().lines("logs"):
            found.append(line)

    with pytest.raises(KubectlError):
        await asyncio.wait_for(read(), 20)
    assert found == ["one", "two"]


def test_every_command_needs_kubectl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for command in (
        ["get"],
        ["watch", "chat"],
        ["logs", "chat"],
        ["report", "chat"],
    ):
        assert main(command) == 1
        assert (
            "kubectl was not found on PATH; install it" in capsys.readouterr().err
        )
