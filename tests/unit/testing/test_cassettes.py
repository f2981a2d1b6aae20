"""Cassettes: a recorded test plays without the model and the tools, and sees the same."""

import json
import os
import re
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import attrs
import pytest

import wfcore
from wfcore.domain.kernel.json_readers import as_object
from wfcore.ports.providers import (
    Delta,
    Finished,
    ModelError,
    ModelRequest,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
    ToolDefinition,
)
from wfcore.testing import Cassette, NotRecorded, ScriptedModel

pytestmark = pytest.mark.anyio

CALL = wfcore.ToolCall("key", 1, "org", "run", "user")
SCRIPT = [
    {"content": "I look.", "toolCalls": [{"name": "orders_get", "args": {"id": 7, "apiKey": "k-secret"}}]},
    "It was sent with sk-live-0123456789abcdef on Monday.",
]


class Orders:
    """A tool that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    @wfcore.tool(id="orders_get", blocking=False)
    async def get(self, id: int, apiKey: str) -> dict[str, Any]:  # noqa: N803
        """Get an order."""
        self.calls += 1
        return {"id": id, "token": apiKey, "sent": True}


def asking(text: str, **more: Any) -> ModelRequest:
    return ModelRequest([{"type": "human", "content": text, "id": "m-1"}], key="k", **more)


async def parts(model: wfcore.ModelProvider, request: ModelRequest) -> list[Delta]:
    return [part async for part in model.stream(request)]


def not_recorded(why: str) -> AbstractContextManager[Any]:
    return pytest.raises(NotRecorded, match=why)


async def chat(cassette: Cassette, model: Any, orders: Orders) -> Any:
    """The output of an agent that calls a tool."""
    tools = cassette.tools([orders.get])
    async with wfcore.open("sqlite://", models={"default": cassette.model(model)}, tools=tools) as core:
        org = (await core.directory.create_organization("Acme")).uuid
        me = core.principal(org, "ann", email="ann@acme.example")
        toolset = {"orders_get": {"enabled": True, "requiresApproval": False}}
        skill = await core.skills.create(me, name="Support", instructions=["Be kind."], toolset=toolset)
        await core.skills.deploy(me, skill.id)
        run = await core.runs.chat(me, skill.id, message="Where is order 7?")
        return await core.runs.result(run)


async def test_a_conversation_is_recorded_once(tmp_path: Path) -> None:
    """The second time neither the model nor the tool is called, with the same output. The file has no secret."""
    path, orders, model = tmp_path / "deep" / "chat.json", Orders(), ScriptedModel(SCRIPT)
    with Cassette(path) as cassette:
        await chat(cassette, model, orders)
    text = path.read_text()
    assert (orders.calls, len(model.requests)) == (1, 2)
    assert "secret" not in text.replace("clientSecret", "")
    assert "sk-live" not in text
    assert ["tool" in call for call in json.loads(text)["calls"]] == [False, True, False]
    for _ in range(2):
        with Cassette(path, record="never") as cassette:
            again = await chat(cassette, lambda: pytest.fail("the model is made"), orders)
        assert again == "It was sent with *** on Monday."
    assert (orders.calls, len(model.requests), path.read_text()) == (1, 2, text)


async def test_a_changed_request_is_refused(tmp_path: Path) -> None:
    """The error names the first difference; the call that was not made is named at the end."""
    path = tmp_path / "model.json"
    with Cassette(path) as cassette:
        await parts(cassette.model(ScriptedModel("yes")), asking("one", settings={"effort": "low"}))
    with (
        not_recorded(r"`messages\[0\]\.content` is \"two\", recorded \"one\".*not made: .*`one`"),
        Cassette(path) as cassette,
    ):
        with pytest.raises(ModelError, match="not recorded") as raised:
            await parts(cassette.model(ScriptedModel()), asking("two", settings={"effort": "low"}))
        assert not raised.value.retryable
    with not_recorded(r"`settings\.effort` is \"high\""), Cassette(path) as cassette, pytest.raises(ModelError):
        await parts(cassette.model(ScriptedModel()), asking("one", settings={"effort": "high"}))
    longer = ModelRequest([*asking("one").messages] * 2, settings={"effort": "low"})
    with not_recorded("`messages` is a list of 2, recorded"), Cassette(path) as cassette, pytest.raises(ModelError):
        await parts(cassette.model(ScriptedModel()), longer)


async def test_equal_requests_get_their_responses_in_order(tmp_path: Path) -> None:
    """Two equal requests are two calls; a third one is not recorded."""
    path = tmp_path / "model.json"
    with Cassette(path) as cassette:
        model = cassette.model(ScriptedModel(["one", "two"]))
        for _ in range(2):
            await parts(model, asking("?"))
    with not_recorded("no further call of it is recorded"), Cassette(path) as cassette:
        model = cassette.model(ScriptedModel())
        assert [(await parts(model, asking("?")))[0] for _ in range(2)] == [TextDelta("one"), TextDelta("two")]
        with pytest.raises(ModelError):
            await parts(model, asking("?"))


async def test_a_response_is_played_whole(tmp_path: Path) -> None:
    """Calls of tools, with arguments that are not an object too, the usage, and the reason of the end."""

    class Model:
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            for part in (
                TextDelta("a "), TextDelta("b"), ToolCallDelta(0, "c1", "look", '{"a"'),
                ToolCallDelta(0, arguments=":1}"), ToolCallDelta(1, "c2", "look", "[1"), TokenUsage(3, 4),
                Finished("tool_calls"),
            ):  # fmt: skip
                yield part

    path, request = tmp_path / "model.json", asking("?", tools=[ToolDefinition("look", "Looks.")])
    with Cassette(path) as cassette:
        assert len(await parts(cassette.model(Model()), request)) == 7
    with Cassette(path) as cassette:
        assert await parts(cassette.model(Model), attrs.evolve(request, key="another")) == [
            TextDelta("a b"), ToolCallDelta(0, "c1", "look", '{"a":1}'), ToolCallDelta(1, "c2", "look", "[1"),
            TokenUsage(3, 4), Finished("tool_calls"),
        ]  # fmt: skip


async def test_errors_of_models_are_played(tmp_path: Path) -> None:
    """With the text before it, and whether another attempt can succeed."""

    class Broken:
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            yield TextDelta("half")
            raise ModelError("overloaded", retryable=True, reason="incomplete")

    path = tmp_path / "model.json"
    for made in (Broken(), lambda: pytest.fail("the model is made")):
        seen = list[Delta]()
        with Cassette(path) as cassette, pytest.raises(ModelError, match="overloaded") as raised:  # noqa: PT012
            async for part in cassette.model(made).stream(asking("?")):
                seen.append(part)
        assert (seen, raised.value.retryable, raised.value.reason) == ([TextDelta("half")], True, "incomplete")


async def test_long_images_are_stored_as_digests(tmp_path: Path) -> None:
    """A short image is stored as it is; a call with another image is not the recorded one."""
    path = tmp_path / "model.json"

    def showing(*data: str) -> ModelRequest:
        images = [{"mimeType": "image/png", "data": each} for each in data]
        return ModelRequest([{"type": "human", "content": "?", "images": images}])

    with Cassette(path) as cassette:
        await parts(cassette.model(ScriptedModel("yes")), showing("A" * 9_000, "AAAA"))
    images = json.loads(path.read_text())["calls"][0]["messages"][0]["images"]
    assert [image["data"][:7] for image in images] == ["sha256:", "AAAA"]
    with Cassette(path) as cassette:
        await parts(cassette.model(ScriptedModel()), showing("A" * 9_000, "AAAA"))
    with not_recorded("sha256"), Cassette(path) as cassette, pytest.raises(ModelError):
        await parts(cassette.model(ScriptedModel()), showing("B" * 9_000, "AAAA"))


@pytest.mark.parametrize("is_async", [True, False])
async def test_tools_and_their_errors(tmp_path: Path, is_async: bool) -> None:
    """Results and errors of sync and async tools are played; a call with other arguments is refused."""
    calls = list[int]()

    def divide(by: int) -> float:
        calls.append(by)
        if by < 0:
            raise wfcore.ToolFailed("negative", retryable=False)
        return 6 / by

    async def divide_async(by: int) -> float:
        return divide(by)

    async def outcome(tool: wfcore.Tool, by: int) -> Any:
        try:
            found: Any = tool.run({"by": by}, CALL)
            return await found if is_async else found
        except Exception as error:
            return str(error), getattr(error, "retryable", True)

    path, used = tmp_path / "tools.json", divide_async if is_async else divide
    with Cassette(path) as cassette:
        [tool] = cassette.tools([used])
        recorded = [await outcome(tool, by) for by in (3, 0, -1)]
    assert (recorded[0], recorded[2]) == (2.0, ("negative", False))
    with not_recorded("not recorded: `divide"), Cassette(path) as cassette:
        tool = cassette.tool(tool)
        played = [await outcome(tool, by) for by in (-1, 3, 0)]
        assert played == [("negative", False), 2.0, ("ZeroDivisionError: " + recorded[1][0], True)]
        assert (await outcome(tool, 5))[1] is False
    assert calls == [3, 0, -1]


async def test_what_is_redacted_is_not_compared(tmp_path: Path) -> None:
    """A pattern for what differs in every run, such as a date."""
    path, day = tmp_path / "model.json", re.compile(r"\d{4}-\d\d-\d\d")
    with Cassette(path, redact=[day], fields=["effort"]) as cassette:
        await parts(cassette.model(ScriptedModel("on 2026-01-01")), asking("2026-01-01", settings={"effort": "low"}))
    with Cassette(path, redact=[day], fields=["effort"]) as cassette:
        found = await parts(cassette.model(ScriptedModel()), asking("2027-02-03", settings={"effort": "high"}))
    assert found[0] == TextDelta("on ***")


async def test_modes(tmp_path: Path) -> None:
    """`never` needs the file, `all` replaces it, and a test that fails leaves it as it was."""
    path = tmp_path / "model.json"
    with pytest.raises(FileNotFoundError):
        Cassette(path, record="never")
    for text in ("one", "two"):
        with Cassette(path, record="all") as cassette:
            await parts(cassette.model(ScriptedModel(text)), asking("?"))
    [call] = json.loads(path.read_text())["calls"]
    assert as_object(call["response"])["content"] == "two"
    before = path.read_text()
    for mode in ("all", "once"):
        with pytest.raises(ZeroDivisionError), Cassette(path, record=mode):  # type: ignore[arg-type]
            raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["model.json"]
    assert path.read_text() == before


def test_another_version_is_refused(tmp_path: Path) -> None:
    """With the way out."""
    path = tmp_path / "old.json"
    path.write_text('{"version": 0, "calls": []}')
    with pytest.raises(ValueError, match="version `0`: record it again"):
        Cassette(path)
