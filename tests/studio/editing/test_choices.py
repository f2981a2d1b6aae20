"""Fields that refer to skills, workflows, connections and people: chosen by name, out of any number of them."""

import re
from typing import Any

import demo
import httpx
import pytest
from appearance import check_accessibility
from playwright.sync_api import Locator, Page, expect
from servers import ORG, Server, eventually
from test_builder import SAVED, create, opened, stored
from watching import Open


def made(client: httpx.Client, path: str, **body: Any) -> Any:
    response = client.post(f"/api/v1/{path}", json=body)
    assert response.status_code == 201, response.text
    return response.json()


@pytest.fixture(scope="module")
def skills(server: Server) -> list[int]:
    """The ids of 70 skills, which are more than a page has; the first one is deployed, and the last one deleted."""
    with server.client() as client:
        ids = [
            int(made(client, "skills", name=f"Clerk {number:02}", instructions=["Help."])["id"]) for number in range(70)
        ]
        assert client.post(f"/api/v1/skills/{ids[0]}/deploy").status_code == 200
        assert client.delete(f"/api/v1/skills/{ids[-1]}").status_code == 200
    return ids


def shown(open_page: Open, client: httpx.Client, node: demo.Json) -> tuple[Page, Locator, int]:
    """The page of a workflow with this node, its panel, and the id of the workflow."""
    workflow = create(client, demo.graph([node], ("start", node["id"])))
    page = opened(open_page, workflow)
    page.locator(f".react-flow__node[data-id={node['id']}]").click()
    return page, page.get_by_role("complementary", name="Node details"), workflow


def data_of(page: Page, client: httpx.Client, workflow: int) -> demo.Json:
    """The data of the node, once it is saved."""
    expect(page.locator(SAVED)).to_be_visible()
    found: demo.Json = stored(client, workflow)["nodes"][1]["data"]
    return found


def test_a_skill_is_found_by_name_and_by_keyboard(open_page: Open, server: Server, skills: list[int]) -> None:
    with server.client() as client:
        page, panel, workflow = shown(open_page, client, demo.node("write", "agent", message="Hello"))
        field = panel.get_by_role("combobox", name="Skill")
        field.press("ArrowDown")
        options = panel.get_by_role("listbox", name="Choices").get_by_role("option")
        expect(options.filter(has_text="Clerk")).not_to_have_count(0)
        expect(panel.get_by_text("more: search to narrow them down")).to_be_visible()
        field.press_sequentially("clerk 1")
        expect(options).to_have_count(16)
        field.press("Backspace")
        field.press_sequentially("00")
        expect(options).to_have_count(1)
        check_accessibility(page)
        field.press("ArrowUp")
        field.press("ArrowDown")
        field.press("Enter")
        expect(field).to_have_value("Clerk 00")
        assert data_of(page, client, workflow)["agent_id"] == skills[0]
        field.fill("nothing of this name")
        expect(panel.get_by_text("Nothing matches")).to_be_visible()
        field.press("Escape")
        expect(field).to_have_value("Clerk 00")
        panel.get_by_role("button", name="Remove Clerk 00").click()
        expect(field).to_have_value("")
        assert "agent_id" not in data_of(page, client, workflow)


GONE = [
    (69, "Clerk 69", "Deleted"),
    (1, "Clerk 01", "Not deployed yet"),
    (None, "9999", "Deleted, or not visible to you"),
]


@pytest.mark.parametrize(("index", "name", "why"), GONE)
def test_a_skill_that_cannot_be_used_says_why(
    open_page: Open, server: Server, skills: list[int], index: int | None, name: str, why: str
) -> None:
    skill = 9999 if index is None else skills[index]
    with server.client() as client:
        page, panel, _ = shown(open_page, client, demo.node("write", "agent", message="Hello", agent_id=skill))
        expect(panel.get_by_role("combobox", name="Skill")).to_have_value(name)
        expect(panel.get_by_text(why, exact=True)).to_have_count(1)
        expect(panel.get_by_text("unknown skill")).to_have_count(0)
        page.get_by_role("button", name="1 problem", exact=True).click()
        problems = page.get_by_role("list", name="Problems")
        expect(problems.get_by_text("It is deleted, not deployed, or not visible to you")).to_be_visible()


