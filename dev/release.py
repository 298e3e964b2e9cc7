"""`python -m dev.release FOLDER`: makes all of a release but its images.

It writes chart, install.yaml, wheel and sdist, kubectl plugin, bills of materials, images.txt and
checksums into FOLDER, beside the archives of the images that `make release` has put there. Needs
helm, and the package index for the bills of materials alone.
"""

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from dev import chart

ROOT = chart.ROOT
NAMESPACE = "benchrun-system"
CHECKSUMS = "SHA256SUMS"
EPOCH = 315_532_800  # 1980, the earliest instant that a wheel can hold.
_LAUNCHER = """\
#!/bin/sh
# benchrun as a plugin of kubectl. uv or pipx gives it an environment of its own, the first time
# from the package index.
here=$(dirname "$(readlink -f "$0")")
wheel="$here/{wheel}"
if command -v uv >/dev/null; then exec uv tool run --quiet --from "$wheel" benchrun "$@"; fi
if command -v pipx >/dev/null; then exec pipx run --spec "$wheel" benchrun "$@"; fi
echo "kubectl benchrun needs uv or pipx, and Python 3.11 or newer: https://docs.astral.sh/uv" >&2
exit 1
"""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the files of a release in a folder, and return 0."""
    typed = _parser().parse_args(arguments)
    folder: Path = typed.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    digests = dict(typed.digest)
    packed = make_chart(folder, registry=typed.registry, digests=digests)
    make_manifest(folder, packed)
    make_distributions(folder)
    make_plugin(folder, source=typed.source)
    make_bills(folder)
    images = image_list(typed.registry, digests)
    (folder / "images.txt").write_text("".join(f"{each}\n" for each in images))
    (folder / CHECKSUMS).write_text(checksums(folder))
    return 0


def make_chart(folder: Path, *, registry: str, digests: Mapping[str, str]) -> Path:
    """Package the chart with the release's images as its defaults, and return its archive."""
    changes: dict[str, Callable[[str], str]] = {
        "values.yaml": lambda text: released_values(text, registry, digests),
        "Chart.yaml": lambda text: chart.metadata(text, registry=registry),
        "README.md": lambda _: chart.readme(registry=registry),
    }
    with tempfile.TemporaryDirectory() as made:
        copy = Path(made, "benchrun")
        shutil.copytree(ROOT / "charts" / "benchrun", copy)
        for name, change in changes.items():
            file = copy / name
            file.write_text(
                change(file.read_text(encoding="utf-8")), encoding="utf-8"
            )
        _run("helm", "package", copy, "--destination", folder)
    return folder / f"benchrun-{chart.version()}.tgz"


def released_values(text: str, registry: str, digests: Mapping[str, str]) -> str:
    """Return values.yaml with the repositories of the images, and digests of those that are known.

    Raises ValueError where the file has not the lines that this replaces.
    """
    for value, name in chart.IMAGES.items():
        block = re.compile(
            rf'(^{value}:\n(?:  .*\n)*?  repository: )""(\n(?:  .*\n)*?  digest: )""\n',
            re.MULTILINE,
        )
        changed = rf'\g<1>"{registry}/{name}"\g<2>"{digests.get(name, "")}"' + "\n"
        text, count = block.subn(changed, text)
        if count != 1:
            raise ValueError(
                f"values.yaml: no empty repository and digest of {value}"
            )
    return text


def make_manifest(folder: Path, packed: Path) -> None:
    """Render the chart as one file for `kubectl apply --server-side`, its namespace included."""
    rendered = _run(
        *("helm", "template", "benchrun", packed),
        *("--namespace", NAMESPACE, "--no-hooks"),
    )
    namespace = yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        sort_keys=False,
    )
    (folder / "install.yaml").write_text(
        f"# benchrun {chart.version()}: kubectl apply --server-side -f install.yaml\n"
        f"---\n{namespace}{rendered}",
        encoding="utf-8",
    )


def make_distributions(folder: Path) -> None:
    """Build the wheel and the source distribution."""
    _run(
        *(sys.executable, "-m", "hatchling", "build", "-d", folder),
        *("-t", "wheel", "-t", "sdist"),
    )


