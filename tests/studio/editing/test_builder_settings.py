"""The settings of a workflow in a real browser: name, trigger, versions, sharing and delete."""

import json
import re
import shutil
import subprocess
from typing import Any

import demo
import pytest
from appearance import APPEARANCES, check_accessibility
from playwright.sync_api import Page, expect
from servers import ORG, Server, wfcore
from test_builder import create, names, opened
from watching import Open


def settings(page: Page, tab: str) -> Any:
    """The dialog of settings, at one of its tabs."""
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("tab", name=tab).click()
    return page.get_by_role("dialog")


def test_a_schedule(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """It is edited in the draft, with what is wrong at its field; once deployed, it shows its next runs."""
    with server.client() as client:
        workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")))
        page = opened(open_page, workflow)
        dialog = settings(page, "Trigger")
        dialog.get_by_label("Runs are started by").select_option("schedule")
        dialog.get_by_label("Frequency").select_option(label="Weekly")
        dialog.get_by_label("Time zone").fill("Europe/Nowhere")
        dialog.get_by_label("Monday").check()
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_label("Time zone")).to_have_attribute("aria-invalid", "true")
        dialog.get_by_label("Time zone").fill("Europe/Berlin")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_text("Saved in the draft")).to_be_visible()
        check_accessibility(page)
        dialog.get_by_role("button", name="Close").click()
        found = client.get(f"/api/v1/workflows/{workflow}", params={"view": "draft"}).json()
        assert found["variation"]["trigger"]["schedule"]["weekdays"] == ["monday"]
        assert client.post(f"/api/v1/workflows/{workflow}/deploy").status_code == 200
        page.reload()
        dialog = settings(page, "Trigger")
        expect(dialog.locator("ol li")).to_have_count(5)
        dialog.get_by_role("button", name="Switch on").click()
        expect(dialog.get_by_role("button", name="Switch off")).to_be_visible()
        assert client.get(f"/api/v1/workflows/{workflow}").json()["isEnabled"] is True
        client.delete(f"/api/v1/workflows/{workflow}")  # the calendar of another test would show it


def test_the_address_of_a_webhook(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """It is shown on demand, with its secret, what is missing, and a request; a new secret after a question."""
    with server.client() as client:
        workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")))
        page = opened(open_page, workflow)
        dialog = settings(page, "Trigger")
        dialog.get_by_label("Runs are started by").select_option("webhook")
        expect(dialog.get_by_text("accepts messages once a version")).to_be_visible()
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_text("Saved in the draft")).to_be_visible()
        dialog.get_by_role("button", name="Show address and secret").click()
        expect(dialog.get_by_role("button", name="Copy: Secret")).to_be_visible()
        found = client.get(f"/api/v1/workflows/{workflow}/webhook").json()
        for text in (found["url"], found["secret"]):
            expect(dialog.get_by_text(text, exact=True)).to_be_visible()
        dialog.get_by_text("Example request").click()
        check_accessibility(page)
        dialog.get_by_role("button", name="New secret").click()
        question = page.get_by_role("dialog", name="Create a new secret?")
        check_accessibility(page)
        question.get_by_role("button", name="New secret").click()
        expect(dialog.get_by_text(found["secret"], exact=True)).to_have_count(0)
        secret = client.get(f"/api/v1/workflows/{workflow}/webhook").json()["secret"]
        assert secret != found["secret"]
        expect(dialog.get_by_text(secret, exact=True)).to_be_visible()
        page.keyboard.press("Escape")
        assert client.post(f"/api/v1/workflows/{workflow}/deploy").status_code == 200
        page.reload()
        dialog = settings(page, "Trigger")
        dialog.get_by_role("button", name="Show address and secret").click()
        dialog.get_by_text("Example request").click()
        expect(dialog.get_by_text("accepts messages once a version")).to_have_count(0)
        example = dialog.locator("details code").inner_text()
        for program in ("bash", "curl", "openssl", "od", "base64"):
            assert shutil.which(program), f"the example needs {program}"
        answer = json.loads(subprocess.run(["bash", "-ceu", example], capture_output=True, check=True).stdout)
        assert client.get(f"/agent/v1/runs/{answer['runId']}").json()["target"]["id"] == workflow