def test_a_time_is_shown_in_larger_units(open_page: Open, server: Server) -> None:
    """Beside a number of seconds, of a field of a node as of a parameter of a tool."""
    with server.client() as client:
        wait = demo.node("pause", "action", toolId="core.wait", params={"seconds": 5400})
        _, panel, _ = shown(open_page, client, wait)
        expect(panel.get_by_text("= 1 hr 30 min", exact=True)).to_be_visible()
        _, panel, _ = shown(open_page, client, demo.node("ask", "humanApproval", message="Pay?", timeoutSeconds=90_061))
        expect(panel.get_by_text("= 1 day 1 hr 1 min 1 sec", exact=True)).to_be_visible()
        panel.get_by_label("Time limit in seconds").fill("59")
        expect(panel.get_by_text(re.compile("^= "))).to_have_count(0)


def test_approvers_are_people_groups_and_addresses(open_page: Open, server: Server) -> None:
    """Nobody who is named is the same as no approvers: the server refuses an empty list of them."""
    with server.client() as client:
        made(client, "members", userId="joan", name="Joan Clarke", email="joan@acme.test")
        group = made(client, "groups", name="Treasury")["id"]
        gone = "01941f29-7c00-7000-8000-00000000dead"
        node = demo.node("ask", "humanApproval", message="Pay?", approvers={"groups": [gone]})
        page, panel, workflow = shown(open_page, client, node)
        expect(panel.get_by_text(f"{gone} · Deleted, or not visible to you")).to_be_visible()
        panel.get_by_role("button", name=f"Remove {gone}").click()
        assert "approvers" not in data_of(page, client, workflow)
        people = panel.get_by_role("combobox", name="People")
        people.fill("clarke")
        expect(panel.get_by_role("option", name="Joan Clarke")).to_be_visible()  # people are read
        people.press("Enter")
        people.fill("not an address")
        expect(panel.get_by_text("Nothing matches")).to_be_visible()
        people.fill("Boss@else.test")
        panel.get_by_role("option", name="Use boss@else.test").click()
        people.press("Escape")
        groups = panel.get_by_role("combobox", name="Groups")
        groups.click()
        expect(panel.get_by_role("option", name="Everyone in the organization")).to_be_visible()
        panel.get_by_role("option", name="Treasury").click()
        groups.press("Escape")
        check_accessibility(page)
        wanted = {"emails": ["joan@acme.test", "boss@else.test"], "groups": [group]}
        assert data_of(page, client, workflow)["approvers"] == wanted
        page.reload()
        page.locator(".react-flow__node[data-id=ask]").click()
        expect(panel.get_by_text("Joan Clarke · joan@acme.test")).to_be_visible()
        for name in ("Joan Clarke", "boss@else.test", "Treasury"):
            panel.get_by_role("button", name=f"Remove {name}").click()
        assert "approvers" not in data_of(page, client, workflow)


def test_an_address_that_is_typed_is_not_lost(open_page: Open, server: Server) -> None:
    """As in a plain field, leaving it is enough."""
    with server.client() as client:
        page, panel, workflow = shown(open_page, client, demo.node("ask", "humanApproval", message="Pay?"))
        panel.get_by_role("combobox", name="People").fill("boss@else.test")
        panel.get_by_label("Label").click()
        expect(panel.get_by_role("button", name="Remove boss@else.test")).to_be_visible()
        panel.get_by_role("combobox", name="Groups").fill("everyone in the organization")
        expect(panel.get_by_role("option", name="Everyone in the organization")).to_be_visible()  # they are read
        panel.get_by_label("Label").click()
        expect(panel.get_by_role("button", name="Remove Everyone in the organization")).to_be_visible()
        assert data_of(page, client, workflow)["approvers"] == {"emails": ["boss@else.test"], "groups": [ORG]}


