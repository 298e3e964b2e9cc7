"""The files made from the models are up to date, and the tool that makes them tells when they are
not."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from benchrun.api.crd import RUN

from dev.generate import CRD_FILE, GENERATED, REFERENCE_FILE, main

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module", autouse=True)
def each_is_rendered_once() -> Iterator[None]:
    """To write one definition takes a second, and most tests want all of them."""
    once = {render: cache(render) for render in GENERATED.values()}
    with pytest.MonkeyPatch.context() as patch:
        for name, render in GENERATED.items():
            patch.setitem(GENERATED, name, once[render])
        yield


@pytest.mark.parametrize("name", GENERATED)
def test_file_in_the_repository_is_the_generated_one(name: str) -> None:
    assert (ROOT / name).read_bytes() == GENERATED[name]().encode()


def test_the_yaml_is_the_definition_written_out() -> None:
    text = GENERATED[CRD_FILE]()
    assert yaml.load(text, yaml.CSafeLoader) == RUN.manifest()
    assert text.startswith(
        "# Generated from operator/benchrun/api by: python -m dev.generate\n"
    )


def test_check_writes_nothing_and_names_what_is_stale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check", str(tmp_path)]) == 1
    assert list(tmp_path.iterdir()) == []
    assert (
        f"out of date: {', '.join(GENERATED)}; run: python -m dev.generate"
        in capsys.readouterr().err
    )


def test_what_was_written_passes_the_check_until_it_is_edited(
    tmp_path: Path,
) -> None:
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / CRD_FILE).write_text("edited\n")
    assert main(["--check", str(tmp_path)]) == 1
    assert (tmp_path / CRD_FILE).read_text() == "edited\n"


@pytest.mark.parametrize(
    "row",
    [
        "| `spec.model.name` | string | **required** | 1 to 256 characters |",
        '| `spec.measurement.percentiles` | list of string | `["50", "95", "99"]` | 1 to 8 entries, no duplicates;',
        "| `spec.measurement.warmup` | object | `{auto: {}}` |",
        "| `spec.workloads[].ignoreEOS` | boolean | `true` |",
        "| `spec.server.resources.limits` | map of quantity | - | at most 32 entries;",
        "| `status.results[].verdict` | string | **required** | `Valid` or `Suspect` or `Invalid` "
        "or `Unknown` |",
        "- `spec.workloads[].load.requestRates[]`: must be above 0.",
        "- `spec.model.source`: must set exactly one of hub, pvc, imageVolume and path.",
    ],
)
def test_the_reference_tells_type_default_bounds_and_rules(row: str) -> None:
    lines = GENERATED[REFERENCE_FILE]().splitlines()
    assert [line for line in lines if line.startswith(row)] != []
