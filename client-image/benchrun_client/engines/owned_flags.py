"""Flags that only the operator may set (owned flags): give them, or find them in arguments."""

from collections.abc import Mapping, Sequence


def first_owned(
    words: Sequence[str],
    owned: Mapping[str, str],
    spellings: Mapping[str, str],
    placeholders: Mapping[str, str],
) -> tuple[int, str] | None:
    """Return the position of the first owned flag, and a message; None if there is none.

    `owned`: flag -> remedy. `spellings`: other spelling -> long name without dashes.
    `placeholders`: flag -> the only value that it may have. Like argparse, this takes the beginning
    of a flag's name for the flag, and underscores for dashes. The message does not repeat the
    value, which may be secret.
    """
    dashed = {each.replace("_", "-"): each for each in owned}
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        name = f"--{spellings[name]}" if name in spellings else name
        name = name.replace("_", "-")
        whole = next(
            (
                each
                for each in dashed
                if name[:2] == "--" and len(name) > 3 and each.startswith(name)
            ),
            "",
        )
        flag = dashed.get(whole)
        given = value if equals else next(iter(words[place + 1 :]), "")
        allowed = placeholders.get(flag or "")
        if flag is not None and (name != whole or given != allowed):
            which = flag if name == whole else f"{name}, short for {flag},"
            hint = f" (only the value {allowed} is allowed)" if allowed else ""
            return place, f"{which} belongs to the operator{hint}: {owned[flag]}"
    return None


def left_out(own: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """Return the operator's arguments that the command does not have as placeholders.

    `own`: placeholder -> the argument in its place.
    """
    return [
        argument
        for placeholder, argument in own.items()
        if not any(placeholder in word for word in command)
    ]


def written(values: Mapping[str, str | None]) -> list[str]:
    """Return `--name=value` for each value that there is, by the flags' names without dashes."""
    return [
        f"--{name}={value}" for name, value in values.items() if value is not None
    ]
