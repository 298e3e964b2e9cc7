"""Each section of a page as a picture, for people to look at."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser


@dataclass(frozen=True, slots=True)
class Look:
    """The color scheme and window size in which a page is viewed."""

    name: str
    scheme: Literal["light", "dark"]
    width: int
    height: int


LOOKS = (
    Look("light", "light", 1280, 900),
    Look("dark", "dark", 1280, 900),
    Look("phone", "light", 360, 740),
    Look("phone-dark", "dark", 360, 740),
)


def take_screenshots(browser: Browser, file: Path, folder: Path) -> Iterator[str]:
    """Write a picture of each section in each look; yield paths such as `light-verdict.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    for look in LOOKS:
        tab = browser.new_page(
            viewport={"width": look.width, "height": look.height},
            color_scheme=look.scheme,
            device_scale_factor=1,
        )
        tab.goto(file.as_uri(), wait_until="load")
        for section in tab.locator("header, section").all():
            name = section.get_attribute("id") or "head"
            picture = folder / f"{look.name}-{name}.png"
            section.screenshot(path=picture)
            yield f"{picture}"
        tab.close()