def test_a_webhook_without_the_right(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A credential that cannot write workflows says so."""
    with server.client() as client:
        workflow = create(client)
        who = ("--org", ORG, "--user-id", "ada", "--database", server.database)
        token = wfcore("token", "create", *who, "--scope", "workflows:read")
        page = opened(open_page, workflow, token=token)
        dialog = settings(page, "Trigger")
        dialog.get_by_label("Runs are started by").select_option("webhook")
        dialog.get_by_role("button", name="Show address and secret").click()
        expect(dialog.get_by_role("alert")).to_contain_text("it takes a right")


def test_the_chat_of_a_workflow(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Links lead to it, once the workflow is deployed, and a chat page is made; the list of chats has it too."""
    with server.client() as client:
        workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")), "Ask me")
        page = opened(open_page, workflow)
        dialog = settings(page, "Trigger")
        dialog.get_by_label("Runs are started by").select_option("chatapp")
        expect(dialog.get_by_text("can be used once the workflow is deployed")).to_be_visible()
        dialog.get_by_role("button", name="Make a chat page").click()
        expect(dialog.get_by_role("button", name="Copy: Link of the chat page")).to_be_visible()
        path = client.get(f"/api/v1/workflows/{workflow}/interfaces").json()["interfaces"][0]["url"]
        expect(dialog.get_by_text(server.url + path, exact=True)).to_be_visible()
        check_accessibility(page)
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_text("Saved in the draft")).to_be_visible()
        assert client.post(f"/api/v1/workflows/{workflow}/deploy").status_code == 200
        page.reload()
        dialog = settings(page, "Trigger")
        dialog.get_by_role("link", name="Open the chat").click()
        expect(page.get_by_role("heading", name="Ask me")).to_be_visible()
        expect(page.get_by_label("Message", exact=True)).to_be_visible()
        page.get_by_role("link", name="Chat", exact=True).click()
        page.get_by_role("button", name="Ask me").first.click()
        expect(page.get_by_role("heading", name="Ask me")).to_be_visible()
        expect(page).to_have_url(re.compile(f"workflowId={workflow}"))


def test_versions(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A version of before is compared with the draft, and deployed again after a question that shows what changes."""
    with server.client() as client:
        workflow = demo.workflow(client, "Versions", demo.graph([demo.transform("first", 1)], ("start", "first")))
        second = demo.graph([demo.transform("other", 1)], ("start", "other"))
        client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": second})
        client.post(f"/api/v1/workflows/{workflow}/deploy")
        page = opened(open_page, workflow)
        dialog = settings(page, "Versions")
        expect(dialog.get_by_role("listitem").filter(has_text="Active")).to_have_count(1)
        old = dialog.get_by_role("listitem").filter(has=page.get_by_role("button", name="Deploy again"))
        old.get_by_role("button", name="Compare").click()
        expect(dialog.locator(".changes .ok")).to_have_text("other")
        expect(dialog.locator(".changes .bad")).to_have_text("first")
        check_accessibility(page)
        before = client.get(f"/api/v1/workflows/{workflow}").json()["activeVariationId"]
        old.get_by_role("button", name="Deploy again").click()
        question = page.get_by_role("dialog", name="Deploy this version again?")
        expect(question.locator(".changes .ok")).to_have_text("first")
        expect(question.locator(".changes .bad")).to_have_text("other")
        check_accessibility(page)
        question.get_by_role("button", name="Cancel").click()
        expect(question).to_have_count(0)
        assert client.get(f"/api/v1/workflows/{workflow}").json()["activeVariationId"] == before
        old.get_by_role("button", name="Deploy again").click()
        question.get_by_role("button", name="Deploy again").click()
        expect(dialog).to_have_count(0)
        structure = client.get(f"/api/v1/workflows/{workflow}").json()["variation"]["workflowStructure"]
        assert names(structure) == ["start", "first"]


def test_sharing(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Groups get use and manage; a change that would lock the user out is refused and says so."""
    with server.client() as client:
        workflow = create(client)
        group = client.post("/api/v1/groups", json={"name": f"Approvers {workflow}"}).json()["id"]
        page = opened(open_page, workflow)
        dialog = settings(page, "Sharing")
        everyone = dialog.get_by_role("group", name="Everyone in the organization")
        everyone.get_by_label("Manage").uncheck()
        dialog.get_by_role("group", name=f"Approvers {workflow}").get_by_label("Use").check()
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
        everyone.get_by_label("Manage").check()
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("status")).to_have_text("Saved")
        check_accessibility(page)
        granted = client.get(f"/api/v1/workflows/{workflow}").json()["accessConfig"]["groupPermissions"]
        assert granted[group] == {"use": True, "manage": False}


