"""A release: one version in one place, and what its files say of images and of each other."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev import chart, release

ROOT = Path(__file__).parents[3]
DIGEST = "sha256:" + "0123456789abcdef" * 4
VALUES = (ROOT / chart.VALUES_FILE).read_text()
METADATA = yaml.safe_load((ROOT / chart.METADATA_FILE).read_text())


def test_the_chart_has_the_projects_version_images_and_source() -> None:
    version = chart.project()["version"]
    assert METADATA["version"] == METADATA["appVersion"] == version
    images = yaml.safe_load(METADATA["annotations"]["artifacthub.io/images"])
    assert [each["image"] for each in images] == [
        f"ghcr.io/benchrun/operator:{version}",
        f"ghcr.io/benchrun/client:{version}",
    ]
    source = chart.project()["urls"]["Source"]
    assert [METADATA["home"], *METADATA["sources"]] == [source, source]
    icon = METADATA["icon"].partition("/main/")[2]
    assert (ROOT / icon).is_file()


def test_another_version_and_registry_replace_what_the_chart_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chart, "version", lambda: "7.8.9")
    text = (ROOT / chart.METADATA_FILE).read_text()
    changed = yaml.safe_load(chart.metadata(text, registry="reg:5000/x"))
    assert changed["version"] == changed["appVersion"] == "7.8.9"
    images = yaml.safe_load(changed["annotations"]["artifacthub.io/images"])
    assert images == [
        {"name": "operator", "image": "reg:5000/x/operator:7.8.9"},
        {"name": "client", "image": "reg:5000/x/client:7.8.9"},
    ]
    unchanged = ("artifacthub.io/crds", "artifacthub.io/changes")
    for key in unchanged:
        assert changed["annotations"][key] == METADATA["annotations"][key]


@pytest.mark.parametrize("file", ["Dockerfile", "client-image/Dockerfile"])
def test_the_version_of_an_image_is_its_build_argument(file: str) -> None:
    text = (ROOT / file).read_text()
    assert "\nARG VERSION=" in text
    assert 'org.opencontainers.image.version="${VERSION}"' in text


@pytest.mark.parametrize("file", ["Dockerfile", "client-image/Dockerfile"])
def test_packages_come_from_the_index_that_a_build_names(file: str) -> None:
    """An argument holds from its line to the end of its stage."""
    stages = (ROOT / file).read_text().split("\nFROM ")
    installing = [stage for stage in stages if " pip install" in stage]
    assert len(installing) == 1
    before, _, _ = installing[0].partition(" pip install")
    assert "\nARG PIP_INDEX_URL\n" in before


def leaves(values: dict[str, Any], above: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def test_every_value_of_the_chart_is_described_on_its_page() -> None:
    described = {each.path for each in chart.described_values(VALUES)}
    missing = [
        path
        for path in leaves(yaml.safe_load(VALUES))
        if not any(f"{path}.".startswith(f"{each}.") for each in described)
    ]
    assert missing == []
    page = chart.readme(registry="reg/x")
    assert all(f"| `{path}` |" in page for path in described)
    assert "oci://reg/x/charts/benchrun" in page


def test_a_description_goes_on_until_its_key_and_no_further() -> None:
    text = (
        "# A section.\na:\n  # -- First\n  # and more | of it.\n  b: [1]\n  c: 2\n"
        "# -- Lost.\n\nd: 3\n# -- Last.\ne: {}\n"
    )
    assert list(chart.described_values(text)) == [
        ("a.b", [1], "First and more | of it."),
        ("e", {}, "Last."),
    ]


def test_the_values_of_a_release_name_its_images_and_else_are_the_same() -> None:
    changed = yaml.safe_load(
        release.released_values(VALUES, "reg:5000/x", {"client": DIGEST})
    )
    wanted = yaml.safe_load(VALUES)
    wanted["image"]["repository"] = "reg:5000/x/operator"
    wanted["clientImage"] |= {"repository": "reg:5000/x/client", "digest": DIGEST}
    assert changed == wanted


def test_values_of_another_form_are_refused() -> None:
    with pytest.raises(ValueError, match="clientImage"):
        release.released_values(VALUES.replace("clientImage:", "other:"), "x", {})


def test_mirrors_are_told_the_digest_where_it_is_known() -> None:
    version = chart.version()
    assert release.image_list("reg/x", {"operator": DIGEST}) == [
        f"reg/x/operator:{version}@{DIGEST}",
        f"reg/x/client:{version}",
    ]


def test_checksums_are_of_every_other_file(tmp_path: Path) -> None:
    for name in ("b", "a", release.CHECKSUMS):
        (tmp_path / name).write_text(name)
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in "ab"}
    assert release.checksums(tmp_path) == f"{digests['a']}  a\n{digests['b']}  b\n"


def test_the_plugin_is_found_by_its_digest_and_the_same_files_make_the_same(
    tmp_path: Path,
) -> None:
    made = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "benchrun_operator-1-py3-none-any.whl").write_bytes(b"wheel")
        release.make_plugin(folder, source="https://example.com/x")
        (archive,) = folder.glob("*.tar.gz")
        made.append(archive.read_bytes())
        manifest = yaml.safe_load((folder / "krew.yaml").read_text())
    assert made[0] == made[1]
    assert manifest["spec"]["version"] == f"v{chart.version()}"
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(made[1]).hexdigest()
    assert platform["uri"].endswith(f"/v{chart.version()}/{archive.name}")
    assert re.fullmatch(
        r"https://example\.com/x/releases/download/.*", platform["uri"]
    )


@pytest.mark.parametrize(
    "word", ["operator", f"other={DIGEST}", "operator=sha256:12", f"={DIGEST}"]
)
def test_a_digest_that_is_none_is_refused(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        release.main([str(tmp_path / "dist"), "--digest", word])
    assert ended.value.code == 2
    assert "operator or client" in capsys.readouterr().err
    assert not (tmp_path / "dist").exists()
