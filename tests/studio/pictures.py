"""Makes the pictures of the documentation from the demo organization: `make pictures`.

python tests/studio/pictures.py [FOLDER]
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import browser
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
SIZE = {"width": 1280, "height": 720}
SETTLED = 1_000
"""Milliseconds after which nothing on the page moves any more."""


def builder(page: Page) -> None:
    page.get_by_role("link", name="Workflows").click()
    page.get_by_role("link", name=re.compile("^Refunds")).click()
    page.locator(".react-flow__node[data-id=approve]").click()
    expect(page.get_by_role("complementary", name="Node details")).to_be_visible()


def run(page: Page) -> None:
    page.goto(page.url.split("/studio/")[0] + "/studio/runs/demo-waiting-eve")
    expect(page.locator(".react-flow__node[data-id=approve]")).to_be_visible()


def inbox(page: Page) -> None:
    page.get_by_role("link", name=re.compile("^Inbox")).click()
    page.get_by_role("button", name=re.compile("Eve")).click()
    page.get_by_role("textbox", name="Reason").fill("The parcel was lost.")


def make(folder: Path) -> None:
    """Write `studio-builder.png`, `studio-run.png` and `studio-inbox.png`."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        command = [str(Path(sys.executable).with_name("wfcore")), "dev", "--port", "0"]
        server = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            link = next(line for line in server.stdout if "/dev/" in line).split()[-1]
            running = playwright.chromium.launch(executable_path=browser.find(), args=list(browser.ARGUMENTS))
            page = running.new_page(viewport=SIZE, locale="en-US", color_scheme="light", reduced_motion="reduce")
            page.goto(link)
            for show in builder, run, inbox:
                show(page)
                page.wait_for_timeout(SETTLED)
                page.mouse.move(0, 0)
                page.screenshot(path=folder / f"studio-{show.__name__}.png", animations="disabled", caret="hide")
            running.close()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
