"""Images: building them with buildah, and loading them into the cluster.

buildah's storage and containerd's share no format but archives. All images that are built here lie
in one storage in the cache, so that nothing is left in the machine's own, and any number of
clusters can be given the same ones.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster import containerd, debian, node_process, package_index
from devcluster.reporting import DevclusterError, say
from devcluster.running import run
from devcluster.settings import Settings

# In the state directory: which image, by name and id, containerd was given.
LOADED = "images.loaded"


@dataclass(frozen=True, kw_only=True)
class Build:
    """An image to build: its name and the arguments of `buildah build`."""

    tag: str
    context: Path
    dockerfile: Path | None = None
    arguments: tuple[str, ...] = ()
    """Build arguments, each NAME=VALUE."""
    target: str = ""
    labels: tuple[str, ...] = ()


def build(settings: Settings, wanted: Build) -> None:
    """Build an image, and load it if the cluster is up.

    pip's settings and the certificates of this machine are mounted over the image's for the build
    alone: as build arguments or environment variables they would be written into the image.
    """
    debian.require_root()
    debian.ensure(debian.IMAGES)
    if not wanted.context.is_dir():
        raise DevclusterError(f"no such folder to build from: {wanted.context}")
    with tempfile.TemporaryDirectory() as folder:
        volumes = package_index.build_volumes(Path(folder))
        _buildah(settings, *_arguments(wanted, volumes), shown=True)
    say(f"built {wanted.tag}")
    if node_process.recorded(settings) is not None:
        load(settings, [wanted.tag])


def load(settings: Settings, names: Iterable[str]) -> None:
    """Load images into the cluster, except those it has already.

    Raises DevclusterError when the cluster is not up or an image was not built here.
    """
    debian.require_root()
    if node_process.recorded(settings) is None:
        raise DevclusterError(
            "the cluster is not up, so there is nothing to load images into; run: devcluster up"
        )
    record = settings.directory / LOADED
    present = containerd.images(settings)
    for name in names:
        full, identity = _identify(settings, name)
        lines = record.read_text().splitlines() if record.exists() else []
        line = f"{full} {identity}"
        if line in lines and full in present:
            continue
        _transfer(settings, full)
        kept = [other for other in lines if not other.startswith(f"{full} ")]
        record.write_text("".join(f"{entry}\n" for entry in [*kept, line]))
        say(f"loaded {full}")


def load_archive(settings: Settings, archive: Path) -> None:
    """Load every image of an archive into the cluster, whoever built it.

    Raises DevclusterError when the cluster is not up or there is no such file.
    """
    debian.require_root()
    if node_process.recorded(settings) is None:
        raise DevclusterError(
            "the cluster is not up, so there is nothing to load images into; run: devcluster up"
        )
    if not archive.is_file():
        raise DevclusterError(f"no such archive of images: {archive}")
    containerd.import_archive(settings, archive)
    say(f"loaded {archive}")


def save(settings: Settings, name: str, archive: Path) -> None:
    """Write an image that was built here as an OCI archive, which holds its full name.

    Raises DevclusterError when no such image was built here.
    """
    debian.require_root()
    full, _ = _identify(settings, name)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)  # buildah would add to it
    _buildah(settings, "push", "--quiet", full, f"oci-archive:{archive}:{full}")
    say(f"saved {full} as {archive}")


def remove(settings: Settings, names: Iterable[str]) -> None:
    """Remove images that were built here; the cluster keeps those it has loaded."""
    debian.require_root()
    for name in names:
        _buildah(settings, "rmi", name)
        say(f"removed {name}")


def built(settings: Settings) -> list[str]:
    """Return the names of all images in the storage, sorted."""
    if not (settings.cache / "images" / "storage").is_dir():
        return []
    listed = _buildah(settings, "images", "--format", "{{.Name}}:{{.Tag}}").split()
    return sorted(name for name in listed if "<none>" not in name)


def loaded(settings: Settings) -> list[str]:
    """Return the names of the images that were loaded into the cluster."""
    record = settings.directory / LOADED
    return (
        [line.split()[0] for line in record.read_text().splitlines()]
        if record.exists()
        else []
    )


def label(settings: Settings, name: str, key: str) -> str:
    """Return a label of an image, or "" when there is no such label or no such image."""
    form = f'{{{{index .OCIv1.Config.Labels "{key}"}}}}'
    try:
        return _buildah(
            settings, "inspect", "--type", "image", "--format", form, name
        ).strip()
    except DevclusterError:
        return ""


def commit_folder(
    settings: Settings, root: Path, *, tag: str, options: Sequence[str]
) -> None:
    """Make an image of one layer out of a folder; `options` are options of `buildah config`."""
    container = _buildah(settings, "from", "scratch").strip()
    try:
        _buildah(settings, "add", "--quiet", container, root, "/")
        _buildah(settings, "config", *options, container)
        _buildah(settings, "commit", "--quiet", container, tag)
    finally:
        _buildah(settings, "rm", container)


def _arguments(wanted: Build, volumes: Mapping[Path, str]) -> list[str]:
    """Return the arguments of `buildah build`."""
    # chroot and the machine's network: RUN steps need no container runtime, no cgroup and no
    # network of their own. --pull-never: "python:3.11-slim" is ours, and no registry is asked for
    # another.
    words = [
        "build",
        "--isolation",
        "chroot",
        "--network",
        "host",
        "--pull-never",
        "--layers",
        "--tag",
        wanted.tag,
    ]
    words += [
        f"--volume={source}:{destination}:ro"
        for source, destination in volumes.items()
    ]
    words += [f"--build-arg={argument}" for argument in wanted.arguments]
    words += [f"--label={label}" for label in wanted.labels]
    words += ["--file", str(wanted.dockerfile)] if wanted.dockerfile else []
    words += ["--target", wanted.target] if wanted.target else []
    return [*words, str(wanted.context)]


def _identify(settings: Settings, name: str) -> tuple[str, str]:
    """Return an image's full name, as kubelet will call it, and its id.

    Raises DevclusterError when no such image was built here.
    """
    listed = (
        "images",
        "--no-trunc",
        "--format",
        "{{.Name}}:{{.Tag}} {{.ID}}",
        name,
    )
    try:
        full, identity = _buildah(settings, *listed).splitlines()[0].split()
    except (DevclusterError, IndexError, ValueError) as error:
        raise DevclusterError(
            f"no image {name} was built here; `devcluster build` or `devcluster images`"
        ) from error
    return full, identity


def _transfer(settings: Settings, name: str) -> None:
    with tempfile.TemporaryDirectory(dir=settings.cache / "images") as folder:
        archive = Path(folder, "image.tar")
        _buildah(
            settings, "push", "--quiet", name, f"docker-archive:{archive}:{name}"
        )
        containerd.import_archive(settings, archive)


def _buildah(settings: Settings, *words: str | Path, shown: bool = False) -> str:
    """Run buildah on the cache's storage and return what it printed.

    It runs in a mount namespace of its own, because it leaves its storage mounted when it ends.
    """
    folder = settings.cache / "images"
    places = (
        "--root",
        folder / "storage",
        "--runroot",
        folder / "run",
        "--storage-driver",
        "overlay",
    )
    private = ("unshare", "--mount", "--propagation=private")
    return run(*private, "buildah", *places, *words, shown=shown, called="buildah")
