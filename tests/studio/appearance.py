"""How pages look to different users, and what axe finds on them."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

APPEARANCES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "forced colours": {"forced_colors": "active", "reduced_motion": "reduce"},
    "German": {"locale": "de-DE"},
}

RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]


def check_accessibility(page: Page) -> None:
    """No finding of axe, in shadow roots too."""
    found = Axe().run(page, options={"runOnly": RULES})
    problems = [
        (each["id"], node["target"], node.get("failureSummary", "")[:300])
        for each in found.response["violations"]
        for node in each["nodes"][:3]
    ]
    assert problems == [], problems
