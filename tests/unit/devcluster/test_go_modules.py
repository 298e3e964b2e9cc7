"""go.mod of the servers: the names and versions of the modules that Kubernetes publishes beside itself."""

import pytest

from devcluster import go_modules
from devcluster.reporting import DevclusterError

RELEASE = """\
module k8s.io/kubernetes

go 1.26.0

require (
\tk8s.io/api v0.0.0
\tk8s.io/klog/v2 v2.140.0
)

replace (
\tk8s.io/client-go => ./staging/src/k8s.io/client-go
\tk8s.io/api => ./staging/src/k8s.io/api
\tgithub.com/somewhere/fork => github.com/other/fork v1.0.0
)

replace k8s.io/sample-cli-plugin => ./staging/src/k8s.io/sample-cli-plugin
"""


def test_a_release_maps_to_the_version_of_its_modules() -> None:
    assert go_modules.staging_version("1.36.3") == "v0.36.3"
    assert go_modules.staging_version("v1.37.0-rc.1") == "v0.37.0-rc.1"


@pytest.mark.parametrize("version", ["1.36", "2.0.0", "latest", ""])
def test_an_invalid_release_is_rejected(version: str) -> None:
    with pytest.raises(DevclusterError, match="not a Kubernetes version"):
        go_modules.staging_version(version)


def test_only_modules_of_the_release_itself_are_replaced() -> None:
    assert go_modules.staging_modules(RELEASE) == ["k8s.io/api", "k8s.io/client-go", "k8s.io/sample-cli-plugin"]


def test_the_whole_file() -> None:
    assert go_modules.kube_go_mod("v1.36.3", RELEASE) == (
        "module devcluster/kube\n"
        "\n"
        "go 1.26.0\n"
        "\n"
        "require (\n"
        "\tk8s.io/component-base v0.36.3\n"
        "\tk8s.io/kubernetes v1.36.3\n"
        ")\n"
        "\n"
        "replace (\n"
        "\tk8s.io/api => k8s.io/api v0.36.3\n"
        "\tk8s.io/client-go => k8s.io/client-go v0.36.3\n"
        "\tk8s.io/sample-cli-plugin => k8s.io/sample-cli-plugin v0.36.3\n"
        ")\n"
    )


def test_a_release_of_an_unknown_form_is_rejected() -> None:
    with pytest.raises(DevclusterError, match="not of the known form"):
        go_modules.kube_go_mod("1.36.3", "module k8s.io/kubernetes\n\ngo 1.26.0\n")


def test_the_committed_files_agree_with_the_generator() -> None:
    committed = (go_modules.KUBE / "go.mod").read_text()
    version = go_modules.required_version(committed, "k8s.io/kubernetes")
    staging = go_modules.staging_version(version)
    replaced = [line.split() for line in committed.splitlines() if " => " in line]
    assert len(replaced) > 30
    assert all(words == [words[0], "=>", words[0], staging] for words in replaced)


def test_a_required_version_is_found_in_both_forms() -> None:
    assert go_modules.required_version("require example.org/a v1.2.3\n", "example.org/a") == "1.2.3"
    assert go_modules.required_version("require (\n\texample.org/a v1.2.4 // indirect\n)\n", "example.org/a") == "1.2.4"
    with pytest.raises(DevclusterError, match=r"requires no example\.org/b"):
        go_modules.required_version("require example.org/a v1.2.3\n", "example.org/b")
