"""What a tab says and asks for while it is open."""

from dataclasses import dataclass, field

from playwright.sync_api import Dialog, Page


@dataclass(slots=True)
class Seen:
    """What a tab did while it was open."""

    said: list[str] = field(default_factory=list)
    """On the console, and errors."""
    asked: list[str] = field(default_factory=list)
    """Addresses."""
    dialogs: list[str] = field(default_factory=list)


def watched(tab: Page) -> Seen:
    """From now on."""
    seen = Seen()
    tab.on(
        "console",
        lambda message: seen.said.append(f"{message.type}: {message.text}"),
    )
    tab.on("pageerror", lambda error: seen.said.append(f"error: {error}"))
    tab.on("request", lambda request: seen.asked.append(request.url))
    tab.on("dialog", lambda dialog: _dismissed(dialog, seen))
    return seen


def _dismissed(dialog: Dialog, seen: Seen) -> None:
    seen.dialogs.append(dialog.message)
    dialog.dismiss()
