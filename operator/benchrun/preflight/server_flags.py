"""Checks of `spec.server.args` against the flags of the server's version of vLLM.

vLLM ends with an error on an unknown flag, but only after the pod has got its GPU. vllm_flags/ has
a file with the flags of each version, made by dev/vllm_flags.py.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal
from urllib.parse import urlsplit

from benchrun_client.engines import ENGINES, Engine, EngineName

from benchrun.api import BenchmarkRunSpec, is_script
from benchrun.preflight.client_options import client_hint
from benchrun.preflight.remark import Remark, error, not_checked, note, warning
from benchrun.sizing import is_flag

Takes = Literal["nothing", "one", "maybe", "many"]
"""How many values a flag takes. nothing: none, it is a switch. one: exactly one. maybe: one or
none. many: any number."""

TABLES_OF: EngineName = "VLLM"
"""The only engine whose flags are known."""
_TAG = re.compile(r"^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:[-.+_].*)?$")


@dataclass(frozen=True, slots=True)
class Flag:
    takes: Takes
    choices: tuple[str, ...] = ()  # Values that are allowed; empty: any.
    is_object: bool = False  # Whether it takes JSON, which may be given in parts: --name.key value.


@dataclass(frozen=True, slots=True)
class FlagTable:
    """All flags that one version of the engine has, by all names of a flag."""

    version: str
    flags: Mapping[str, Flag]
    # Options of its load client, `vllm bench serve`.
    client: frozenset[str] = frozenset()


def known_versions() -> tuple[str, ...]:
    """Return the versions that have a table, such as "0.32"; patch releases share it."""
    return tuple(sorted(_tables()))


@cache
def table_for(version: str) -> FlagTable | None:
    """Return the table of a version such as "0.32" or "0.32.1"; None if its flags are not known."""
    if (file := _tables().get(".".join(version.split(".")[:2]))) is None:
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    flags = {
        spelling: Flag(
            each["takes"], tuple(each.get("choices", ())), each.get("object", False)
        )
        for each in found["flags"]
        for spelling in each["names"]
    }
    return FlagTable(
        found["version"], flags, frozenset(found.get("client", ())) - {*flags}
    )


def version_of_image(image: str) -> str | None:
    """Return vLLM's version that an image's tag names, such as "0.32".

    Returns None if the tag is no version (`latest`, a digest), or if the image is not vLLM's own,
    so that its tag tells the version of something else.
    """
    found = _release(_tag(image))
    return None if found is None else f"{found[0]}.{found[1]}"


def _tag(image: str) -> str:
    """Return the tag if it is vLLM's, else an empty text."""
    path, _, name = image.partition("@")[0].rpartition("/")
    name, _, tag = name.partition(":")
    publisher = path.rpartition("/")[2]
    is_own = publisher == "vllm" or _REGISTRY.fullmatch(publisher) is not None
    return tag if is_own and _NAMED_VLLM.match(name) else ""


_NAMED_VLLM = re.compile(
    r"vllm(?:-(?:openai|cpu|cuda|rocm|tpu|xpu|x86_64|arm64|aarch64|release|repo))*$"
)
"""Images with vLLM's own version; vllm-omni, vllm-router and others of its projects have theirs."""
_REGISTRY = re.compile(r"|localhost|.*[.:].*")
"""A registry's address, or nothing. Images of other publishers (LMCache, NVIDIA, ROCm, llm-d) have
versions of their own, whatever they are called."""


def _release(text: str) -> tuple[int, int, int] | None:
    found = _TAG.match(text)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


@cache
def _tables() -> Mapping[str, Traversable]:
    listed = files(__package__).joinpath("vllm_flags").iterdir()
    return {
        ".".join(each.name.split(".")[:2]): each
        for each in listed
        if each.name.endswith(".json")
    }


def flag_remarks(
    args: Sequence[str],
    engine: Engine,
    *,
    image: str,
    version: str | None,
    path: str,
    first: int = 0,
) -> list[Remark]:
    """Return remarks on the arguments from position `first` on.

    `version` is the version of vLLM images whose tag names none; None if it is not known.
    """
    version = version_of_image(image) or version
    remarks = [
        warning(f"{path}[{place}]", name + engine.flag_warnings[name])
        for place, name in enumerate(
            _dashed(word.partition("=")[0]) for word in args
        )
        if name in engine.flag_warnings
    ]
    if engine is not ENGINES[TABLES_OF]:
        which = f"{engine.name}: benchrun knows only the flags of {ENGINES[TABLES_OF].name}"
        unknown = [not_checked(path, f"whether these flags exist in {which}")]
        return [*remarks, *(unknown if args[first:] else ())]
    table = table_for(version) if version is not None else None
    if table is not None:
        return remarks + table_remarks(args, table, path=path, first=first)
    remarks += _client_remarks(args[first:], path=path, first=first)
    which = f"{image}, whose tag has no version: use --vllm-version"
    if version is not None:
        which = (
            f"vLLM {version}: benchrun knows those of {', '.join(known_versions())}"
        )
    return (
        [*remarks, not_checked(path, f"whether these flags exist in {which}")]
        if args[first:]
        else remarks
    )


