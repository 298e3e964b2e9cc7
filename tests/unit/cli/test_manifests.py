"""Files that `run -f` takes, and those it does not."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from benchrun.cli.errors import CommandError
from benchrun.cli.manifests import MAX_BYTES, manifests_in, objects_in
from unit.golden_messages import golden

RUN = """\
apiVersion: benchrun.dev/v1alpha1
kind: BenchmarkRun
metadata:
  name: chat
spec:
  server: {env: [{name: A, value: 12:30}, {name: B, value: on}, {name: C, value: 2026-01-01}]}
"""
DATA = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: rows-, namespace: lab}\ndata: {a: "
    "'ü'}\n"
)


def file(folder: Path, text: str | bytes, name: str = "run.yaml") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_several_documents_come_in_order(tmp_path: Path) -> None:
    found = manifests_in(
        [file(tmp_path, f"# first\n---\n{DATA}---\n{RUN}---\n# nothing here\n")]
    )
    assert [(each.kind, each.name, each.namespace) for each in found] == [
        ("ConfigMap", None, "lab"),
        ("BenchmarkRun", "chat", None),
    ]
    assert found[1].source.endswith("run.yaml, document 2")


@pytest.mark.parametrize(
    "begin", ["", "\ufeff", "# ü\n", "\ufeff# ü\n---\n", "%YAML 1.1\n---\n"]
)
def test_each_is_handed_on_as_it_is_written(tmp_path: Path, begin: str) -> None:
    found = manifests_in([file(tmp_path, f"{begin}{DATA}---\n{RUN}")])
    assert "value: 12:30" in found[1].text
    assert "value: 2026-01-01" in found[1].text
    assert [yaml.safe_load(each.text) for each in found] == [
        yaml.safe_load(DATA),
        yaml.safe_load(RUN),
    ]


def test_json_may_be_indented_with_tabs(tmp_path: Path) -> None:
    (found,) = manifests_in(
        [file(tmp_path, json.dumps(yaml.safe_load(DATA), indent="\t"), "data.json")]
    )
    assert (found.kind, json.loads(found.text)["data"]) == ("ConfigMap", {"a": "ü"})


def test_yaml_may_begin_with_a_brace(tmp_path: Path) -> None:
    (found,) = manifests_in(
        [file(tmp_path, "{apiVersion: v1, kind: Secret, metadata: {name: a}}")]
    )
    assert (found.kind, found.name) == ("Secret", "a")


def test_a_kind_may_be_called_a_list(tmp_path: Path) -> None:
    (found,) = manifests_in(
        [
            file(
                tmp_path,
                "{apiVersion: x.dev/v1, kind: AllowList, metadata: {name: a}}",
            )
        ]
    )
    assert found.kind == "AllowList"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.stdin", SimpleNamespace(buffer=io.BytesIO(RUN.encode()))
    )
    (found,) = manifests_in(["-"])
    assert (found.name, found.source) == ("chat", "standard input")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("---\n---\n", id="empty documents"),
        pytest.param("a: [1\nb: 2", id="broken"),
        pytest.param("a: 1\n\tb: 2", id="a tab"),
        pytest.param(b"\xff\xfe", id="bytes"),
        pytest.param("just words", id="words"),
        pytest.param("kind: A\nmetadata: {name: a}", id="no version"),
        pytest.param(RUN.replace("name: chat", "label: a"), id="no name"),
        pytest.param(
            RUN.replace("name: chat", "name: chat\n  generateName: chat-"),
            id="both",
        ),
        pytest.param(f"{RUN}---\nkind: A\n", id="the second"),
        pytest.param("apiVersion: v1\nkind: ConfigMapList\nitems: []", id="list"),
        pytest.param(b"#" * (MAX_BYTES + 1), id="too large"),
    ],
)
def test_an_invalid_manifest_is_named_with_its_position(
    tmp_path: Path, text: str | bytes
) -> None:
    path = file(tmp_path, text)
    with pytest.raises(CommandError) as refused:
        manifests_in([path])
    assert str(refused.value).startswith(path)
    golden(str(refused.value))
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(CommandError) as raised:
        manifests_in(["nowhere.yaml"])
    golden(str(raised.value))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as raised:
        manifests_in([str(tmp_path)])
    golden(str(raised.value))


def test_keys_are_read_as_texts_whatever_they_look_like(tmp_path: Path) -> None:
    text = "base: &base {8: x}\nmerged: {<<: *base, true: y}\n2026-01-01: z\n1.5: {null: 1}\n"
    (body,) = objects_in(Path(file(tmp_path, text)))
    assert body["merged"] == {"8": "x", "true": "y"}
    assert (body["2026-01-01"], body["1.5"]) == ("z", {"null": 1})


def test_json_that_is_nested_too_deep_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(CommandError):
        manifests_in([file(tmp_path, '{"a": ' + "[" * 5000 + "]" * 5000 + "}")])
