"""go.mod of the servers: the names and versions of the modules that Kubernetes publishes beside
itself."""

import configparser
import hashlib
import importlib.util
import io
import json
import sys
import tarfile
from email import message_from_string
from pathlib import Path

import pytest

from devcluster import debian, go_modules, package_index, pause_image, vllm_cpu
from devcluster.reporting import DevclusterError
from devcluster.settings import from_environment

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
    assert go_modules.staging_modules(RELEASE) == [
        "k8s.io/api",
        "k8s.io/client-go",
        "k8s.io/sample-cli-plugin",
    ]


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
    assert (
        go_modules.required_version(
            "require example.org/a v1.2.3\n", "example.org/a"
        )
        == "1.2.3"
    )
    assert (
        go_modules.required_version(
            "require (\n\texample.org/a v1.2.4 // indirect\n)\n", "example.org/a"
        )
        == "1.2.4"
    )
    with pytest.raises(DevclusterError, match=r"requires no example\.org/b"):
        go_modules.required_version(
            "require example.org/a v1.2.3\n", "example.org/b"
        )


# The hand-written image: an archive whose parts refer to each other correctly.


def unpack(archive: bytes) -> dict[str, tuple[bytes, int]]:
    """Every file of a tar: content and mode by name."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            packed = tar.extractfile(member)
            assert packed is not None
            files[member.name] = (packed.read(), member.mode)
    return files


def test_the_archive_holds_one_executable_and_its_digest() -> None:
    files = unpack(pause_image.archive(b"\x7fELF..."))
    layer, _ = files["layer.tar"]
    config = json.loads(files["config.json"][0])
    assert json.loads(files["manifest.json"][0]) == [
        {
            "Config": "config.json",
            "RepoTags": ["localhost/pause:dev"],
            "Layers": ["layer.tar"],
        }
    ]
    assert config["rootfs"]["diff_ids"] == [
        f"sha256:{hashlib.sha256(layer).hexdigest()}"
    ]
    assert config["config"]["Entrypoint"] == ["/pause"]
    assert unpack(layer) == {"pause": (b"\x7fELF...", 0o755)}


def test_the_same_program_makes_the_same_image() -> None:
    assert pause_image.archive(b"program") == pause_image.archive(b"program")


# pip's settings as a build gets them: of this machine what makes sense there, and nothing else.


def test_variables_win_over_files_and_files_for_install_over_global_ones() -> None:
    listed = [
        ":env:.index-url='https://variable.example/simple'",
        "global.index-url='https://file.example/simple'",
        "global.timeout='10'",
        "install.timeout='20'",
    ]
    assert package_index.pip_settings(listed) == {
        "index-url": "https://variable.example/simple",
        "timeout": "20",
    }


def test_paths_of_this_machine_stay_out() -> None:
    listed = [
        ":env:.find-links='/opt/wheels'",
        ":env:.cert='/x.crt'",
        "global.cache-dir='/y'",
        ":env:.user='1'",
    ]
    assert package_index.pip_settings(listed) == {}


def test_settings_of_other_commands_stay_out() -> None:
    assert (
        package_index.pip_settings(
            ["download.index-url='https://other.example/simple'"]
        )
        == {}
    )


def test_the_variable_for_the_timeout_has_a_name_of_its_own() -> None:
    assert package_index.pip_settings([":env:.default-timeout='180'"]) == {
        "timeout": "180"
    }


def test_several_indexes_survive_as_several_lines() -> None:
    listed = [
        "global.extra-index-url='https://a.example/simple\\nhttps://b.example/simple'"
    ]
    read = configparser.RawConfigParser()
    read.read_string(package_index.pip_conf(package_index.pip_settings(listed)))
    assert read["global"]["extra-index-url"].split() == [
        "https://a.example/simple",
        "https://b.example/simple",
    ]


def test_certificates_are_looked_for_where_the_build_has_them() -> None:
    read = configparser.RawConfigParser()
    read.read_string(package_index.pip_conf({}))
    assert dict(read["global"]) == {
        "cert": "/etc/ssl/certs/ca-certificates.crt",
        "disable-pip-version-check": "true",
        "no-cache-dir": "true",
        "root-user-action": "ignore",
    }


# What vLLM requires, less what is on no package index, and its modules compiled once.

METADATA = """\
Metadata-Version: 2.4
Name: vllm-cpu
Requires-Dist: torch==2.13.0+cpu
Requires-Dist: torchvision; platform_machine != "s390x"
Requires-Dist: torch-c-dlpack-ext==0.1.5
Requires-Dist: transformers>=4.56
Requires-Dist: pandas; extra == "bench"

Requires-Dist: only in the description
"""


def test_the_torch_family_and_extras_are_left_out() -> None:
    assert vllm_cpu.requirements(METADATA) == [
        "torch-c-dlpack-ext==0.1.5",
        "transformers>=4.56",
    ]


def test_the_package_metadata_says_cpu() -> None:
    card = message_from_string(vllm_cpu.name_card())
    assert card["Name"] == "vllm"
    assert "cpu" in card["Version"]


def test_modules_are_compiled_once_for_containers_that_can_write_nothing(
    tmp_path: Path,
) -> None:
    venv = tmp_path / "cache/vllm-cpu/venv"
    model = tmp_path / "cache/models/tiny"
    for folder in (venv / "bin", venv / "lib", model):
        folder.mkdir(parents=True)
    (venv.parent / "done").touch()
    (model / "model.safetensors").touch()
    (venv / "bin/python").symlink_to(sys.executable)
    good = venv / "lib/good.py"
    template = venv / "lib/template.py"
    good.write_text("ANSWER = 42\n")
    template.write_text("class {{name}}:\n")
    settings = from_environment(
        {"DEVCLUSTER_CACHE": str(tmp_path / "cache")}, home=tmp_path, here=tmp_path
    )

    vllm_cpu.make(settings)
    compiled = Path(importlib.util.cache_from_source(str(good)))
    # Of the kind that holds whatever date the file has: a copy of the folder is as good.
    assert compiled.read_bytes()[4:8] == b"\x01\0\0\0"
    compiled.unlink()
    vllm_cpu.make(settings)
    assert not compiled.exists()


# Missing Debian packages: each named once, in one line that can be pasted into a shell.


def test_nothing_is_missing_where_everything_is_found() -> None:
    assert debian.missing(debian.CLUSTER.items(), lambda thing: True) == []


def test_a_package_is_named_once_however_many_of_its_programs_are_missing() -> None:
    absent = {"containerd", "ctr", "etcd"}
    assert debian.missing(
        debian.CLUSTER.items(), lambda thing: thing not in absent
    ) == [
        "containerd",
        "etcd-server",
    ]


def test_files_count_as_well_as_programs() -> None:
    assert debian.missing(
        debian.COMPILER.items(), lambda thing: not thing.startswith("/")
    ) == ["libc6-dev"]


def test_the_complaint_is_one_line_with_the_remedy() -> None:
    assert debian.complaint(["buildah", "runc"]) == (
        "missing Debian packages; run: apt-get install --no-install-recommends buildah runc"
    )
