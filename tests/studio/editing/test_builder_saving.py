"""The draft of the builder and the server: what happens to changes that are not saved, and to those of others."""

import demo
from appearance import check_accessibility
from playwright.sync_api import expect
from servers import ORG, Server, wfcore
from test_builder import SAVED, create, names, node, opened, stored, without_writes
from test_builder_settings import settings
from watching import Open

LINE = demo.graph([demo.transform("first", 1), demo.transform("second", 2)], ("start", "first"), ("first", "second"))
WITH_THEIRS = demo.graph(
    [demo.transform("first", 1), demo.transform("second", 2), demo.transform("theirs", 3)],
    ("start", "first"), ("first", "second"), ("first", "theirs"),
)  # fmt: skip


def test_a_deploy_shows_what_somebody_else_saved(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """It is on the canvas before it is published, and the next change keeps it."""
    with server.client() as client:
        workflow = create(client, LINE)
        page = opened(open_page, workflow)
        client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": WITH_THEIRS})
        page.get_by_role("button", name="Deploy").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator(".changes .ok").filter(has_text="theirs")).to_be_visible()
        expect(node(page, "theirs")).to_be_attached()
        dialog.get_by_role("button", name="Deploy").click()
        expect(dialog).to_have_count(0)
        node(page, "second").click()
        page.keyboard.press("Delete")
        expect(node(page, "second")).to_have_count(0)
        expect(page.locator(SAVED)).to_be_visible()
        assert names(stored(client, workflow)) == ["start", "first", "theirs"]


