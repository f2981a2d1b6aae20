"""The refund workflow of the README, by keyboard alone, from an empty list to a run that was mended and retried."""

import re
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect
from scripted_server import scripted_server
from test_keyboard import focused, tab_to
from waiting import HANG
from watching import Open

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def go(page: Page, name: str, key: str = "Tab") -> None:
    """Move the focus to what is named so, when it is there. Each stop on the way is visibly focused."""
    expect(page.get_by_text(name, exact=True).or_(page.get_by_label(name)).first).to_be_attached()
    tab_to(page, lambda found: re.split(" · |, ", found)[0] == name, key)


def press(page: Page, name: str, key: str = "Tab") -> None:
    go(page, name, key)
    page.keyboard.press("Enter")


def fill(page: Page, name: str, text: str, key: str = "Tab") -> None:
    if (focused(page) or "").split(" · ")[0] != name:  # a dialog begins with its first field
        go(page, name, key)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def test_the_refund_workflow(open_page: Open, tmp_path: Path) -> None:
    """Built, deployed, run, approved on a phone, failed, mended and retried; the recording is `refund.zip`.

    `playwright show-trace` shows a recording.
    """
    refunds: list[int] = []

    async def send_refund(order: int) -> dict[str, int]:
        """Send the money of an order back."""
        refunds.append(order)
        return {"refunded": order}

    with scripted_server(send_refund) as server:
        page = open_page("/studio/workflows", token=server.token, origin=server.url)
        page.context.tracing.start(screenshots=True)
        press(page, "New workflow")
        page.keyboard.type("Refunds")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Refunds")).to_be_visible()

        press(page, "Approval")
        fill(page, "Id", "ask")
        page.keyboard.press("Enter")
        fill(page, "Message", "Refund order {{ input.order }}?")
        press(page, "send refund", "Shift+Tab")
        fill(page, "Id", "pay")
        page.keyboard.press("Enter")
        fill(page, "order", "{{ input.ordr }}")
        expect(page.locator(".saving.saved")).to_be_visible()
        expect(page.get_by_role("button", name="0 problems")).to_be_visible()

        press(page, "Deploy", "Shift+Tab")
        expect(page.get_by_role("dialog").get_by_text("pay", exact=True)).to_be_visible()
        press(page, "Deploy")
        expect(page.locator(".head .status")).to_have_text("Active")
        press(page, "Run", "Shift+Tab")
        expect(page.get_by_role("dialog")).to_be_visible()
        fill(page, "Input", '{"order": 4711}')
        press(page, "Run")
        expect(page.locator("[data-id=ask] .gnode")).to_have_attribute("data-status", "waiting")

        headers = {"Authorization": f"Bearer {server.token}"}
        (waiting,) = httpx.get(f"{server.url}/agent/v1/interrupts", headers=headers, timeout=HANG).json()["interrupts"]
        link = f"/studio/inbox/{waiting['interruptId']}"  # as a message has it
        phone = open_page(link, token=server.token, origin=server.url, **PHONE)
        expect(phone.get_by_role("heading", name="Refund order 4711?")).to_be_visible()
        press(phone, "Approve")
        expect(phone.get_by_text("Your decision is recorded")).to_be_visible()

        expect(page.locator(".head .status.bad")).to_be_visible()
        assert refunds == []
        press(page, "Back to the draft", "Shift+Tab")
        expect(page.locator("[data-id=pay]")).to_be_visible()
        press(page, "pay")
        fill(page, "order", "{{ input.order }}")
        expect(page.locator(".saving.saved")).to_be_visible()
        press(page, "Last run", "Shift+Tab")
        press(page, "Retry from failure")
        expect(page.get_by_label("The draft as it is now")).to_be_visible()
        go(page, "The version of this run")
        page.keyboard.press("ArrowUp")
        expect(page.get_by_label("The draft as it is now")).to_be_checked()
        press(page, "Retry from failure")
        expect(page.locator(".head .status.ok")).to_be_visible()
        assert refunds == [4711]
        page.context.tracing.stop(path=tmp_path / "refund.zip")