def test_parameters_of_tools_refer_by_name(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A workflow and a connection are chosen; an expression can be given, and a choice again."""
    with server.client() as client:
        config = {"apiKey": "k", "header": "X-Key"}
        connection = made(
            client, "connections", name="Ledger of refunds", provider="refunds", kind="api_key", config=config
        )
        node = demo.node("fetch", "action", toolId="core.http", params={"url": "https://x.test"})
        page, panel, workflow = shown(open_page, client, node)
        field = panel.get_by_role("combobox", name="Connection")
        field.fill("ledger of")
        expect(panel.get_by_role("option", name="Ledger of refunds")).to_be_visible()  # they are read
        field.press("Enter")
        assert data_of(page, client, workflow)["params"]["connection"] == connection["id"]
        node = demo.node("call", "action", toolId="core.workflow", params={"workflowId": int(ids["greet_workflow"])})
        page, panel, workflow = shown(open_page, client, node)
        field = panel.get_by_role("combobox", name="Workflow")
        expect(field).to_have_value("Greet")
        panel.get_by_role("button", name="Enter an expression").first.click()
        panel.get_by_role("textbox", name="Workflow").fill("{{ input.which }}")
        assert data_of(page, client, workflow)["params"]["workflowId"] == "{{ input.which }}"
        panel.get_by_role("button", name="Choose from the list").click()
        field.fill("refund")
        panel.get_by_role("option", name="Refund").first.click()
        assert isinstance(data_of(page, client, workflow)["params"]["workflowId"], int)


def test_problems_have_the_words_of_the_page(open_page: Open, server: Server) -> None:
    """A problem names a field as its label does, and is shown once; the node it is at needs no second name."""
    with server.client() as client:
        page, panel, _ = shown(open_page, client, demo.node("write", "agent"))
        expect(panel.get_by_text("Without a skill, a message or instructions are required")).to_be_visible()
        page.get_by_role("button", name="1 problem", exact=True).click()
        problems = page.get_by_role("list", name="Problems")
        expect(problems.get_by_text("Without a skill, a message or instructions are required")).to_be_visible()
        expect(page.get_by_text("agent_id")).to_have_count(0)
        expect(page.get_by_text("node write")).to_have_count(0)
        _, panel, _ = shown(
            open_page, client, demo.node("large", "condition", branches=[{"handle": "yes", "when": "true"}])
        )
        expect(panel.get_by_text("Nothing follows if no branch applies")).to_have_count(1)
        expect(panel.get_by_text("`")).to_have_count(0)


def test_own_approval_is_shown_as_it_is(open_page: Open, server: Server) -> None:
    """It is allowed unless the workflow says otherwise: the box is checked, and one click forbids it."""
    with server.client() as client:
        page, panel, workflow = shown(open_page, client, demo.node("ask", "humanApproval", message="Pay?"))
        panel.get_by_text("More settings").click()
        box = panel.get_by_label("Own requests can be approved")
        expect(box).to_be_checked()
        box.uncheck()
        assert data_of(page, client, workflow)["allowSelfApproval"] is False
        panel.get_by_label("Fail").check()
        assert data_of(page, client, workflow)["onTimeout"] == "error"
        panel.get_by_role("radiogroup", name="After the time limit").get_by_label("None").check()
        assert "onTimeout" not in data_of(page, client, workflow)


def test_the_search_of_the_palette_is_not_cut(open_page: Open, server: Server) -> None:
    with server.client() as client:
        page, _, _ = shown(open_page, client, demo.node("ask", "humanApproval", message="Pay?"))
    search = page.get_by_role("searchbox", name="Search nodes, steps and tools")
    width = """(one) => {
      const pen = document.createElement('canvas').getContext('2d');
      pen.font = getComputedStyle(one).font;
      return pen.measureText(one.placeholder).width;
    }"""
    assert 0 < search.evaluate(width) < search.evaluate("(one) => one.clientWidth - 40")


def test_a_skill_gets_a_subordinate_that_no_first_page_has(open_page: Open, server: Server, skills: list[int]) -> None:
    """Of more than 50 skills only the newest could be chosen."""
    with server.client() as client:
        boss = int(made(client, "skills", name="Boss", instructions=["Lead."])["id"])
        page = open_page(f"/studio/skills/{boss}")
        page.get_by_role("tab", name="Settings").click()
        field = page.get_by_role("combobox", name="Subordinates")
        field.fill("clerk 00")
        expect(page.get_by_role("option", name="Clerk 00")).to_be_visible()  # skills are read
        field.press("Enter")
        field.press("Escape")
        page.get_by_role("button", name="Save").click()
        path = f"/api/v1/skills/{boss}?view=draft"
        wanted = [str(skills[0])]
        eventually(lambda: client.get(path).json()["variation"]["supervisionSubordinateIds"] == wanted)


def test_a_hook_is_for_a_workflow_by_name(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    page = open_page("/studio/hooks")
    page.get_by_role("button", name="New hook").click()
    page.get_by_label("URL").fill("https://hooks.invalid/refunds")
    page.get_by_label("Run failed").check()
    field = page.get_by_role("combobox", name="Workflow")
    field.fill("publish rel")
    expect(page.get_by_role("option", name="Publish release")).to_be_visible()  # workflows are read
    field.press("Enter")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("aside dl").get_by_text("Publish release")).to_be_visible()
    with server.client() as client:
        hook = next(one for one in client.get("/api/v1/hooks").json()["hooks"] if one["url"].endswith("/refunds"))
        assert hook["filter"]["workflowId"] == int(ids["plain_workflow"])
