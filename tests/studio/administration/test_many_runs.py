"""500 runs: the list shows few rows at a time, reads page after page, and stays where the user is."""

import demo
import pytest
from playwright.sync_api import expect
from servers import Server, eventually
from watching import Open

COUNT = 500


@pytest.fixture(scope="module")
def workflow(server: Server) -> int:
    """A workflow with 500 runs that are done."""
    with server.client() as client:
        number = demo.workflow(client, "Many", demo.QUICK)
        for order in range(COUNT):
            demo.run(client, number, order=order)
    return number


def test_the_list_reads_on_while_it_is_scrolled(open_page: Open, workflow: int) -> None:
    """To the end by keyboard: all 500 were read, and at no time are more than some rows in the document."""
    page = open_page(f"/studio/runs?workflowId={workflow}")
    expect(page.get_by_text("50 runs and more")).to_be_visible()
    scroll = page.locator("wfcore-runs .scroll")
    shown = []

    def at_the_end() -> bool:
        scroll.evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
        shown.append(page.locator(".line").count())
        return page.get_by_text(f"{COUNT} runs", exact=True).count() == 1

    eventually(at_the_end)
    assert max(shown) < 80


def test_a_new_run_does_not_move_the_list(open_page: Open, server: Server) -> None:
    """A run that begins is added above; the rows in sight stay in sight."""
    with server.client() as client:  # not of the 500, which another test counts
        workflow = demo.workflow(client, "Few", demo.QUICK)
        for order in range(3):
            demo.settle(client, demo.run(client, workflow, order=order))
    page = open_page(f"/studio/runs?workflowId={workflow}")
    first = page.locator(".line").first
    expect(first).to_be_visible()
    before = first.get_attribute("href")
    with server.client() as client:
        run_id = demo.run(client, workflow, order=1)
    expect(page.locator(f".line[href$='{run_id}']")).to_be_visible()
    assert page.locator(".line").nth(1).get_attribute("href") == before


def test_the_list_reads_no_large_output(open_page: Open, server: Server) -> None:
    """A run whose output has 200,000 characters is in the list, and its output on its page alone."""
    with server.client() as client:
        number = demo.workflow(client, "Long", demo.QUICK)
        run_id = demo.run(client, number, order="x" * 200_000)
        demo.settle(client, run_id)
    page = open_page("/studio/inbox")
    with page.expect_response(lambda response: "/agent/v1/runs?" in response.url) as read:
        page.get_by_role("link", name="Runs", exact=True).click()
    assert run_id in read.value.text()
    assert len(read.value.body()) < 100_000
    page.locator(f".line[href$='{run_id}']").click()
    page.get_by_role("tab", name="Output").click()
    expect(page.get_by_text("Hello xxxx").first).to_be_visible()
