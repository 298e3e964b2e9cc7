"""What the chart says of itself: its version, its images, and a page of its values."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent
METADATA_FILE = "charts/benchrun/Chart.yaml"
VALUES_FILE = "charts/benchrun/values.yaml"
REGISTRY = "ghcr.io/benchrun"
"""Where releases are pushed to, unless they are told another place."""
IMAGES = {"image": "operator", "clientImage": "client"}
"""The images of a release, by the chart's value that names each."""
WIDEST_DEFAULT = 60  # A longer default is shown by its type.

_README = """\
# benchrun

Benchmark experiments on LLM servers as Kubernetes objects: a BenchmarkRun starts a server, or
takes one that runs, generates load with vLLM's own benchmark, and ends with figures and a verdict.

```sh
helm install benchrun oci://{registry}/charts/benchrun --version {version} \\
  --namespace benchrun-system --create-namespace --wait
```

The chart of a release names the images of that release. A chart from a checkout names none:
`image.repository` and `clientImage.repository` are then required. Requirements, upgrades, rights
and network policies: [install]({source}/blob/main/docs/install.md). Kubernetes {kubernetes}.

## Values

| value | default | meaning |
|---|---|---|
"""


class Value(NamedTuple):
    """A value of the chart that has a description."""

    path: str
    default: Any
    description: str


def project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


def version() -> str:
    """Return the one version of everything that is released."""
    found: str = project()["version"]
    return found


def image_names(registry: str, tag: str) -> dict[str, str]:
    """Return the full name of each image of a release, by the chart's value."""
    return {value: f"{registry}/{name}:{tag}" for value, name in IMAGES.items()}


def metadata(text: str, *, registry: str = REGISTRY) -> str:
    """Return Chart.yaml with the project's version and the images of that release."""
    now = version()
    for key in ("version", "appVersion"):
        text = re.sub(rf"^{key}: .*$", f"{key}: {now}", text, flags=re.MULTILINE)
    listed = "".join(
        f"    - name: {IMAGES[value]}\n      image: {image}\n"
        for value, image in image_names(registry, now).items()
    )
    block = r"^(  artifacthub\.io/images: \|\n)(?:    .*\n)*"
    return re.sub(block, lambda found: found[1] + listed, text, flags=re.MULTILINE)


def metadata_file() -> str:
    """Return Chart.yaml of this checkout, made anew."""
    return metadata((ROOT / METADATA_FILE).read_text(encoding="utf-8"))


def readme(*, registry: str = REGISTRY) -> str:
    """Return the chart's page: how it is installed, and a row for each of its values."""
    text = (ROOT / VALUES_FILE).read_text(encoding="utf-8")
    supported = yaml.safe_load(metadata_file())["kubeVersion"].removesuffix("-0")
    head = _README.format(
        registry=registry,
        version=version(),
        source=project()["urls"]["Source"],
        kubernetes=f"`{supported}`",
    )
    rows = [
        f"| `{each.path}` | {_shown(each.default)} | {_cell(each.description)} |\n"
        for each in described_values(text)
    ]
    return head + "".join(rows)


def described_values(text: str) -> Iterator[Value]:
    """Yield the values of a values.yaml whose comment begins with `-- `, in the file's order.

    What else a comment right above such a value says, up to an empty line or another key, is not
    of that value.
    """
    values = yaml.safe_load(text)
    parents: list[tuple[int, str]] = []
    description: list[str] = []
    for line in text.splitlines():
        words = line.strip()
        if words.startswith("# -- "):
            description = [words.removeprefix("# -- ")]
        elif words.startswith("# ") and description:
            description.append(words.removeprefix("# "))
        elif (key := re.match(r"( *)([A-Za-z]\w*):", line)) is not None:
            parents = [each for each in parents if each[0] < len(key[1])]
            parents.append((len(key[1]), key[2]))
            path = [name for _, name in parents]
            if description:
                yield Value(
                    ".".join(path), _at(values, path), " ".join(description)
                )
            description = []
        elif not words:
            description = []


def _at(values: Any, path: list[str]) -> Any:
    for name in path:
        values = values[name]
    return values


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _shown(default: Any) -> str:
    text = json.dumps(default, ensure_ascii=False)
    if len(text) > WIDEST_DEFAULT:
        text = "{...}" if isinstance(default, dict) else "[...]"
    return f"`{text}`"
