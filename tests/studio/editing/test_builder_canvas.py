"""What the canvases of the builder and of a run show: nodes stay in reach beside the details of one."""

import itertools
from typing import Any

import demo
from playwright.sync_api import Locator, Page, expect
from servers import Server, eventually
from test_builder import DRAWN, create, middle, node, opened
from watching import Open

LETTERS = ["a", "b", "c", "d", "e"]
CHAIN = demo.graph([demo.transform(each, 1) for each in LETTERS], *zip(["start", *LETTERS], LETTERS, strict=False))
SIDES = (("x", "width"), ("y", "height"))


def is_in_sight(page: Page, name: str) -> bool:
    """Whether no edge is out of the canvas, but for a part of a pixel."""
    canvas, box = page.locator(".react-flow").bounding_box(), node(page, name).bounding_box()
    ends = [(box[at] - canvas[at], box[at] + box[size] - canvas[at] - canvas[size]) for at, size in SIDES]  # type: ignore[index]
    return all(begin > -1 and end < 1 for begin, end in ends)


def shown(page: Page) -> str:
    found: str = page.locator(".react-flow__viewport").evaluate("(one) => one.style.transform")
    return found


def click(page: Page, name: str) -> None:
    """Where it is: by the locator, the browser would scroll to it first."""

    def is_still() -> bool:
        before = shown(page)
        page.evaluate(DRAWN)
        return shown(page) == before

    eventually(is_still)  # what has changed can still move it
    page.mouse.click(*middle(node(page, name)))
    panel = page.get_by_role("complementary", name="Node details")
    expect(panel.get_by_role("heading", name=name, exact=True)).to_be_visible()


def opened_run(open_page: Open, server: Server, **context: Any) -> Page:
    with server.client() as client:
        run_id = demo.run(client, demo.workflow(client, "Chain", CHAIN))
        demo.settle(client, run_id)
    page = open_page(f"/studio/runs/{run_id}", **context)
    expect(node(page, "e")).to_be_visible()
    return page


def test_nodes_are_in_reach_beside_the_details_of_one(open_page: Open, server: Server) -> None:
    """All that were in sight stay so, and the canvas is as before when the details are closed."""
    with server.client() as client:
        workflow = create(client, CHAIN)
    sizes = {"width": 1280, "height": 800}, {"width": 1000, "height": 480}
    for size, is_run in itertools.product(sizes, (False, True)):
        page = opened_run(open_page, server, viewport=size) if is_run else opened(open_page, workflow, viewport=size)
        before = shown(page)
        click(page, "b")
        eventually(lambda page=page: all(is_in_sight(page, each) for each in ["start", *LETTERS]))  # type: ignore[misc]
        click(page, "e")
        click(page, "a")
        page.get_by_role("button", name="Close", exact=True).click()
        eventually(lambda page=page, before=before: shown(page) == before)  # type: ignore[misc]


def test_neighbours_are_in_reach_in_a_part_of_a_graph(open_page: Open, server: Server) -> None:
    """At the scale that the user has chosen; what the user has moved stays there when the details are closed."""
    with server.client() as client:
        workflow = create(client, CHAIN)
    for page in (opened(open_page, workflow), opened_run(open_page, server)):
        check_part(page)


def check_part(page: Page) -> None:
    for _ in range(2):
        page.get_by_role("button", name="Zoom in").click()
    page.evaluate(DRAWN)
    scale = shown(page).split("scale")[1]
    click(page, "b")
    for name in ("c", "d", "e"):
        eventually(lambda name=name: is_in_sight(page, name))  # type: ignore[misc]
        click(page, name)
    assert shown(page).split("scale")[1] == scale
    page.get_by_role("button", name="Zoom out").click()
    page.evaluate(DRAWN)
    moved = shown(page)
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.locator(".side:visible")).to_have_count(0)
    page.evaluate(DRAWN)
    assert shown(page) == moved


def test_a_node_that_is_dragged_stays_below_the_pointer(open_page: Open, server: Server) -> None:
    """Its details are opened by the drag; the graph moves when it is dropped."""
    with server.client() as client:
        page = opened(open_page, create(client, CHAIN))
    x, y = middle(node(page, "e"))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y + 90, steps=4)
    expect(page.locator(".nodeeditor h2")).to_have_text("e")
    page.evaluate(DRAWN)
    scale = shown(page).split("scale")[1]
    page.mouse.move(x - 80, y + 120, steps=4)
    page.evaluate(DRAWN)
    assert shown(page).split("scale")[1] == scale
    page.mouse.up()
    eventually(lambda: all(is_in_sight(page, each) for each in ["start", *LETTERS]))


