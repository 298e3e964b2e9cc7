"""pip's settings as a build gets them: of this machine what makes sense there, and nothing else."""

import configparser

from devcluster import package_index


def test_variables_win_over_files_and_files_for_install_over_global_ones() -> None:
    listed = [
        ":env:.index-url='https://variable.example/simple'",
        "global.index-url='https://file.example/simple'",
        "global.timeout='10'",
        "install.timeout='20'",
    ]
    assert package_index.pip_settings(listed) == {"index-url": "https://variable.example/simple", "timeout": "20"}


def test_paths_of_this_machine_stay_out() -> None:
    listed = [":env:.find-links='/opt/wheels'", ":env:.cert='/x.crt'", "global.cache-dir='/y'", ":env:.user='1'"]
    assert package_index.pip_settings(listed) == {}


def test_settings_of_other_commands_stay_out() -> None:
    assert package_index.pip_settings(["download.index-url='https://other.example/simple'"]) == {}


def test_the_variable_for_the_timeout_has_a_name_of_its_own() -> None:
    assert package_index.pip_settings([":env:.default-timeout='180'"]) == {"timeout": "180"}


def test_several_indexes_survive_as_several_lines() -> None:
    listed = ["global.extra-index-url='https://a.example/simple\\nhttps://b.example/simple'"]
    read = configparser.RawConfigParser()
    read.read_string(package_index.pip_conf(package_index.pip_settings(listed)))
    assert read["global"]["extra-index-url"].split() == ["https://a.example/simple", "https://b.example/simple"]


def test_certificates_are_looked_for_where_the_build_has_them() -> None:
    read = configparser.RawConfigParser()
    read.read_string(package_index.pip_conf({}))
    assert dict(read["global"]) == {
        "cert": "/etc/ssl/certs/ca-certificates.crt",
        "disable-pip-version-check": "true",
        "no-cache-dir": "true",
        "root-user-action": "ignore",
    }
