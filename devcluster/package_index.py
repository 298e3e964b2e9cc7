"""This machine's sources of packages: pip's settings, its certificates, apt's mirror.

Nothing here names a host. A build, which does not see the machine's files and environment, is given
the same settings.
"""

import ast
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from devcluster.reporting import DevclusterError
from devcluster.running import run, succeeds

SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

# What pip can do with in a build. Paths of this machine (find-links, cert, cache-dir) mean nothing
# there.
CARRIED = (
    "index-url",
    "extra-index-url",
    "trusted-host",
    "proxy",
    "timeout",
    "retries",
)

# A later section wins, as in pip itself: files, then files for one command, then PIP_ variables.
SECTIONS = ("global", "install", ":env:")


def pip_settings(listed: Iterable[str]) -> dict[str, str]:
    """Parse the lines of `pip config list` and return the settings that apply in a build.

    A line looks like `:env:.index-url='...'`. Later sections win, and settings that mean nothing in
    a build are left out.
    """
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in listed:
        name, _, value = line.strip().partition("=")
        section, _, key = name.rpartition(".")
        key = key.removeprefix("default-").replace("_", "-")
        if section in found and key in CARRIED:
            found[section][key] = str(ast.literal_eval(value))
    return {
        key: value for section in SECTIONS for key, value in found[section].items()
    }


def pip_conf(settings: dict[str, str]) -> str:
    """Return the text of the pip.conf that a build sees."""
    fixed = {
        "cert": str(SYSTEM_CERTIFICATES),
        "disable-pip-version-check": "true",
        "no-cache-dir": "true",
        "root-user-action": "ignore",
    }
    lines = [
        f"{key} = " + value.replace("\n", "\n    ")
        for key, value in {**fixed, **settings}.items()
    ]
    return "\n".join(["[global]", *lines]) + "\n"


def build_volumes(folder: Path) -> dict[Path, str]:
    """Return what a build has mounted: file on this machine -> path in the build.

    The files made for it are written to `folder`.
    """
    folder.chmod(0o755)  # a RUN step after USER reads them too
    conf = folder / "pip.conf"
    conf.write_text(pip_conf(pip_settings(pip_config_list())))
    return {conf: "/etc/pip.conf", _certificates(): str(SYSTEM_CERTIFICATES)}


def uv_variables() -> dict[str, str]:
    """Return environment variables that make uv use pip's index.

    They are empty when pip has none, or when uv has been given an index itself.
    """
    told = any(
        os.environ.get(name)
        for name in (
            "UV_DEFAULT_INDEX",
            "UV_INDEX_URL",
            "UV_INDEX",
            "UV_CONFIG_FILE",
        )
    )
    index = pip_settings(pip_config_list()).get("index-url")
    return {"UV_DEFAULT_INDEX": index} if index and not told else {}


def pip_config_list() -> list[str]:
    """Return the lines of `pip config list`."""
    return run(*pip_command(), "config", "list").splitlines()


def pip_command() -> tuple[str, ...]:
    """Return the command that runs pip.

    A virtual environment need not have pip; then the one of the Python below it is taken. Raises
    DevclusterError when there is none.
    """
    for python in (
        sys.executable,
        f"{sys.base_prefix}/bin/python3",
        "/usr/bin/python3",
    ):
        if succeeds(python, "-m", "pip", "--version"):
            return (python, "-m", "pip")
    raise DevclusterError(
        "there is no pip; run: apt-get install --no-install-recommends python3-pip"
    )


def debian_mirror(release: str) -> str:
    """Return the address apt gets a Debian release from on this machine.

    It is "" when apt is set up for another release.
    """
    question = ("Identifier: Packages", f"Codename: {release}", "Component: main")
    addresses = run(
        "apt-get", "indextargets", "--format", "$(REPO_URI)", *question
    ).split()
    return addresses[0] if addresses else ""


def _certificates() -> Path:
    """Return the file of certificates this machine trusts.

    It includes a company's own authority, where there is one.
    """
    told = Path(os.environ.get("SSL_CERT_FILE") or SYSTEM_CERTIFICATES)
    return told if told.is_file() else SYSTEM_CERTIFICATES