def test_name_and_description(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """They are changed at once, with the reason of a refusal; the graph is not."""
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow)
        dialog = settings(page, "General")
        dialog.get_by_label("Name").fill(" ")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
        expect(dialog.get_by_role("alert")).to_be_visible()
        check_accessibility(page)
        dialog.get_by_label("Name").fill(f"Invoices {workflow}")
        dialog.get_by_label("Description").fill("Of suppliers")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("status")).to_have_text("Saved")
        dialog.get_by_role("button", name="Close").click()
        expect(page.get_by_role("heading", name=f"Invoices {workflow}")).to_be_visible()
        found = client.get(f"/api/v1/workflows/{workflow}").json()
        assert (found["name"], found["description"]) == (f"Invoices {workflow}", "Of suppliers")
        settings(page, "General").get_by_label("Description").fill("")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("status")).to_have_text("Saved")
        assert client.get(f"/api/v1/workflows/{workflow}").json()["description"] is None


@pytest.mark.parametrize("appearance", ["light", "phone"])
def test_delete(open_page: Open, server: Server, ids: dict[str, str], appearance: str) -> None:
    """After a question; then the list of workflows is shown, without it. It can be restored there."""
    with server.client() as client:
        workflow = create(client)
        name = client.get(f"/api/v1/workflows/{workflow}").json()["name"]
        page = open_page(f"/studio/workflows/{workflow}", **APPEARANCES[appearance])
        dialog = settings(page, "General")
        dialog.get_by_role("button", name="Delete workflow").click()
        question = page.get_by_role("dialog", name="Delete this workflow?")
        expect(question).to_contain_text(name)
        check_accessibility(page)
        question.get_by_role("button", name="Cancel").click()
        assert client.get(f"/api/v1/workflows/{workflow}").json()["status"] == "draft"
        dialog.get_by_role("button", name="Delete workflow").click()
        question.get_by_role("button", name="Delete workflow").click()
        expect(page.get_by_role("heading", name="Workflows")).to_be_visible()
        expect(page.locator(f'a[href$="/workflows/{workflow}"]')).to_have_count(0)
        assert client.get(f"/api/v1/workflows/{workflow}").json()["status"] == "deleted"
        page.get_by_role("button", name="Deleted").click()
        page.locator(f'a[href$="/workflows/{workflow}"]').click()
        expect(page.get_by_role("alert")).to_contain_text("This workflow was deleted.")
        check_accessibility(page)
        page.get_by_role("button", name="Restore").click()
        expect(page.get_by_role("button", name="Settings")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        assert client.get(f"/api/v1/workflows/{workflow}").json()["status"] == "draft"


def test_settings_that_are_not_saved_stay(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """When another tab or page is shown and when the dialog is closed, until they are saved or discarded."""
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow)
        dialog = settings(page, "Sharing")
        dialog.get_by_label("Only the owner and single people").check()
        dialog.get_by_label("E-mail of a person").fill("Grace@acme.test")
        expect(dialog.get_by_role("status")).to_have_text("Not saved yet")
        page.get_by_role("tab", name="Trigger").click()
        dialog.get_by_label("Runs are started by").select_option("schedule")
        dialog.get_by_label("Frequency").select_option(label="Monthly")
        dialog.get_by_label("Day of the month").fill("31")
        check_accessibility(page)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        page.get_by_role("link", name="Workflows").click()
        expect(page.get_by_role("heading", name="Workflows")).to_be_visible()
        page.evaluate("history.back()")
        dialog = settings(page, "Trigger")
        expect(dialog.get_by_label("Day of the month")).to_have_value("31")
        dialog.get_by_role("button", name="Discard").click()
        expect(dialog.get_by_label("Runs are started by")).to_have_value("manual")
        expect(dialog.get_by_role("button", name="Save")).to_be_focused()
        page.get_by_role("tab", name="Sharing").click()
        dialog.get_by_role("button", name="Save").click()  # with the person who is still being typed
        expect(dialog.get_by_role("status")).to_have_text("Saved")
        expect(dialog.get_by_text("grace@acme.test")).to_be_visible()
        access = client.get(f"/api/v1/workflows/{workflow}").json()["accessConfig"]
        assert [one["email"] for one in access["sharedWith"]] == ["grace@acme.test"]
