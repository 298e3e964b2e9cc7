"""The readers under a coverage-guided fuzzer: `python -m fuzz SECONDS [READER ...]`.

Each reader has a process and an equal share of the time. What it learns is kept in `.fuzz/READER`,
an input that breaks it in `.fuzz/broken/READER-...`; once that is mended, the input belongs into
`tests/fuzz/found/READER/`."""

import random
import subprocess
import sys
from pathlib import Path

MOST_MIB = 2048
MOST_SECONDS_AN_INPUT = 20
KEPT = Path(".fuzz")


def main(arguments: list[str]) -> int:
    """Fuzz all readers, or those named. Return 1 where one was broken."""
    from fuzz.readers import READERS

    seconds = int(arguments[0])
    named = arguments[1:] or list(READERS)
    broken = [
        name for name in named if not _stands(name, max(1, seconds // len(named)))
    ]
    print(f"{len(named)} readers, broken: {', '.join(broken) or 'none'}")
    return 1 if broken else 0


def _stands(reader: str, seconds: int) -> bool:
    print(f"---- {reader}: {seconds} s", flush=True)
    command = [sys.executable, "-m", "fuzz", "--one", reader, str(seconds)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    output = (done.stdout + done.stderr).splitlines()
    figures = [
        line.removeprefix("stat::") for line in output if line.startswith("stat::")
    ]
    print("\n".join(output[-60:] if done.returncode else figures), flush=True)
    return done.returncode == 0


def fuzz_one(reader: str, seconds: str) -> None:
    """Fuzz one reader in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["benchrun", "benchrun_client"]):
        from fuzz import seeds
        from fuzz.mutations import mutated_bytes
        from fuzz.readers import MAX_INPUT_BYTES, READERS

    corpus = KEPT / reader
    broken = KEPT / "broken"
    for folder in (corpus, broken):
        folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds.seeds(reader)):
        (corpus / f"seed-{number}").write_bytes(data)

    def changed(data: bytes, max_size: int, seed: int) -> bytes:
        """Half of the changes are ours, which keep JSON whole, half the fuzzer's own."""
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(data, max_size))
        return mutated_bytes(data, rng)[:max_size]

    options = [
        f"-max_total_time={seconds}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-rss_limit_mb={MOST_MIB}",
        f"-timeout={MOST_SECONDS_AN_INPUT}",
        f"-artifact_prefix={broken}/{reader}-",
        "-print_final_stats=1",
        "-len_control=0",
    ]
    atheris.Setup(
        [sys.argv[0], *options, str(corpus)],
        READERS[reader],
        custom_mutator=changed,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        fuzz_one(sys.argv[2], sys.argv[3])
    else:
        sys.exit(main(sys.argv[1:]))
