"""Tools of MCP servers, against a real server: in nodes, agents, the catalog and deploys."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
from bench import Bench, act, agent, deployed_skill, eventually, graph, one, opened, paths, why
from played import Played, asks
from real_mcp import Office, office
from waiting import HANG

from wfcore.adapters.outbound import client, mcp_servers
from wfcore.adapters.tools.catalog import tool
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.errors import Invalid
from wfcore.domain.run.entries import Sent
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.tools import catalog
from wfcore.runtime.tools import mcp_tools as served_tools

pytestmark = pytest.mark.anyio

KEY = b"k" * 32
CANARY = "canary-77aa-token"


@attrs.define
class Place:
    """A bench whose organization is connected to a server."""

    bench: Bench
    server: Office
    connection: str

    def id(self, name: str = "add") -> str:
        return f"mcp.{self.connection}.{name}"

    def add(self, **more: Any) -> dict[str, Any]:
        return act(self.id(), a=1, b=2, more=more)

    async def status(self) -> tuple[str, str | None]:
        row = (await self.bench.core.connections.get(self.bench.me, self.connection)).to_wire()
        return row["status"], row["lastCheckedAt"]

    async def patch(self, **fields: Any) -> None:
        await self.bench.core.connections.patch(self.bench.me, self.connection, **fields)

    async def credentials(self, token: str) -> None:
        await self.patch(config={"headers": {"X-Token": token}})

    async def resumed(self, run: Any, decision: str) -> Any:
        return await self.bench.ended(await self.bench.core.runs.resume(self.bench.me, run.id, decision=decision))

    async def agent(self, **toolset: Any) -> dict[str, Any]:
        """A graph of one agent whose skill may use the server's `add`."""
        setting = {self.id(): {"enabled": True, **toolset}}
        return one(agent(agent_id=await deployed_skill(self.bench, toolset=setting), message="go"))


async def connected(bench: Bench, server: Office, name: str = "Office") -> str:
    config = {"url": server.url, "headers": {"X-Token": CANARY}}
    return (await bench.core.connections.create(bench.me, name=name, provider="o", kind="mcp", config=config)).id


def settings(*servers: Office) -> Settings:
    return Settings(http_allow=[f"127.0.0.1:{server.port}" for server in servers])


@tool(idempotent=True)
async def add(a: int) -> int:
    """The product's own."""
    return -a


@pytest.fixture
async def server() -> AsyncIterator[Office]:
    async with office(CANARY) as made:
        yield made