def test_what_the_browser_scrolls_to_stays_in_sight(open_page: Open, server: Server) -> None:
    """The canvas moves its graph instead of being scrolled, also after Tab to a node that is out of sight."""
    with server.client() as client:
        page = opened(open_page, create(client, CHAIN))
    for _ in range(4):
        page.get_by_role("button", name="Zoom in").click()
    page.evaluate(DRAWN)
    assert not is_in_sight(page, "e")
    node(page, "e").evaluate("(one) => one.scrollIntoView({ inline: 'nearest' })")
    page.evaluate(DRAWN)
    assert is_in_sight(page, "e")
    scrolled: Any = page.locator(".react-flow").evaluate("(one) => [one.scrollLeft, one.scrollTop]")
    assert scrolled == [0, 0]
    click(page, "e")
    page.keyboard.press("Escape")
    for name in ("d", "c", "b", "a"):
        page.keyboard.press("Shift+Tab")
        expect(node(page, name)).to_be_focused()
        eventually(lambda name=name: is_in_sight(page, name))  # type: ignore[misc]


def test_a_jump_shows_a_node_at_a_scale_at_which_it_can_be_read(open_page: Open, server: Server) -> None:
    """From a problem, from the search for a node by its name or id, and from what failed on the page of a run."""
    many = [f"n{number}" for number in range(40)]
    wrong = demo.node("ask", "humanApproval", message="Go?", timeoutSeconds=-5, label="Ask the boss")
    chain = zip(["start", *many], [*many, "ask"], strict=True)
    with server.client() as client:
        workflow = create(client, demo.graph([*(demo.transform(each, 1) for each in many), wrong], *chain))
        fails = demo.node("ask", "action", toolId="core.transform", params={"value": "{{ 1 / 0 }}"})
        chain = zip(["start", *many], [*many, "ask"], strict=True)
        graph = demo.graph([*(demo.transform(each, 1) for each in many), fails], *chain)
        run_id = demo.run(client, demo.workflow(client, "Long chain", graph))
        demo.settle(client, run_id)

    def jump(page: Page, *way: Locator) -> None:
        node(page, "start").wait_for()
        page.evaluate(DRAWN)
        assert scale(page) < 0.5
        for one in way:
            one.click()
        eventually(lambda: scale(page) >= 0.75 and is_in_sight(page, "ask"))

    page = opened(open_page, workflow)
    problems = page.get_by_role("list", name="Problems")
    jump(
        page, page.locator(".head").get_by_role("button", name="1 problem"), problems.get_by_role("button", name="Ask")
    )
    for words in ("ask boss", "ASK"):
        page = opened(open_page, workflow)
        page.get_by_label("Search nodes, steps and tools").fill(words)
        found = page.get_by_role("region", name="In this graph").get_by_role("button")
        expect(found).to_have_text(["Ask the boss"])
        jump(page, found)
        expect(node(page, "ask")).to_be_focused()
    page = open_page(f"/studio/runs/{run_id}")
    jump(page, page.locator(".notice").get_by_role("button", name="ask"))


def scale(page: Page) -> float:
    return float(shown(page).split("scale(")[1].rstrip(")"))


RETRIED = demo.graph(
    [
        demo.transform("attempt", 1),
        demo.node("good", "condition", branches=[{"handle": "yes", "when": "false"}]),
        demo.node("ask", "humanApproval", message="Again?"),
        demo.transform("publish", 1),
    ],
    ("start", "attempt"), ("attempt", "good"), ("good", "ask", "else"), ("good", "publish", "yes"),
    ("ask", "publish", "approved"), ("ask", "attempt", "denied"),
)  # fmt: skip

BEHIND = """() => {
  const find = (root, selector) => [...root.querySelectorAll(selector)].concat(
    [...root.querySelectorAll('*')].flatMap((one) => (one.shadowRoot ? find(one.shadowRoot, selector) : [])));
  const nodes = find(document, '.react-flow__node').map((one) => [one.dataset.id, one.getBoundingClientRect()]);
  return find(document, '.react-flow__edge-path').flatMap((path) => {
    const at = Array.from({ length: 101 }, (_, part) => path.getPointAtLength((path.getTotalLength() * part) / 100));
    const points = at.map((point) => point.matrixTransform(path.getScreenCTM()));
    const within = (one, from, to) => one > from + 3 && one < to - 3;
    const meets = ([, { left, right, top, bottom }]) =>
      points.some(({ x, y }) => within(x, left, right) && within(y, top, bottom));
    return nodes.filter(meets).map(([id]) => `${path.id} behind ${id}`);
  });
}"""
"""The edges that run behind a node."""


def test_edges_pass_the_nodes_between_their_ends(open_page: Open, server: Server) -> None:
    """A branch that skips nodes, and one that leads back, in the builder and in a run."""
    with server.client() as client:
        workflow = create(client, RETRIED)
        run_id = demo.run(client, demo.workflow(client, "Retried", RETRIED))
        demo.settle(client, run_id)
    for page in opened(open_page, workflow), open_page(f"/studio/runs/{run_id}"):
        expect(node(page, "publish")).to_be_visible()
        expect(page.locator(".react-flow__edge-path")).to_have_count(6)
        eventually(lambda page=page: page.evaluate(BEHIND) == [])  # type: ignore[misc]