def make_plugin(folder: Path, *, source: str) -> None:
    """Pack the wheel as a plugin of kubectl, and write the manifest by which krew installs it."""
    (wheel,) = folder.glob("*.whl")
    archive = folder / f"kubectl-benchrun-{chart.version()}.tar.gz"
    files = {
        "kubectl-benchrun": (_LAUNCHER.format(wheel=wheel.name).encode(), 0o755),
        wheel.name: (wheel.read_bytes(), 0o644),
        "LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
    }
    # With a time of its own, unlike "w:gz": the same files make the same archive.
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=EPOCH) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as packed,
    ):
        for name, (content, mode) in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = mode
            info.mtime = EPOCH
            packed.addfile(info, io.BytesIO(content))
    manifest = krew_manifest(
        f"{source}/releases/download/v{chart.version()}/{archive.name}",
        digest=_sha256(archive),
        source=source,
    )
    (folder / "krew.yaml").write_text(manifest, encoding="utf-8")


def krew_manifest(uri: str, *, digest: str, source: str) -> str:
    """Return the manifest of the plugin: one archive, for Linux and macOS."""
    systems = {"key": "os", "operator": "In", "values": ["darwin", "linux"]}
    platform = {
        "selector": {"matchExpressions": [systems]},
        "uri": uri,
        "sha256": digest,
        "bin": "kubectl-benchrun",
    }
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "benchrun"},
            "spec": {
                "version": f"v{chart.version()}",
                "homepage": source,
                "shortDescription": "Benchmark experiments on LLM servers",
                "description": chart.project()["description"],
                "caveats": "Needs uv or pipx, and Python 3.11 or newer.",
                "platforms": [platform],
            },
        },
        sort_keys=False,
    )


def make_bills(folder: Path) -> None:
    """Write a CycloneDX bill of the Python packages of each image, from what is locked for it."""
    own_environment = (
        *("uv", "run", "--quiet", "--no-project"),
        *("--with-requirements", ROOT / "requirements" / "release.txt"),
    )
    for name in chart.IMAGES.values():
        _run(
            *(*own_environment, "cyclonedx-py", "requirements"),
            *(
                ROOT / "requirements" / f"{name}.txt",
                "--pyproject",
                ROOT / "pyproject.toml",
            ),
            *("--output-reproducible", "--spec-version", "1.6"),
            *("--output-file", folder / f"{name}-{chart.version()}.cdx.json"),
        )


def image_list(registry: str, digests: Mapping[str, str]) -> list[str]:
    """Return what a mirror has to copy: each image, by its digest too where that is known."""
    names = chart.image_names(registry, chart.version())
    return [
        image
        + (f"@{digests[name]}" if (name := chart.IMAGES[value]) in digests else "")
        for value, image in names.items()
    ]


def checksums(folder: Path) -> str:
    """Return a line of `sha256sum` for every other file of the folder, in the order of names."""
    files = sorted(path for path in folder.iterdir() if path.name != CHECKSUMS)
    return "".join(f"{_sha256(path)}  {path.name}\n" for path in files)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run(*words: str | Path) -> str:
    """Run a program in the repository and return its output; what it complains of is shown."""
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def _digest(text: str) -> tuple[str, str]:
    name, _, digest = text.partition("=")
    if name not in chart.IMAGES.values() or not _DIGEST.fullmatch(digest):
        known = " or ".join(chart.IMAGES.values())
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=sha256:..., with {known} as NAME"
        )
    return name, digest


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dev.release",
        description="Make the files of a release, but for its images.",
    )
    parser.add_argument("folder", type=Path, help="where they are written")
    parser.add_argument(
        "--registry",
        default=chart.REGISTRY,
        help="where the images are pushed to (%(default)s)",
    )
    parser.add_argument(
        "--digest",
        type=_digest,
        action="append",
        default=[],
        metavar="NAME=sha256:...",
        help="digest of a pushed image, which the chart then names",
    )
    parser.add_argument(
        "--source",
        default=chart.project()["urls"]["Source"],
        help="repository whose releases hold these files (%(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