@pytest.fixture
async def place(database: str, server: Office, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    monkeypatch.setattr(mcp_servers, "SECONDS_TO_LIST", HANG)
    monkeypatch.setattr(client, "SECONDS_TO_CONNECT", HANG)
    models = {"default": Played()}
    async with opened(database, tools=[add], secrets=KEY, settings=settings(server), models=models) as bench:
        yield Place(bench, server, await connected(bench, server))


def plays(place: Place, *replies: Any) -> Played:
    """What the model says from now on."""
    model: Any = place.bench.core.ports.models["default"]
    model.__init__(*replies)
    return model


CALL = asks("Office_add", a=1, b=2)


class TestActions:
    """In action nodes, and as single actions."""

    async def test_a_node_calls_it(self, place: Place) -> None:
        """Its result is the node's output; the tool's failure message is the node's, for the error edge."""
        run = await place.bench.ran(one(place.add()))
        assert (run.status, run.output) == ("done", {"result": 3})
        failing = act(place.id("fail"), why="it is Sunday")
        assert why(await place.bench.ran(one(failing)))[0].endswith("it is Sunday")
        caught = graph("s>a a:error>b", a=failing, b=act("core.transform", value="caught"))
        assert (await place.bench.ran(caught)).output == "caught"

    async def test_a_single_action(self, place: Place) -> None:
        """It is checked against the server's schema before anything runs."""

        def action(tool_id: str, **params: Any) -> Any:
            return place.bench.core.runs.act(place.bench.me, action={"toolId": tool_id, "params": params})

        assert (await place.bench.ended(await action(place.id(), a=1, b=2))).output == {"result": 3}
        with pytest.raises(Invalid) as error:
            await action(place.id(), a="x")
        assert {path for path, _ in paths(error)} == {"action.params.a", "action.params.b"}
        for missing in (place.id("gone"), f"mcp.{place.bench.org}.add"):
            with pytest.raises(Invalid) as error:
                await action(missing)
            assert paths(error) == {("action.toolId", "reference")}
        await place.patch(status="disabled")
        assert (await place.bench.ended(await action(place.id(), a="x"))).status == "interrupted"

    async def test_invalid_arguments_are_not_sent(self, place: Place) -> None:
        """The server gets no call."""
        assert "`params.a`" in why(await place.bench.ran(one(act(place.id(), a="{{ 'x' }}", b=2))))[0]
        assert place.server.calls == []

    async def test_a_call_is_made_once(self, database: str, server: Office) -> None:
        """When the worker ends during the call, the outcome is unknown: the call is not repeated."""
        async with opened(database, secrets=KEY, settings=settings(server)) as bench:
            place = Place(bench, server, await connected(bench, server))
            run = await bench.started(one(act(place.id("hold"))))
            await server.events["began"].wait()
        async with opened(database, org=bench.org, secrets=KEY, settings=settings(server)) as again:
            assert why(await again.ended(run.id))[1] == "unknown_outcome"
        assert server.calls == [("hold", None)]

    @pytest.mark.parametrize("many", [False, True])
    async def test_an_approval_binds_the_definition(self, place: Place, many: bool) -> None:
        """A definition that changed after the approval was requested makes it void, for every call: another one is
        requested, repeatedly; then the stored call is made.
        """
        each: Any = {"forEach": "[1, 2]", "maxConcurrency": 1} if many else {}
        asking = act(place.id(), more={"requiresApproval": True, **each}, a="{{ item }}" if many else 1, b=2)
        run = await place.bench.ran(one(asking))
        seen = list[str]()
        for number in range(3):
            (asked,) = run.to_wire()["interrupts"]
            assert (asked["type"], asked["toolId"], asked["toolName"]) == ("approval", place.id(), "Office add")
            assert "`Office add`" in asked["message"]
            assert ("has changed" in asked["message"]) is (number > 0)
            whole = [{"a": 1, "b": 2}, {"a": 2, "b": 2}] if many and not number else {"a": 1, "b": 2}
            assert asked["arguments"] == whole
            seen.append(asked["interruptId"])
            assert place.server.calls == []
            if number < 2:
                place.server.redefine(f"Deletes {number} files.")
                run = await place.resumed(run, "approve")
        run = await place.resumed(run, "approve")
        if many:
            (asked,) = run.to_wire()["interrupts"]
            assert asked["arguments"] == {"a": 2, "b": 2}
            run = await place.resumed(run, "approve")
        assert run.output == ([{"result": 3}, {"result": 4}] if many else {"result": 3})
        assert place.server.calls == [("add", (1, 2)), ("add", (2, 2))][: 1 + many]
        assert len(set(seen)) == 3

    async def test_an_unchanged_definition_needs_one_approval(self, place: Place) -> None:
        """The call is made as it was shown. Reading the definition is no attempt, and needs no announcement."""
        run = await place.bench.ran(one(act(place.id(), more={"requiresApproval": True}, a=1, b=2)))
        entries = await place.bench.core.ports.journal.read(run.row.execution)
        assert not any(isinstance(entry, Sent) for entry in entries)
        run = await place.resumed(run, "approve")
        rows = await place.bench.core.audit.page(place.bench.person("root", role="admin"))
        (decided,) = next(row.row.details["decisions"] for row in rows if row.row.action == "run.resume")
        assert (decided["toolId"], decided["toolName"]) == (place.id(), "Office add")
        assert (run.output, place.server.calls) == ({"result": 3}, [("add", (1, 2))])
        graph_of = await place.bench.core.runs.graph(place.bench.me, run.id)
        assert graph_of.to_wire()["nodes"][1]["visits"][0]["attempts"] == 1

    async def test_a_denied_action_calls_nothing(self, place: Place) -> None:
        """Neither at first nor after a change."""
        asking = act(place.id(), more={"requiresApproval": True}, a=1, b=2)
        run = await place.resumed(await place.bench.ran(one(asking)), "deny")
        assert run.status == "done"
        run = await place.bench.ran(one(asking))
        place.server.redefine("Deletes everything.")
        run = await place.resumed(await place.resumed(run, "approve"), "deny")
        assert run.status == "done"
        assert place.server.calls == []

    async def test_a_tool_that_is_gone_is_not_requested_for_approval(self, place: Place) -> None:
        """The node fails before anybody is asked; its error edge is taken."""
        asking = act(place.id("fail"), more={"requiresApproval": True}, why="no")
        number = await place.bench.deployed(graph("s>a a:error>b", a=asking, b=act("core.transform", value="caught")))
        place.server.mcp.remove_tool("fail")
        await place.patch(config={"url": f"{place.server.url}?again", "headers": {"X-Token": CANARY}})
        run = await place.bench.ended(await place.bench.core.runs.start(place.bench.me, workflow=number, input={}))
        assert run.output == "caught"

    async def test_a_retry_after_a_failed_look_up_asks_first(self, place: Place) -> None:
        """A run whose definition could not be read has no approval yet: the retry requests it before any call."""
        asking = act(place.id(), more={"requiresApproval": True}, a=1, b=2)
        number = await place.bench.deployed(one(asking))
        await place.patch(config={"url": "http://127.0.0.1:1/mcp", "headers": {"X-Token": CANARY}})
        failed = await place.bench.ended(await place.bench.core.runs.start(place.bench.me, workflow=number, input={}))
        assert failed.status == "error"
        await place.patch(config={"url": place.server.url, "headers": {"X-Token": CANARY}})
        run = await place.bench.ended(await place.bench.core.runs.retry(place.bench.me, failed.id))
        assert [asked["type"] for asked in run.to_wire()["interrupts"]] == ["approval"]
        assert place.server.calls == []
        run = await place.resumed(run, "approve")
        assert (run.output, place.server.calls) == ({"result": 3}, [("add", (1, 2))])

    async def test_a_cancelled_run_ends_its_call(self, place: Place) -> None:
        """The server gets a cancellation."""
        run = await place.bench.started(one(act(place.id("hold"))))
        await place.server.events["began"].wait()
        await place.bench.core.runs.cancel(place.bench.me, run.id)
        await place.server.events["cancelled"].wait()
        assert (await place.bench.ended(run.id)).status == "cancelled"


class TestAgents:
    """In the toolsets of skills."""

    async def test_it_is_offered_and_called(self, place: Place) -> None:
        """Its name begins with the connection's, its description is the server's; names are unique."""
        skill = await deployed_skill(place.bench, toolset={place.id(): {"enabled": True}, "add": {"enabled": True}})
        model = plays(place, CALL, "three")
        run = await place.bench.ran(one(agent(agent_id=skill, message="go")))
        assert run.output == "three"
        assert [(one.name, one.description) for one in model.requests[0].tools] == [
            ("add", "The product's own."), ("Office_add", "Adds."),
        ]  # fmt: skip
        assert model.tool_results()[0]["content"] == '{"result":3}'
        view = await place.bench.core.contexts.compose(place.bench.me, skill)
        assert [one.get("connection") for one in view.context["tools"]] == [None, place.connection]

    async def test_the_model_gets_the_failure_message(self, place: Place) -> None:
        """The model gets the tool's own message and continues."""
        skill = await deployed_skill(place.bench, toolset={place.id("fail"): {"enabled": True}})
        model = plays(place, asks("Office_fail", why="it is Sunday"), "later then")
        assert (await place.bench.ran(one(agent(agent_id=skill, message="go")))).output == "later then"
        assert "it is Sunday" in model.tool_results()[0]["content"]

    async def test_a_missing_tool_is_left_out(self, place: Place) -> None:
        """With the reason; so are tools of a server that does not respond, and the agent works without them."""
        both = {place.id("fail"): {"enabled": True}, place.id(): {"enabled": True}}
        skill = await deployed_skill(place.bench, toolset=both)
        place.server.mcp.remove_tool("fail")
        await place.patch(config={"url": f"{place.server.url}?again", "headers": {"X-Token": CANARY}})
        left = (await place.bench.core.contexts.compose(place.bench.me, skill)).context["leftOut"]
        assert [(one["ref"], "no tool `fail`" in one["why"]) for one in left] == [(place.id("fail"), True)]
        await place.patch(config={"url": "http://127.0.0.1:1/mcp", "headers": {"X-Token": CANARY}})
        plays(place, "alone")
        assert (await place.bench.ran(one(agent(agent_id=skill, message="go")))).output == "alone"

    async def test_an_approval_binds_the_definition(self, place: Place) -> None:
        """A definition that changed during the approval opens a new one, repeatedly; then the stored call is made."""
        plays(place, CALL, "three")
        run = await place.bench.ran(await place.agent(requiresApproval=True))
        seen = set()
        for number in range(2):
            (asked,) = run.to_wire()["interrupts"]
            assert ("has changed" in asked["message"]) is (number > 0)
            assert (asked["type"], asked["arguments"], asked["toolCallId"]) == ("approval", {"a": 1, "b": 2}, "c1")
            assert (asked["toolName"], "`Office add`" in asked["message"]) == ("Office add", True)
            seen.add(asked["interruptId"])
            place.server.redefine(f"Deletes {number} files.")
            run = await place.resumed(run, "approve")
        assert place.server.calls == []
        assert len(seen) == 2
        run = await place.resumed(run, "approve")
        assert (run.output, place.server.calls) == ("three", [("add", (1, 2))])

    async def test_a_changed_tool_can_be_denied(self, place: Place) -> None:
        """The model is informed, and nothing is called."""
        model = plays(place, CALL, "well")
        run = await place.bench.ran(await place.agent(requiresApproval=True))
        place.server.redefine("Deletes everything.")
        run = await place.resumed(await place.resumed(run, "approve"), "deny")
        assert (run.output, place.server.calls) == ("well", [])
        assert "denied" in model.tool_results()[0]["content"]


class TestConnections:
    """A `connect` interrupt names what is missing; the connection records its use."""

    @pytest.mark.parametrize("by", ["action", "agent"])
    async def test_refused_credentials(self, place: Place, by: str) -> None:
        """`connected` continues only when the credentials are valid; the status of the connection follows."""
        place.server.token = "another"
        model = plays(place, asks("mcp_add", a=1, b=2), "three")
        run = await place.bench.ran(one(place.add()) if by == "action" else await place.agent())
        for _ in range(2):
            (asked,) = run.to_wire()["interrupts"]
            assert (asked["type"], asked["connectionId"], asked["provider"]) == ("connect", place.connection, "o")
            await place.patch(name="Office 2")
            assert (await place.status())[0] == "error"
            run = await place.resumed(run, "connected")
        await place.credentials("another")
        assert (await place.status())[0] == "active"
        run = await place.resumed(run, "connected")
        assert (run.status, run.output) == ("done", {"result": 3} if by == "action" else "three")
        assert by == "action" or model.tool_results()[0]["content"] == '{"result":3}'

    @pytest.mark.parametrize("fault", ["disabled", "removed"])
    async def test_no_connection(self, place: Place, fault: str) -> None:
        """`cancelled` fails the action's node, by its error edge; the model of an agent is informed."""
        structure = graph("s>a a:error>b", a=place.add(), b=act("core.transform", value="caught"))
        flow, talk = await place.bench.deployed(structure), await place.bench.deployed(await place.agent())
        if fault == "disabled":
            await place.patch(status="disabled")
        else:
            await place.bench.core.connections.delete(place.bench.me, place.connection)
        model = plays(place, asks("mcp_add"), "without")
        for number, output in ((flow, "caught"), (talk, "without")):
            run = await place.bench.ended(await place.bench.core.runs.start(place.bench.me, workflow=number, input={}))
            assert [one["type"] for one in run.to_wire()["interrupts"]] == ["connect"]
            assert (await place.resumed(run, "cancelled")).output == output
        assert "refused by a person" in model.tool_results()[0]["content"]
        assert place.server.calls == []

    async def test_use_is_recorded(self, place: Place) -> None:
        """`lastCheckedAt` is the time of use, to the minute; a failure of the tool does not change the status."""
        assert await place.status() == ("active", None)
        await place.bench.ran(one(place.add()))
        status, first = await place.status()
        assert (status, first is None) == ("active", False)
        place.bench.clock.advance(59)
        await place.bench.ran(one(place.add()))
        assert await place.status() == ("active", first)
        place.bench.clock.advance(1)
        await place.bench.ran(one(act(place.id("fail"), why="no")))
        assert await place.status() == ("active", first)
        await place.bench.ran(one(place.add()))
        assert (await place.status())[1] > first

    async def test_use_overwrites_nothing(self, place: Place) -> None:
        """A connection that changes during a call keeps the change."""
        run = await place.bench.started(one(act(place.id("hold"))))
        await place.server.events["began"].wait()
        await place.credentials("another")
        place.bench.clock.advance(60)
        place.server.events["let go"].set()
        assert (await place.bench.ended(run.id)).status == "done"
        place.server.token = "another"
        assert (await place.bench.ran(one(place.add()))).status == "done"

    async def test_credentials_are_never_shown(self, place: Place, caplog: pytest.LogCaptureFixture) -> None:
        """No record, event, context, catalog or log has them, whatever the server repeats."""
        plays(place, asks("Office_fail", why=f"bad token {CANARY}"), "sorry")
        skill = await deployed_skill(place.bench, toolset={place.id("fail"): {"enabled": True}})
        with caplog.at_level(logging.DEBUG, "wfcore"):
            runs = [await place.bench.ran(one(agent(agent_id=skill, message="go")))]
            place.server.token = "another"
            runs.append(await place.bench.ran(one(place.add())))
        records = [run.to_wire() for run in runs]
        events = [event.to_wire() for run in runs for event in await place.bench.events(run.id)]
        context = await place.bench.core.contexts.compose(place.bench.me, skill)
        page = await place.bench.core.tools.listed(place.bench.me)
        shown = [*records, context.to_wire(), *(one.to_wire() for one in (*page.tools, *page.servers))]
        calls = [event for event in events if event["kind"] == "tool_call"]
        assert CANARY in dumps(calls)  # the model said it, not the connection
        assert CANARY not in dumps([shown, [event for event in events if event not in calls]]) + caplog.text

    async def test_a_listing_shows_no_credentials(self, place: Place) -> None:
        """A server that repeats them where it describes its tools: not in the catalog, nor in contexts and runs."""
        place.server.described(f"Signed in with {CANARY}.")
        skill = await deployed_skill(place.bench, toolset={place.id(): {"enabled": True}})
        model = plays(place, "done")
        run = await place.bench.ran(one(agent(agent_id=skill, message="go")))
        context = await place.bench.core.contexts.compose(place.bench.me, skill)
        page = await place.bench.core.tools.listed(place.bench.me)
        (found,) = [one for one in page.tools if one.to_wire()["id"] == place.id()]
        assert found.to_wire()["description"] == "Signed in with ***."
        (listed,) = [one.to_wire() for one in page.servers]
        assert "odd" in dumps(listed["leftOut"])
        events = [event.to_wire() for event in await place.bench.events(run.id)]
        shown = dumps([listed, context.to_wire(), run.to_wire(), events, *(one.to_wire() for one in page.tools)])
        assert CANARY not in shown + repr(model.requests)

    async def test_a_tool_whose_name_or_schema_is_a_credential_is_left_out(self, place: Place) -> None:
        """It could not be called under another one. The other tools stay, and nothing shows it."""
        place.server.named(CANARY)
        page = await place.bench.core.tools.listed(place.bench.me)
        (listed,) = [one.to_wire() for one in page.servers]
        reason = "its name or a schema contains a secret of the connection"
        assert listed["leftOut"] == {"get_***": reason, "choose": reason}
        tools = [one.to_wire() for one in page.tools]
        assert place.id() in {one["id"] for one in tools}
        assert CANARY not in dumps([listed, tools])

    async def test_tools_of_too_many_servers(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first servers are queried; tools of others are left out of a context, and a warning before a deploy."""
        monkeypatch.setattr(served_tools, "MOST_SERVERS", 1)
        other = await connected(place.bench, place.server, "Other")
        tools = [place.id(), f"mcp.{other}.add"]
        skill = await deployed_skill(place.bench, toolset={tool_id: {"enabled": True} for tool_id in tools})
        context = (await place.bench.core.contexts.compose(place.bench.me, skill)).context
        assert ([one["toolId"] for one in context["tools"]], [one["ref"] for one in context["leftOut"]]) == (
            tools[:1], tools[1:],
        )  # fmt: skip


class TestCatalog:
    """The tools of the organization's servers, and their check before a deploy."""

    async def test_it_has_the_servers_tools(self, place: Place) -> None:
        """By id among all others, with their schemas; another organization sees none of them."""
        await place.bench.core.connections.create(
            place.bench.me, name="Mail", provider="mail", kind="api_key", config={"apiKey": "k"}
        )
        page = await place.bench.core.tools.listed(place.bench.me, limit=100)
        ids = [view.id for view in page.tools]
        assert ids == sorted(ids)
        view = page.tools[ids.index(place.id())].to_wire()
        assert (view["name"], view["connectionId"], view["provider"]) == ("Office add", place.connection, "o")
        assert view["parameters"]["required"] == ["a", "b"]
        (listed,) = [server.to_wire() for server in page.servers]
        assert listed == {"connectionId": place.connection, "name": "Office", "problem": None, "leftOut": {}}
        after = await place.bench.core.tools.page(place.bench.me, limit=1, after=place.id())
        assert [view.id for view in after] == [place.id("fail")]
        elsewhere = (await place.bench.core.directory.create_organization("Other")).uuid
        stranger = place.bench.core.principal(elsewhere, "me")
        theirs = await place.bench.core.tools.listed(stranger, limit=100)
        assert (theirs.servers, [view.id for view in theirs.tools if view.id.startswith("mcp.")]) == ([], [])

    async def test_a_slow_server_does_not_delay_the_catalog(
        self, database: str, server: Office, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is listed as not responding, with the tools of all others; its late response is used the next time."""
        monkeypatch.setattr(catalog, "SERVER_TIMEOUT", 0.2)
        async with office(CANARY) as slow, opened(database, secrets=KEY, settings=settings(server, slow)) as bench:
            slow.silent = True
            quick, late = await connected(bench, server), await connected(bench, slow, "Slow")
            page = await bench.core.tools.listed(bench.me, limit=100)
            while f"mcp.{quick}.add" not in {view.id for view in page.tools}:  # a busy machine is slow too
                page = await bench.core.tools.listed(bench.me, limit=100)
            problems = {server.connection.id: server.to_wire()["problem"] for server in page.servers}
            assert problems[quick] is None
            assert "did not respond" in problems[late]
            slow.silent = False
            slow.events["spoken"].set()

            async def is_there() -> bool:
                return f"mcp.{late}.add" in {view.id for view in await bench.core.tools.page(bench.me, limit=100)}

            await eventually(is_there)

    async def test_before_a_deploy(self, place: Place) -> None:
        """A tool that its server lacks, or of another organization's connection, cannot be deployed."""
        elsewhere = (await place.bench.core.directory.create_organization("Other")).uuid
        stranger = place.bench.core.principal(elsewhere, "me")
        for me, tool_id in (
            (place.bench.me, place.id("gone")), (place.bench.me, "mcp.x.add"), (place.bench.me, "mcp."),
            (stranger, place.id()),
        ):  # fmt: skip
            made = await place.bench.core.workflows.create(me, name="f", structure=one(act(tool_id)))
            with pytest.raises(Invalid) as error:
                await place.bench.core.workflows.deploy(me, made.id)
            assert paths(error) == {("workflowStructure.nodes[1].data.toolId", "reference")}

    async def test_a_silent_server_does_not_prevent_a_deploy(self, place: Place) -> None:
        """A tool that cannot be looked up now is a warning, since it can exist when the run needs it."""
        await place.patch(status="disabled")
        made = await place.bench.core.workflows.create(place.bench.me, name="f", structure=one(place.add()))
        (issue,) = await place.bench.core.workflows.validate_saved(place.bench.me, made.id)
        assert (issue.path, issue.severity) == ("workflowStructure.nodes[1].data.toolId", "warning")
        assert "disabled" in issue.message
        assert (await place.bench.core.workflows.deploy(place.bench.me, made.id)).resource.status == "active"