def test_a_rollback_keeps_what_somebody_else_saved(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        workflow = demo.workflow(client, "Rolled back", demo.graph([demo.transform("first", 1)], ("start", "first")))
        client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": LINE})
        client.post(f"/api/v1/workflows/{workflow}/deploy")
        page = opened(open_page, workflow)
        client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": WITH_THEIRS})
        dialog = settings(page, "Versions")
        dialog.get_by_role("button", name="Deploy again").click()
        page.get_by_role("dialog", name="Deploy this version again?").get_by_role("button", name="Deploy again").click()
        expect(dialog).to_have_count(0)
        expect(node(page, "theirs")).to_be_visible()
        node(page, "second").click()
        page.keyboard.press("Delete")
        expect(node(page, "second")).to_have_count(0)
        expect(page.locator(SAVED)).to_be_visible()
        assert names(stored(client, workflow)) == ["start", "first", "theirs"]


def test_nothing_is_done_with_an_older_draft(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """While the last change cannot be saved, a run, a trial and a deploy are refused and say why."""
    with server.client() as client:
        workflow = create(client, LINE)
        page = opened(open_page, workflow)
        page.route("**/api/v1/workflows/*", without_writes)
        node(page, "second").click()
        page.keyboard.press("Delete")
        expect(page.locator(".saving.failed")).to_be_visible()
        refused = page.get_by_role("alert").filter(has_text="would work with an older draft")
        page.get_by_role("button", name="Run", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Run").click()
        expect(dialog.locator(refused)).to_be_visible()
        dialog.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Deploy").click()
        expect(dialog.locator(refused)).to_be_visible()
        expect(dialog.get_by_role("button", name="Deploy")).to_be_disabled()
        check_accessibility(page)
        dialog.get_by_role("button", name="Cancel").click()
        node(page, "first").click()
        page.get_by_text("Try this node").click()
        page.get_by_role("button", name="Try", exact=True).click()
        expect(page.locator(".side").locator(refused)).to_be_visible()
        page.unroute_all()
        page.locator(".notices").get_by_role("button", name="Try again").click()
        expect(page.locator(SAVED)).to_be_visible()
        page.get_by_role("button", name="Deploy").click()
        dialog.get_by_role("button", name="Deploy").click()
        expect(dialog).to_have_count(0)
        assert not client.get("/agent/v1/runs", params={"workflowId": workflow}).json()["runs"]
        assert names(client.get(f"/api/v1/workflows/{workflow}").json()["variation"]["workflowStructure"]) == [
            "start",
            "first",
        ]


def test_the_choice_between_two_versions_can_be_put_off(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Escape closes the dialog; a notice leads back to it, with what was changed meanwhile too."""
    with server.client() as client:
        workflow = create(client, LINE)
        page = opened(open_page, workflow)
        client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": WITH_THEIRS})
        page.get_by_role("button", name="Wait", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("theirs")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        node(page, "second").press("Enter")  # by key: the notice moves the canvas, and a click could miss
        node(page, "second").press("Delete")
        expect(node(page, "second")).to_have_count(0)
        expect(page.locator(".saving.conflict")).to_be_visible()
        check_accessibility(page)
        page.get_by_role("button", name="Compare the versions").click()
        expect(dialog.locator(".changes .bad").filter(has_text="second").first).to_be_visible()
        dialog.get_by_role("button", name="Keep my version").click()
        expect(page.locator(SAVED)).to_be_visible()
        expect(page.get_by_role("button", name="Compare the versions")).to_have_count(0)
        assert names(stored(client, workflow)) == ["start", "first", "wait"]


def test_a_change_of_somebody_else_is_shown_before_the_next_one(
    open_page: Open, server: Server, ids: dict[str, str]
) -> None:
    """A notice offers the newer version; what is typed stays, and undo brings back what was there."""
    with server.client() as client:
        workflow = create(client, LINE)
        page = opened(open_page, workflow)
        node(page, "first").click()
        page.get_by_label("Id", exact=True).fill("half")
        client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": WITH_THEIRS})
        show = page.get_by_role("button", name="Show the newer version")
        expect(show).to_be_visible()
        check_accessibility(page)
        expect(page.get_by_label("Id", exact=True)).to_have_value("half")
        expect(node(page, "theirs")).to_have_count(0)
        page.get_by_label("Id", exact=True).fill("first")
        show.click()
        expect(show).to_have_count(0)
        expect(node(page, "theirs")).to_be_visible()
        page.get_by_label("Label").fill("Mine")
        expect(page.locator(SAVED)).to_be_visible()
        assert names(stored(client, workflow)) == ["start", "first", "second", "theirs"]
        assert client.patch(f"/api/v1/workflows/{workflow}", json={"name": "Renamed"}).status_code == 200
        expect(page.get_by_role("heading", name="Renamed")).to_be_visible()
        page.get_by_label("Label").fill("Mine too")
        expect(page.locator(SAVED)).to_be_visible()
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert stored(client, workflow)["nodes"][1]["data"]["label"] == "Mine too"


def test_restored_changes_are_discarded(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """All of them, also after a further change; neither the notice nor what the browser kept stays."""
    with server.client() as client:
        workflow = create(client, LINE)
        page = opened(open_page, workflow)
        page.context.set_offline(True)
        page.get_by_role("button", name="Wait", exact=True).click()
        expect(page.locator(".saving.failed")).to_be_visible()
        second = page.context.new_page()
        second.route("**/api/v1/workflows/*", without_writes)
        page.close()
        second.context.set_offline(False)
        second.goto(f"{server.url}/studio/workflows/{workflow}")
        notice = second.get_by_text("had not been saved were restored")
        expect(notice).to_be_visible()
        node(second, "second").click()
        second.keyboard.press("Delete")
        expect(node(second, "second")).to_have_count(0)
        second.get_by_role("button", name="Discard").click()
        expect(notice).to_have_count(0)
        expect(second.locator(SAVED)).to_be_visible()
        expect(node(second, "wait")).to_have_count(0)
        expect(node(second, "second")).to_be_visible()
        assert second.evaluate("localStorage.length") == 0
        second.close()


def test_a_workflow_that_was_deleted_elsewhere(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """No version of it can stand: what was not saved is still there to be copied."""
    with server.client() as client:
        workflow = create(client, LINE)
        page = opened(open_page, workflow, permissions=["clipboard-read", "clipboard-write"])
        page.route("**/api/v1/workflows/*", without_writes)
        page.get_by_role("button", name="Wait", exact=True).click()
        expect(page.locator(".saving.failed")).to_be_visible()
        assert client.delete(f"/api/v1/workflows/{workflow}").status_code == 200
    expect(page.get_by_role("alert").filter(has_text="was deleted")).to_contain_text("changes are not saved")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Deploy")).to_have_count(0)
    check_accessibility(page)
    node(page, "wait").click()
    page.keyboard.press("Control+c")
    assert "core.wait" in page.evaluate("navigator.clipboard.readText()")


def test_unsaved_changes_are_for_who_made_them(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Another user of this browser does not get them; who made them does, after the next sign-in."""
    who = ("--org", ORG, "--user-id", "carl", "--database", server.database)
    wfcore("member", "add", *who, "--email", "carl@acme.test", "--role", "admin")
    others = wfcore("token", "create", *who, "--all-scopes")
    with server.client() as client:
        workflow = create(client, LINE)
        page = opened(open_page, workflow)
        page.route("**/api/v1/workflows/*", without_writes)
        page.get_by_role("button", name="Wait", exact=True).click()
        expect(page.locator(".saving.failed")).to_be_visible()
        for token in (others, server.token):
            page.get_by_role("button", name="Sign out").click()
            page.get_by_label("Access token").fill(token)
            page.keyboard.press("Enter")
            expect(node(page, "second")).to_be_visible()
            expect(page.locator(".saving")).to_be_visible()
            expect(node(page, "wait")).to_have_count(1 if token == server.token else 0)
        expect(page.get_by_text("had not been saved were restored")).to_be_visible()
