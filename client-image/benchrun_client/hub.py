"""The hub's library as the client uses it, and its errors as reasons of the run."""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchrun_client.contract import ModelCache
from benchrun_client.failures import RunFailure, first_line, type_and_text

ASK_SECONDS = 8.0  # Longest wait for the hub's first answer.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)


class HubTrouble(Exception):
    """An error of the hub that may pass by itself.

    `again_seconds` is how long the hub asks to wait; None if it does not say.
    """

    def __init__(self, text: str, *, again_seconds: float | None = None) -> None:
        super().__init__(text)
        self.again_seconds = again_seconds


@dataclass(frozen=True, slots=True)
class RemoteFile:
    path: str
    size: int
    blob: str  # Its name in the library's folder of blobs.


def is_commit(revision: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}", revision) is not None


class Hub:
    """The Hugging Face hub.

    Its methods raise HubTrouble if another attempt may help, else RunFailure.
    """

    def __init__(self) -> None:
        self._library: Any = import_module("huggingface_hub")
        # The log is for lines.
        import_module("huggingface_hub.utils").disable_progress_bars()

    @property
    def version(self) -> str:
        return f"huggingface_hub {self._library.__version__}"

    def commit(self, cache: ModelCache) -> str:
        """Return the commit that the revision names now."""
        try:
            found: str = (
                self._library.HfApi()
                .repo_info(
                    cache.repository, revision=cache.revision, timeout=ASK_SECONDS
                )
                .sha
            )
        except Exception as error:  # Foreign errors of any kind.
            raise as_ours(error, cache) from error
        if not is_commit(str(found)):
            raise HubTrouble("it answers without a commit")
        if cache.revision is not None and is_commit(cache.revision):
            _check_pinned(cache, found)
        return found

    def files(self, cache: ModelCache, commit: str) -> tuple[RemoteFile, ...]:
        """Return all files of a commit."""
        file_kind = import_module("huggingface_hub.hf_api").RepoFile
        try:
            tree = list(
                self._library.HfApi().list_repo_tree(
                    cache.repository, recursive=True, revision=commit
                )
            )
        except Exception as error:  # As above.
            raise as_ours(error, cache) from error
        return tuple(
            RemoteFile(
                each.path,
                each.lfs.size if each.lfs is not None else each.size,
                each.lfs.sha256 if each.lfs is not None else each.blob_id,
            )
            for each in tree
            if isinstance(each, file_kind)
        )

    def download(
        self, cache: ModelCache, commit: str, folder: Path, patterns: Sequence[str]
    ) -> None:
        """Download the files of a commit whose paths match, except those that exist already."""
        try:
            self._library.snapshot_download(
                cache.repository,
                revision=commit,
                cache_dir=folder,
                allow_patterns=list(patterns),
            )
        except Exception as error:  # As above.
            raise as_ours(error, cache) from error


def _check_pinned(cache: ModelCache, found: str) -> None:
    if found != cache.revision:
        raise RunFailure(
            "CommitMismatch",
            f"the hub answers with commit {found} where model.revision asks for "
            f"{cache.revision}: check model.revision and model.source.hub.endpoint",
        )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that led to it."""
    seen: list[BaseException] = []
    while error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__ or error


def as_ours(error: Exception, cache: ModelCache) -> Exception:
    """Return what an error of the library means for the run."""
    for each in _chain(error):
        names = {kind.__name__ for kind in type(each).__mro__}
        status = getattr(getattr(each, "response", None), "status_code", None)
        if "RevisionNotFoundError" in names:
            return RunFailure(
                "ModelNotFound",
                f"{cache.repository} has no revision {cache.revision}: correct model.revision",
            )
        if "GatedRepoError" in names or (
            status in (401, 403) and "RepositoryNotFoundError" not in names
        ):
            return RunFailure(
                "ModelGated",
                f"the hub refuses {cache.repository} ({status}): give "
                "model.source.hub.tokenSecretRef a token whose owner has accepted the model's "
                "terms",
            )
        if "RepositoryNotFoundError" in names or status == 404:
            return RunFailure(
                "ModelNotFound",
                f"the hub has no model {cache.repository} for this client: correct model.name; a "
                "private model needs model.source.hub.tokenSecretRef",
            )
        if status is not None:
            return HubTrouble(f"it answers {status}", again_seconds=_again(each))
        if "FileMetadataError" in names or "Consistency check failed" in str(each):
            return HubTrouble(first_line(each))
        if is_about_claim(each, cache):
            return why_not_written(each, cache)
    return HubTrouble(type_and_text(error))


def _again(error: BaseException) -> float | None:
    """Return the seconds in the answer's Retry-After; None if it has none, or a date."""
    try:
        return max(0.0, float(error.response.headers["retry-after"]))  # type: ignore[attr-defined]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def is_about_claim(error: BaseException, cache: ModelCache) -> bool:
    """Return whether an error of the library came from writing to the claim.

    If the error names a file, the file must lie on the claim. An error without a name counts only
    if something is full: a refused connection has the same number as a refused write, but a refused
    write always names its file.
    """
    is_refused = getattr(error, "errno", None) in _NOT_WRITABLE
    if not is_refused and not _is_full(error):
        return False
    name = getattr(error, "filename", None)
    if isinstance(name, str | bytes):
        return Path(os.fsdecode(name)).is_relative_to(cache.directory)
    return not is_refused


def _is_full(error: BaseException) -> bool:
    number = getattr(error, "errno", None)
    return number in _FULL or "no space left" in str(error).lower()


def why_not_written(error: BaseException, cache: ModelCache) -> RunFailure:
    """Return the failure for an error of writing to the claim."""
    where = f"claim {cache.claim} (model.source.hub.cacheClaim)"
    if getattr(error, "errno", None) in _NOT_WRITABLE:
        return RunFailure(
            "CacheClaimReadOnly",
            f"the client cannot write to {where}: {first_line(error)}. Use a claim whose access "
            "mode and folder let user 65532 write, or one that already holds this commit",
        )
    if not _is_full(error):
        return RunFailure(
            "CacheClaimFailed",
            f"{where} cannot be used: {type_and_text(error)}. Check its volume",
        )
    return RunFailure(
        "CacheClaimFull",
        f"{where} is full: {first_line(error)}. Enlarge it, or delete models from it",
    )