_ENTRY_POINT_SINCE = (0, 11, 1)
"""First vLLM release whose images start `vllm serve`. Earlier images start a module that takes the
model only as a flag."""


def entry_point_remarks(
    image: str,
    command: Sequence[str],
    engine: Engine,
    *,
    version: str | None = None,
) -> list[Remark]:
    """Return an error if a server has no command and its image does not start `vllm serve`.

    If the image's version is not known, this is reported as not checked.
    """
    if command or engine.module_before_serve is None:
        return []
    release = (
        _release(_tag(image)) or _release(version or "") or _release(f"{version}.0")
    )
    path = "spec.server.image"
    if release is None:
        return [
            not_checked(
                path,
                f"it is not known whether {image} starts with `vllm serve`: {_NO_VERSION}",
            )
        ]
    if release >= _ENTRY_POINT_SINCE:
        return []
    text = (
        f"vLLM {'.'.join(map(str, release))} does not start with `vllm serve`, and serves vLLM's "
        "own default model in place of yours: set spec.server.command to "
        f"[python3, -m, {engine.module_before_serve}, --model, $(MODEL)]"
    )
    return [error(path, text)]


_NO_VERSION = (
    "the tag of the image has no version: give the version with --vllm-version"
)


def endpoint_remarks(spec: BenchmarkRunSpec) -> list[Remark]:
    """Return an error if an endpoint's base URL contains a path of the API.

    The client appends the paths itself.
    """
    url = spec.endpoint.url if spec.endpoint is not None else None
    if url is None:
        return []
    path = urlsplit(url).path.rstrip("/")
    begins = next(
        (at for at in range(len(path)) if _API_PATH.match(path, at)), None
    )
    if begins is None:
        return []
    base = url.removesuffix("/")[: len(url.removesuffix("/")) - len(path) + begins]
    text = (
        f"with {url} requests would go to {url.rstrip('/')}/v1/...: remove the path, "
        f"so that the URL is {base}"
    )
    return [error("spec.endpoint.url", text)]


_API_PATH = re.compile(
    r"/v1(?:/(?:chat/completions|completions|models|embeddings))?$"
)


def command_remarks(
    command: Sequence[str], engine: Engine, *, image: str, version: str | None
) -> list[Remark]:
    """Return remarks on the flags of a command, which begin after the program and the model."""
    path = "spec.server.command"
    if is_script(command):
        return [
            not_checked(
                path,
                "the flags are not known, because benchrun does not read scripts",
            )
        ]
    first = next(
        (place for place, word in enumerate(command) if word.startswith("--")),
        len(command),
    )
    return flag_remarks(
        command, engine, image=image, version=version, path=path, first=first
    )


def _client_remarks(args: Sequence[str], *, path: str, first: int) -> list[Remark]:
    """Return an error for each option of the load client, if the version's flags are unknown."""
    tables = [
        table for each in known_versions() if (table := table_for(each)) is not None
    ]
    return [
        error(f"{path}[{place}]", client_hint(name))
        for place, name in enumerate(
            (_dashed(word.partition("=")[0]) for word in args), first
        )
        if any(name in table.client for table in tables)
    ]


def table_remarks(
    args: Sequence[str], table: FlagTable, *, path: str, first: int = 0
) -> list[Remark]:
    """Return remarks on words that this version's flags do not accept.

    `first` is the position of the first word that may be a flag.
    """
    walk = _Walk(table, args, path)
    place = first
    while place < len(args):
        place = walk.word(place)
    return walk.found


_SHORTEST = 4  # Fewest letters of a flag's beginning; shorter ones do not tell which flag is meant.


