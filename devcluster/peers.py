"""Other benchmark tools, each in a virtual environment of its own in the cache.

The museum replays its exhibits through them, and their estimators are held against ours. They are
never installed beside benchrun: their requirements are their own.
"""

from devcluster import locks, package_index, vllm_cpu
from devcluster.reporting import say
from devcluster.running import run
from devcluster.settings import Settings

PEERS = {
    "guidellm": ("0.8.1", "3.11"),
    "aiperf": ("0.13.0", "3.11"),
    "inference-perf": ("0.7.0", "3.12"),
}
"""Release and Python of each tool."""


def make(settings: Settings) -> None:
    """Install each tool, unless it is there."""
    folder = settings.cache / "peers"
    with locks.held(folder):
        folder.mkdir(parents=True, exist_ok=True)
        uv = vllm_cpu.uv_command(settings.cache)
        for tool, (version, python) in PEERS.items():
            venv = folder / tool
            done = venv / f"done-{version}"
            if done.exists():
                continue
            say(f"installing {tool} {version}")
            extra = {**package_index.uv_variables(), "VIRTUAL_ENV": str(venv)}
            run(
                uv,
                "venv",
                "--quiet",
                "--clear",
                "--python",
                python,
                venv,
                extra=extra,
            )
            vllm_cpu.pip(uv, extra, f"{tool}=={version}")
            done.touch()
    say(f"{', '.join(PEERS)} are in {folder}")
