"""What a tool receives beside its arguments: the call, `RunContext` with the `deps` of `open`, and provided values."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Protocol, runtime_checkable

import attrs
import pytest

from wfcore.adapters.tools.catalog import ToolRegistry
from wfcore.adapters.tools.functions import tool, tools_of
from wfcore.adapters.tools.injection import Provide, RunContext
from wfcore.ports.providers import Tool, ToolCall, ToolFailed

CALL = ToolCall("key-1", 2, "org", "r-1", "u-1")


@attrs.define
class Shop:
    name: str
    log: list[str] = attrs.field(factory=list)


class Other:
    """Not a shop."""


def tool_of(function: Any, deps: object = None) -> Tool:
    found = [each for each in ToolRegistry([function], (), deps).all() if not each.id.startswith("core.")]
    return found[0]


async def called(found: Tool, **params: Any) -> Any:
    """The result, as the runtime calls the tool: an async tool on the loop, another one in a thread."""
    if found.is_async:
        given: Any = found.run(params, CALL)
        return await given
    return await asyncio.to_thread(found.run, params, CALL)


@pytest.mark.anyio
async def test_a_context_has_the_deps_and_the_call() -> None:
    """By its type, at any position; it is not an argument."""

    async def order(item: str, ctx: RunContext[Shop], call: ToolCall) -> list[Any]:
        facts = (ctx.key, ctx.attempt, ctx.org, ctx.run_id, ctx.user_id, ctx.connection)
        return [ctx.deps.name, item, *facts, ctx.call is call]

    found = tool_of(order, Shop("Acme"))
    assert list(found.parameters["properties"]) == ["item"]
    assert await called(found, item="x") == ["Acme", "x", "key-1", 2, "org", "r-1", "u-1", None, True]


@pytest.mark.anyio
async def test_what_can_be_none_is_given_too() -> None:
    """A function that product code also calls without a call, as `call: ToolCall | None = None`."""

    def provided(call: ToolCall | None = None) -> str:
        return "nothing" if call is None else call.key

    def order(
        ctx: RunContext[Shop] | None = None,
        call: ToolCall | None = None,
        made: Annotated[str, Provide(provided)] | None = None,
    ) -> list[Any]:
        return [ctx is not None and ctx.deps.name, call is CALL, made]

    found = tool_of(order, Shop("Acme"))
    assert found.parameters["properties"] == {}
    assert await called(found) == ["Acme", True, "key-1"]


@runtime_checkable
class Named(Protocol):
    name: str


class Hidden(Protocol):
    name: str


def _of_shop(ctx: RunContext[Shop]) -> None: ...
def _of_named(ctx: RunContext[Named]) -> None: ...
def _of_hidden(ctx: RunContext[Hidden]) -> None: ...
def _of_any(ctx: RunContext) -> None: ...  # type: ignore[type-arg]
def _of_mapping(ctx: RunContext[dict[str, int]]) -> None: ...
def _of_union(ctx: RunContext[Shop | None]) -> None: ...


@pytest.mark.parametrize(
    ("function", "deps", "problem"),
    [
        (_of_shop, Shop("Acme"), None),
        (_of_shop, None, "needs `deps` of the type `Shop`, but `open` got nothing"),
        (_of_shop, Other(), "needs `deps` of the type `Shop`, but `open` got `Other`"),
        (_of_named, Shop("Acme"), None),
        (_of_named, Other(), "needs `deps` of the type `Named`, but `open` got `Other`"),
        (_of_hidden, Other(), None),
        (_of_any, None, None),
        (_of_mapping, {"a": 1}, None),
        (_of_mapping, [], "needs `deps` of the type `dict`, but `open` got `list`"),
        (_of_union, None, None),
    ],
)
def test_the_type_of_the_deps_is_checked_at_once(function: Any, deps: object, problem: str | None) -> None:
    """When the catalog is made; a protocol that cannot be checked and a union are not."""
    if problem is None:
        tool_of(function, deps)
        return
    with pytest.raises(TypeError) as refused:
        tool_of(function, deps)
    assert str(refused.value) == f"tool `{function.__name__}`: parameter `ctx` {problem}"


def user_of(call: ToolCall) -> str:
    return f"user {call.user_id}"


def session(ctx: RunContext[Shop], user: Annotated[str, Provide(user_of)]) -> Iterator[list[str]]:
    ctx.deps.log.append(f"open for {user}")
    yield ctx.deps.log
    ctx.deps.log.append("close")


Session = Annotated[list[str], Provide(session)]


@pytest.mark.anyio
async def test_provided_values_are_made_once_for_a_call_and_cleaned_up() -> None:
    """In the thread of a plain tool; a provider can use others."""
    threads = []

    def count() -> int:
        threads.append(threading.get_ident())
        return len(threads)

    def sell(item: str, log: Session, user: Annotated[str, Provide(user_of)],
             one: Annotated[int, Provide(count)], two: Annotated[int, Provide(count)]) -> str:  # fmt: skip
        threads.append(threading.get_ident())
        log.append(f"sell {item}")
        return f"{user} {one} {two}"

    shop = Shop("Acme")
    found = tool_of(sell, shop)
    assert not found.is_async
    assert list(found.parameters["properties"]) == ["item"]
    assert await called(found, item="x") == "user u-1 1 1"
    assert shop.log == ["open for user u-1", "sell x", "close"]
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


@pytest.mark.anyio
async def test_async_providers_of_plain_and_async_tools() -> None:
    """A plain tool with an async provider still runs in a thread; an async one on the loop."""
    events: list[Any] = []

    async def connection() -> AsyncIterator[str]:
        events.append("open")
        yield "connection"
        events.append("close")

    async def name(given: Annotated[str, Provide(connection)]) -> str:
        return given.upper()

    def plain(log: Session, it: Annotated[str, Provide(name)]) -> str:
        events.append(threading.get_ident())
        return it

    async def quick(log: Session, it: Annotated[str, Provide(connection)]) -> str:
        events.append(threading.get_ident())
        return it

    for function, value in ((plain, "CONNECTION"), (quick, "connection")):
        events.clear()
        found = tool_of(function, Shop("Acme"))
        assert found.is_async
        assert await called(found) == value
        assert [events[0], events[2]] == ["open", "close"]
        assert (events[1] == threading.get_ident()) is (function is quick)


@pytest.mark.anyio
async def test_a_failing_tool_is_cleaned_up_after() -> None:
    """The provider sees the exception, and it is that of the call; StopIteration does not hang it."""
    seen: list[str] = []

    def watched() -> Iterator[int]:
        try:
            yield 1
        except ValueError as error:
            seen.append(str(error))
            raise

    async def nothing() -> None: ...

    def fails(it: Annotated[int, Provide(watched)]) -> None:
        raise ValueError("no")

    def stops(it: Annotated[None, Provide(nothing)]) -> None:
        raise StopIteration("over")

    with pytest.raises(ValueError, match="no"):
        await called(tool_of(fails))
    assert seen == ["no"]
    with pytest.raises(ToolFailed, match="StopIteration: over"):
        await called(tool_of(stops))


@pytest.mark.anyio
async def test_a_class_and_an_object_provide_values() -> None:
    """What its constructor or its `__call__` needs is provided too; a default stays."""

    class Repository:
        def __init__(self, ctx: RunContext[Shop], size: int = 3) -> None:
            self.text = f"{ctx.deps.name} {size}"

    class Factory:
        def __call__(self, call: ToolCall) -> str:
            return call.key

    def show(repository: Annotated[Any, Provide(Repository)], key: Annotated[str, Provide(Factory())]) -> str:
        return f"{repository.text} {key}"

    assert await called(tool_of(show, Shop("Acme"))) == "Acme 3 key-1"


def _needy(thing: int) -> int:
    return thing


def _unread(thing: "Missing") -> int:  # type: ignore[name-defined]  # noqa: F821
    return 1


def _itself(it: "Annotated[int, Provide(_itself)]") -> int:
    return it


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_needy, "`_needy` cannot get `thing`: use a `RunContext`, a `ToolCall` or another `Provide`"),
        (_unread, "the annotations of `_unread` cannot be read: "),
        (_itself, "`_itself` provides itself"),
        (5, "`int` is not a function"),
    ],
)
def test_a_provider_that_cannot_provide_is_refused_at_once(function: Any, words: str) -> None:
    def take(it: Any) -> None: ...

    take.__annotations__["it"] = Annotated[Any, Provide(function)]
    with pytest.raises(TypeError) as refused:
        tool_of(take)
    assert str(refused.value).startswith("tool `take`: parameter `it`")
    assert words in str(refused.value)


# The methods of a class


class HelpDesk:
    """A help desk."""

    name = "desk"

    @property
    def secret(self) -> str:
        raise AssertionError

    def look(self, number: int) -> str:
        """Look up a ticket."""
        return f"{self.name} {number}"

    @tool(id="close-ticket", name="Close", idempotent=True)
    async def close(self, number: int, ctx: RunContext[Shop]) -> str:
        return f"{ctx.deps.name} {number}"

    @staticmethod
    def version() -> int:
        return 2

    def _private(self) -> None: ...


@pytest.mark.anyio
async def test_the_public_methods_of_a_class_are_tools() -> None:
    """By `prefix.method`, with the options of `tool`; a property is not called."""
    for owner in (HelpDesk(), HelpDesk):
        tools = ToolRegistry(tools_of(owner), (), Shop("Acme"))
        ids = [each.id for each in tools.all() if not each.id.startswith("core.")]
        assert ids == ["close-ticket", "help_desk.look", "help_desk.version"]
        look, close = tools.get("help_desk.look"), tools.get("close-ticket")
        assert look is not None
        assert close is not None
        assert (look.name, look.description, look.is_async) == ("look", "Look up a ticket.", False)
        assert (close.name, close.idempotent, close.is_async) == ("Close", True, True)
        assert await called(look, number=7) == "desk 7"
        assert await called(close, number=7) == "Acme 7"
    assert [tool_of(each, Shop("Acme")).id for each in tools_of(HelpDesk(), "it")] == [
        "close-ticket",
        "it.look",
        "it.version",
    ]


def test_an_object_without_methods_is_refused() -> None:
    with pytest.raises(TypeError, match="`Other` has no public methods"):
        tools_of(Other())
