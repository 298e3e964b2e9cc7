"""A scripted `kubectl` on PATH.

It is a real process, so that pipes, signals and ends are real, too.
"""

import json
import stat
import sys
from ast import literal_eval
from dataclasses import dataclass, field
from pathlib import Path

from unit.plan.specs import Json

# It is started some thousand times, and imports next to nothing: that halves its time.
PROGRAM = """#!{python} -SE
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
arguments = sys.argv[1:]
given = sys.stdin.read() if "--filename=-" in arguments else ""
with open(here + "/asked", "a", encoding="utf-8") as asked:
    asked.write(repr({{"arguments": arguments, "given": given}}) + "\\n")

def unused(number):
    try:
        os.close(os.open(here + f"/used-{{number}}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

with open(here + "/answers", encoding="utf-8") as file:
    answers = eval(file.read())
for number, answer in enumerate(answers):
    fits = not set(answer["unless"]) & set(arguments) and all(
        any(word.startswith(to[:-1]) for word in arguments) if to[-1:] == "*" else to in arguments
        for to in answer["to"]
    )
    if fits and (not answer["once"] or unused(number)):
        if answer["after"]:
            with open(answer["after"]) as let_go:
                let_go.read()
        sys.stdout.write(answer["out"])
        sys.stdout.flush()
        sys.stderr.write(answer["error"])
        if answer["stays"]:
            import signal
            signal.pause()
        sys.exit(answer["code"])
sys.exit(f"nobody told the fake kubectl what to answer to {{arguments}}")
"""


@dataclass(slots=True)
class FakeKubectl:
    """A kubectl that gives the first of its answers that fits; `once` answers are used up."""

    folder: Path
    answers: list[Json] = field(default_factory=list)

    def install(self) -> None:
        """Put the program into the folder."""
        program = self.folder / "kubectl"
        program.write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self._write()

    def answer(
        self,
        *to: str,
        out: str = "",
        error: str = "",
        code: int = 0,
        once: bool = False,
        stays: bool = False,
        unless: str = "",
        after: Path | None = None,
    ) -> None:
        """Answer a command line that has these words in it, and not `unless`.

        A word that ends in * stands for all that begin like it.

        With `stays` it does not end by itself. With `after` it prints nothing before something was
        written to this pipe.
        """
        how = {
            "out": out,
            "error": error,
            "code": code,
            "once": once,
            "stays": stays,
            "after": str(after or ""),
        }
        self.answers.append({"to": to, "unless": [unless], **how})
        self._write()

    def fails(
        self, *to: str, error: str, once: bool = False, unless: str = ""
    ) -> None:
        """Fail with words on stderr and exit code 1."""
        self.answer(*to, error=error, code=1, once=once, unless=unless)

    def gives(
        self, *to: str, body: Json, once: bool = False, unless: str = ""
    ) -> None:
        self.answer(
            *to, out=json.dumps(body, indent=4) + "\n", once=once, unless=unless
        )

    def watch(
        self,
        *bodies: Json,
        last: str = "MODIFIED",
        target: str = "get",
        once: bool = False,
        stays: bool = True,
    ) -> None:
        """Answer a watch with events in kubectl's form.

        `last` is the type of the last event, `target` the name of what is watched.
        """
        types = ["ADDED", *["MODIFIED"] * (len(bodies) - 1)]
        types[-1] = last if last != "MODIFIED" else types[-1]
        events = [
            json.dumps({"type": type_, "object": body}, indent=4)
            for type_, body in zip(types, bodies, strict=True)
        ]
        self.answer(
            target, "--watch", out="\n".join(events) + "\n", once=once, stays=stays
        )

    def commands(self) -> list[list[str]]:
        return [line["arguments"] for line in self._log()]

    def given(self, *to: str) -> list[str]:
        """Return the standard input of those commands."""
        return [
            line["given"]
            for line in self._log()
            if set(to) <= set(line["arguments"])
        ]

    def _log(self) -> list[Json]:
        log = self.folder / "asked"
        return (
            [
                literal_eval(line)
                for line in log.read_text(encoding="utf-8").splitlines()
            ]
            if log.exists()
            else []
        )

    def _write(self) -> None:
        (self.folder / "answers").write_text(repr(self.answers), encoding="utf-8")
