"""Find flags that only the operator may set (owned flags) in a user's arguments."""

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
