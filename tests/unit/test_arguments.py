"""Arguments of `wfcore.open` that have another type than it takes."""

from typing import Any

import attrs
import pytest

import wfcore
from wfcore import Dispatch, Secrets, Settings
from wfcore.testing import FakeClock, ScriptedModel

pytestmark = pytest.mark.anyio


def count(x: int) -> int:
    """A tool."""
    return x


class Shout:
    """A guardrail."""

    name = "shout"

    def check(self, text: str) -> Any: ...


ANY: Any = {}
TEXTS = "must be a list of `str`"
FUNCTIONS = "a list of functions or tools"
MODELS = "a dict of model providers by their names"
WRONG: list[tuple[str, Any, str]] = [
    ("tools", count, f"`tools` must be {FUNCTIONS}, not `function`"),
    ("tools", None, f"`tools` must be {FUNCTIONS}, not `None`"),
    ("tools", "count", f"`tools` must be {FUNCTIONS}, not `str`"),
    ("tools", {"count": count}, f"`tools` must be {FUNCTIONS}, not `dict`"),
    ("tools", wfcore.Tool("a", print, "a"), f"`tools` must be {FUNCTIONS}, not `Tool`"),
    ("tools", [count, 1], "`tools[1]` must be a function or a tool, not `int`"),
    ("tools", [Shout], "`tools[0]` must be a function or a tool, not the class `Shout`"),
    ("models", [ScriptedModel()], f"`models` must be {MODELS}, not `list`"),
    ("models", ScriptedModel(), f"`models` must be {MODELS}, not `ScriptedModel`"),
    ("models", {1: ScriptedModel()}, "`models` must be a dict with names that are `str`, not `int`"),
    (
        "models", {"x": ScriptedModel},
        '`models["x"]` must be an object that implements `ModelProvider`, not the class `ScriptedModel`',
    ),
    (
        "models", {"x": 5},
        '`models["x"]` must be an object that implements `ModelProvider`, not `int`: it has no `stream`',
    ),
    ("settings", wfcore.Settings, "`settings` must be a `wfcore.Settings`, not the class `Settings`"),
    ("settings", {}, "`settings` must be a `wfcore.Settings`, not `dict`"),
    ("settings", Settings(limits=ANY), "`settings.limits` must be of type `Limits`, not `dict`"),
    ("settings", Settings(grace=True), "`settings.grace` must be of type `float`, not `bool`"),
    ("settings", Settings(hosts="x.example"), "`settings.hosts` must be a list of `str`, not `str`"),
    ("settings", Settings(dispatch=Dispatch("nats", "nats://x")), f"`settings.dispatch.urls` {TEXTS}, not `str`"),
    ("secrets", Secrets(previous=[ANY]), "`secrets.previous` must have items of type `bytes`, not `dict`"),
    ("secrets", Secrets(previous=b"x" * 32), "`secrets.previous` must be a list of `bytes`, not `bytes`"),
    ("guardrails", Shout(), "`guardrails` must be a list of guardrails, not `Shout`"),
    ("guardrails", "redact-emails", "`guardrails` must be a list of guardrails, not `str`"),
    ("guardrails", [Shout], "`guardrails[0]` must be an object that implements `Guardrail`, not the class `Shout`"),
    (
        "guardrails", ["redact-emails"],
        "`guardrails[0]` must be an object that implements `Guardrail`, not `str`: it has no `check`",
    ),
    ("telemetry", Shout(), "`telemetry` must be a list of receivers of measurements, not `Shout`"),
    ("telemetry", [Shout], "`telemetry[0]` must be an object that implements `Telemetry`, not the class `Shout`"),
    ("schema", 3, "`schema` must be the name of a schema, not `int`"),
    ("worker", "no", "`worker` must be a bool, not `str`"),
    ("migrate", None, "`migrate` must be a bool, not `None`"),
    ("secrets", "x" * 32, "`secrets` must be `bytes` or a `wfcore.Secrets`, not `str`"),
    ("secrets", bytearray(32), "`secrets` must be `bytes` or a `wfcore.Secrets`, not `bytearray`"),
    ("secrets", wfcore.Secrets, "`secrets` must be `bytes` or a `wfcore.Secrets`, not the class `Secrets`"),
    ("ports", wfcore.Overrides, "`ports` must be a `wfcore.Overrides`, not the class `Overrides`"),
    ("ports", {}, "`ports` must be a `wfcore.Overrides`, not `dict`"),
]  # fmt: skip


@pytest.mark.parametrize("open_core", [wfcore.open, wfcore.open_sync])
@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_an_argument_of_another_type(open_core: Any, name: str, value: Any, message: str) -> None:
    """Is refused before anything is opened: the message names the argument, and what is allowed."""
    with pytest.raises(TypeError) as caught:
        open_core("sqlite://", **{name: value}).__enter__()
    assert str(caught.value) == message


PORTS = {field.name for field in attrs.fields(wfcore.Overrides)} - {"storage", "journal"}


@pytest.mark.parametrize("names", [("storage", "journal"), *((name,) for name in PORTS)])
@pytest.mark.parametrize(
    ("adapter", "problem"), [(object(), "not `object`: it has no `"), (FakeClock, "not the class `FakeClock`")]
)
def test_an_adapter_that_is_not_one(names: tuple[str, ...], adapter: Any, problem: str) -> None:
    """The message names the field of `Overrides`, and the port that the adapter has to implement."""
    with pytest.raises(TypeError, match=rf"`ports.{names[0]}` must be an object that implements `\w+`, {problem}"):
        wfcore.open("sqlite://", ports=wfcore.Overrides(**dict.fromkeys(names, adapter)))


async def test_an_iterator_is_as_good_as_a_list() -> None:
    async with wfcore.open("sqlite://", worker=False, tools=iter([count]), guardrails=iter([Shout()])) as core:
        assert core.ports.tools.get("count") is not None
        assert [rail.name for rail in core.ports.guardrails.everywhere] == ["shout"]
