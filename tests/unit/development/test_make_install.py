"""`make install`: which image it takes, and what it takes from whom."""

import shlex

import pytest
from unit.development.commands import typed


def helm_words(*variables: str) -> list[str]:
    """What helm would be told."""
    done = typed("make", "--dry-run", "install", *variables)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.replace("\\\n", " ").splitlines()
    return shlex.split(next(line for line in lines if line.startswith("helm ")))


@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [
        pytest.param(
            "docker.io/benchrun/x:dev", "docker.io/benchrun/x", "dev", id="registry"
        ),
        pytest.param(
            "reg:5000/x:dev", "reg:5000/x", "dev", id="registry with a port"
        ),
        pytest.param(
            "reg:5000/team/x", "reg:5000/team/x", "", id="port and no tag"
        ),
        pytest.param("x:dev", "x", "dev", id="no registry"),
        pytest.param(
            "reg:5000/x@sha256:0a",
            "reg:5000/x@sha256",
            "0a",
            id="digest, put together again by the chart",
        ),
    ],
)
def test_the_tag_is_what_follows_the_last_colon_after_the_last_slash(
    image: str, repository: str, tag: str
) -> None:
    words = helm_words(f"OPERATOR_IMAGE={image}", f"CLIENT_IMAGE={image}")
    assert {word for word in words if "mage." in word} == {
        f"image.repository={repository}",
        f"image.tag={tag}",
        f"clientImage.repository={repository}",
        f"clientImage.tag={tag}",
    }


def test_a_tag_of_digits_alone_stays_text() -> None:
    words = helm_words("OPERATOR_IMAGE=x:20261128", "CLIENT_IMAGE=x:20261128")
    for tag in ("image.tag=20261128", "clientImage.tag=20261128"):
        assert words[words.index(tag) - 1] == "--set-string"


TAKING = {"--take-ownership", "--force-conflicts"}


def test_only_on_the_embedded_cluster_helm_takes_what_it_did_not_make() -> None:
    assert set(helm_words()) >= TAKING
    images = ("OPERATOR_IMAGE=reg/o:1", "CLIENT_IMAGE=reg/c:1")
    assert not TAKING & set(helm_words("CLUSTER=current", *images))


@pytest.mark.parametrize("goal", ["demo", "install"])
@pytest.mark.parametrize(
    "given",
    [[], ["OPERATOR_IMAGE=reg/o:1"], ["CLIENT_IMAGE=reg/c:1"]],
    ids=["none", "one", "other"],
)
def test_a_cluster_of_ones_own_is_not_given_images_that_exist_nowhere(
    goal: str, given: list[str]
) -> None:
    done = typed("make", goal, "CLUSTER=current", *given)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "CLUSTER=current needs OPERATOR_IMAGE=... and CLIENT_IMAGE=..." in line
    assert "docs/install.md" in line