@dataclass(slots=True)
class _Walk:
    """A walk over the arguments, which reads them as argparse does."""

    table: FlagTable
    args: Sequence[str]
    path: str
    found: list[Remark] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def word(self, place: int) -> int:
        """Check one word and return the position of the next."""
        word = self.args[place]
        if not is_flag(word):
            self._say(
                error,
                place,
                f"{word!r} is neither a flag nor a flag's value; the operator sets the model",
            )
            return place + 1
        name, equals, value = _dashed(word).partition("=")
        flag, name = self._flag(place, name, by_parts="." in name)
        if flag is None:
            return place + 1 + (not equals and self._is_value(place + 1))
        if name in self.seen and not flag.is_object:
            self._say(note, place, f"{name} is given twice; the last one counts")
        self.seen.add(name)
        return self._values(place, name, flag, given=value if equals else None)

    def _flag(
        self, place: int, name: str, *, by_parts: bool
    ) -> tuple[Flag | None, str]:
        if re.match(r"-O[^=]", name):
            return Flag("nothing"), "--optimization-level"
        whole = name.partition(".")[0] if by_parts else name
        found = self.table.flags.get(whole)
        if found is None and whole in self.table.client:
            self._say(error, place, client_hint(whole))
            return None, whole
        if found is None:
            begins = sorted(
                {each for each in self.table.flags if each.startswith(whole)}
            )
            if len({id(self.table.flags[each]) for each in begins}) == 1:
                return self._short(place, whole, begins[-1], by_parts=by_parts)
            if begins:
                self._say(
                    error,
                    place,
                    f"{whole} may be short for {', '.join(begins)}: write the whole name",
                )
                return None, whole
            meant = sorted(
                each for each in self.table.client if each.startswith(whole)
            )
            if meant and len(whole) > _SHORTEST:
                self._say(error, place, client_hint(meant[0]))
                return None, whole
            near = self._near(whole)
            guess = f"; did you mean {near}?" if near else ""
            self._say(
                error,
                place,
                f"vLLM {self.table.version} has no flag {whole}{guess}",
            )
        elif by_parts and not found.is_object:
            self._say(
                error,
                place,
                f"{whole} does not take dotted keys: its value is not a JSON object",
            )
            return None, whole
        elif by_parts:
            return Flag("one", is_object=True), whole
        return found, whole

    def _short(
        self, place: int, given: str, name: str, *, by_parts: bool
    ) -> tuple[Flag, str]:
        """Return the flag and name that a beginning (`given`) stands for, and add a remark."""
        self._say(
            note,
            place,
            f"{given} is short for {name}: write the whole name, because another "
            "version may have two flags that begin like this",
        )
        flag = self.table.flags[name]
        return (
            Flag("one", is_object=True) if by_parts and flag.is_object else flag
        ), name

    def _near(self, name: str) -> str | None:
        """Return the flag that was probably meant; None if there is no guess.

        It never returns the opposite (`no-`) of what was written.
        """
        opposite = name.replace("--disable-", "--no-enable-", 1)
        if opposite in self.table.flags:
            return opposite
        return next(
            iter(get_close_matches(name, self.table.flags, n=1, cutoff=0.75)), None
        )

    def _values(
        self, place: int, name: str, flag: Flag, *, given: str | None
    ) -> int:
        """Check the values of a flag and return the position of the next word."""
        following = place + 1
        if given is not None:
            values = {place: given}
            if flag.takes == "nothing":
                self._say(
                    error,
                    place,
                    f"{name} is a switch and takes no value, but is given {given!r}",
                )
        else:
            most = {"nothing": 0, "many": len(self.args)}.get(flag.takes, 1)
            while following <= place + most and self._is_value(following):
                following += 1
            values = {at: self.args[at] for at in range(place + 1, following)}
            if not values and flag.takes == "one":
                self._say(error, place, f"{name} needs a value")
        for at, value in values.items():
            if flag.choices and value not in flag.choices:
                near = get_close_matches(value, flag.choices, n=1)
                guess = (
                    f"; did you mean {near[0]}?"
                    if near
                    else f"; it takes {', '.join(flag.choices)}"
                )
                self._say(error, at, f"{name} does not take {value!r}{guess}")
        return following

    def _is_value(self, place: int) -> bool:
        return place < len(self.args) and not is_flag(self.args[place])

    def _say(
        self, how: Callable[[str, str], Remark], place: int, text: str
    ) -> None:
        self.found.append(how(f"{self.path}[{place}]", text))


def _dashed(word: str) -> str:
    """Return a word whose flag name has dashes for underscores, up to the first dot.

    vLLM accepts underscores for dashes there.
    """
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    head, dot, tail = name.partition(".")
    return head.replace("_", "-") + dot + tail + equals + value
