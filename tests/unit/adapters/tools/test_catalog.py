"""Functions as tools: what the catalog reads from a signature, what it refuses, and the calls."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial, wraps
from typing import Annotated, Any, Literal
from uuid import UUID

import attrs
import msgspec
import pytest
from msgspec.structs import replace

from wfcore.adapters.tools.catalog import ToolRegistry, tool
from wfcore.domain.json.schema import compile_schema
from wfcore.ports.providers import Tool, ToolCall, ToolConnection, ToolFailed

CALL = ToolCall("key-1", 2, "org", "r-1", "u-1")


class Color(Enum):
    red = "red"
    blue = "blue"


@dataclass
class Line:
    sku: str
    count: int = 1


@attrs.frozen
class Address:
    city: str


class Order(msgspec.Struct):
    lines: list[Line]
    to: Address


def send_invoice(order: int, note: str = "thanks") -> dict[str, Any]:
    """Send the invoice of an order."""
    return {"order": order, "note": note}


async def charge(amount: int, call: ToolCall) -> str:
    return f"{amount} under {call.key}"


class Shop:
    """A shop that sells."""

    def sell(self, count: int) -> int:
        return count + 1

    async def __call__(self, count: int) -> int:
        return count


def tool_of(given: Callable[..., Any] | Tool) -> Tool:
    """The one tool of a catalog of it."""
    (found,) = [each for each in ToolRegistry([given]).all() if not each.id.startswith("core.")]
    return found


def run(given: Callable[..., Any], **params: Any) -> Any:
    """What the tool of a function returns."""
    return tool_of(given).run(params, CALL)


def test_a_signature_defines_the_tool() -> None:
    """Name, docstring and annotations give id, description and schema; a default makes a parameter optional."""
    found = tool_of(send_invoice)
    assert (found.id, found.name, found.description) == ("send_invoice", "send invoice", inspect.getdoc(send_invoice))
    assert found.parameters == {
        "type": "object",
        "properties": {"order": {"type": "integer"}, "note": {"type": "string", "default": "thanks"}},
        "required": ["order"],
        "additionalProperties": False,
    }
    assert found.blocking
    assert not found.is_async
    assert found.run({"order": 7}, CALL) == {"order": 7, "note": "thanks"}


def test_the_decorator_sets_options() -> None:
    """`tool` sets id, name, description and blocking, and returns the same function."""

    @tool(id="billing.refund", name="Refund", description="Pay back.", blocking=False)
    def refund(amount: int) -> int:
        return -amount

    @tool
    def plain() -> None: ...

    found = tool_of(refund)
    assert (found.id, found.name, found.description, found.blocking) == ("billing.refund", "Refund", "Pay back.", False)
    assert refund(3) == -3
    assert tool_of(plain).id == "plain"


async def _awaited(value: Any) -> Any:
    return await value


@pytest.mark.anyio
async def test_async_functions_are_awaited_and_receive_the_call() -> None:
    """A parameter annotated `ToolCall` receives the call and is not an argument."""
    found = tool_of(charge)
    assert found.is_async
    assert list(found.parameters["properties"]) == ["amount"]
    assert await _awaited(found.run({"amount": 5}, CALL)) == "5 under key-1"


@pytest.mark.anyio
async def test_callables_and_wrapped_functions() -> None:
    """An object with `async def __call__` is an async tool named after its class, and so is what `wraps` one."""

    @wraps(charge)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return charge(*args, **kwargs)

    shop = tool_of(Shop())
    assert (shop.id, shop.description, shop.is_async) == ("Shop", "A shop that sells.", True)
    assert await _awaited(shop.run({"count": 2}, CALL)) == 2
    assert tool_of(wrapped).is_async
    assert await _awaited(tool_of(wrapped).run({"amount": 1}, CALL)) == "1 under key-1"


def test_bound_methods() -> None:
    """`self` is not an argument; a bound method can have its own id without a change of its class."""
    found = tool_of(Shop().sell)
    assert (found.id, list(found.parameters["properties"])) == ("sell", ["count"])
    assert found.run({"count": 1}, CALL) == 2
    marked = tool(id="shop.sell")(Shop().sell)
    assert run(marked, count=1) == 2
    assert tool_of(marked).id == "shop.sell"
    assert tool_of(Shop().sell).id == "sell"


def test_bound_values_of_a_partial_are_not_arguments() -> None:
    """Bound values are neither in the schema, as they can be secret, nor replaced by a call."""

    def post(secret: str, text: str, where: str = "here") -> str:
        return f"{secret} {text} {where}"

    for bound in (partial(post, secret="s3cret", where="there"), partial(post, "s3cret", where="there")):
        found = tool_of(bound)
        assert found.id == "post"
        assert list(found.parameters["properties"]) == ["text"]
        assert "s3cret" not in repr(found.parameters)
        assert found.run({"text": "hi"}, CALL) == "s3cret hi there"
        issues = compile_schema(found.parameters).check({"text": "hi", "secret": "other"}, "params")
        assert [issue.path for issue in issues] == ["params.secret"]
    assert tool_of(tool(id="mine")(partial(post, "x"))).id == "mine"


def test_typed_arguments_are_converted() -> None:
    """Dataclasses, attrs, structs, datetimes, UUIDs and enums are converted to their annotated types."""
    got: dict[str, Any] = {}

    def take(order: Order, at: datetime, id: UUID, color: Color = Color.red, maybe: Line | None = None) -> None:
        got.update(order=order, at=at, id=id, color=color, maybe=maybe)

    params = {
        "order": {"lines": [{"sku": "a"}, {"sku": "b", "count": 2}], "to": {"city": "Bonn"}},
        "at": "2026-01-01T12:00:00Z",
        "id": "00000000-0000-7000-8000-000000000001",
    }
    found = tool_of(take)
    assert compile_schema(found.parameters).check(params, "params") == []
    found.run(params, CALL)
    assert got == {
        "order": Order([Line("a"), Line("b", 2)], Address("Bonn")),
        "at": datetime(2026, 1, 1, 12, tzinfo=UTC),
        "id": UUID(int=0x7000_8000_000000000001),
        "color": Color.red,
        "maybe": None,
    }
    assert found.parameters["properties"]["color"]["default"] == "red"


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"order": {"lines": [{"sku": 5}], "to": {"city": "x"}}}, "`params.order.lines[0].sku`"),
        ({"order": {"lines": [], "to": {}}}, "`params.order.to`"),
        ({"order": "x"}, "`params.order`"),
    ],
)
def test_an_invalid_argument_names_its_path(params: Any, path: str) -> None:
    """It fails without retry, with the path of the invalid part; strings are not numbers."""

    def take(order: Order) -> None:
        raise AssertionError

    with pytest.raises(ToolFailed) as failed:
        run(take, **params)
    assert failed.value.message.startswith(f"{path}: ")
    assert not failed.value.retryable


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        int,
        str | None,
        list[dict[str, float]],
        Literal["a", 1],
        Annotated[int, msgspec.Meta(ge=1)],
        dict[str, list[bool | None]],
    ],
)
def test_json_types_are_not_converted(annotation: Any) -> None:
    """A value of a JSON type is passed as the same object."""

    def take(value: Any) -> Any:
        return value

    take.__annotations__["value"] = annotation
    given = object()
    assert run(take, value=given) is given


@pytest.mark.parametrize("annotation", [dict[int, str], set[str], tuple[int, int], list[datetime], bytes])
def test_other_types_are_converted(annotation: Any) -> None:
    """A value of any other type is validated by its conversion."""

    def take(value: Any) -> Any:
        return value

    take.__annotations__["value"] = annotation
    with pytest.raises(ToolFailed):
        run(take, value=5)


def test_without_annotation_any_value_is_valid() -> None:
    """The schema then allows any value."""

    def take(value, other=None):  # type: ignore[no-untyped-def]
        return value

    assert tool_of(take).parameters["properties"] == {"value": {}, "other": {"default": None}}
    assert run(take, value=[1]) == [1]


def test_constraints_are_in_the_schema() -> None:
    """`Annotated[..., Meta]` and closed types are in the schema, shared ones as definitions, and are validated."""

    def take(count: Annotated[int, msgspec.Meta(ge=1)], line: Line, color: Literal["red"]) -> None: ...

    schema = compile_schema(tool_of(take).parameters)
    assert schema.check({"count": 1, "line": {"sku": "a"}, "color": "red"}, "p") == []
    wrong = {"count": 0, "line": {"count": "1"}, "color": "blue", "more": 1}
    assert {issue.path for issue in schema.check(wrong, "p")} == {
        "p.count",
        "p.line.sku",
        "p.line.count",
        "p.color",
        "p.more",
    }


class Opaque:
    """A class that JSON knows nothing of."""


class _Desk:
    def look(self, drawer: int) -> None: ...


def _opaque(a: int, thing: Opaque) -> None: ...
def _unknown(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _positional(thing: int, /) -> None: ...
def _rest(**thing: int) -> None: ...
def _two_calls(thing: ToolCall, call: ToolCall) -> None: ...
async def _stream(thing: int) -> Any:
    yield thing


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_opaque, ["`_opaque`", "`thing`"]),
        (_unknown, ["`_unknown`", "Missing"]),
        (_positional, ["`_positional`", "`thing`", "use parameters without"]),
        (_rest, ["`_rest`", "`thing`", "use parameters without"]),
        (_Desk.look, ["`look`", "`self`", "of an object"]),
        (_two_calls, ["`_two_calls`", "`thing`"]),
        (_stream, ["`_stream`", "generator"]),
        (Shop, ["`Shop`", "type"]),
        (len, ["`len`", "`obj`"]),
        (5, ["`int`"]),
    ],
)
def test_unsupported_functions_are_refused_at_once(function: Any, words: list[str]) -> None:
    """A TypeError when the catalog is created names the function and the parameter."""
    with pytest.raises(TypeError) as refused:
        ToolRegistry([function])
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize("tool_id", ["core.mine", "", "a b", "a\n", "ü", "a" * 129, "٣"])
def test_ids_are_plain(tool_id: str) -> None:
    """An id has 1 to 128 allowed characters, and not the prefix of built-in tools."""
    with pytest.raises(ValueError, match="id"):
        ToolRegistry([Tool(tool_id, lambda params, call: None, "x")])


def test_ids_are_unique() -> None:
    """Two tools of one id are refused, whether functions or tools."""
    with pytest.raises(ValueError, match="tool `send_invoice` is defined twice"):
        ToolRegistry([send_invoice, Tool("send_invoice", lambda params, call: None, "x")])
    ToolRegistry([Tool("a" * 128, lambda params, call: None, "x"), Tool("A-z_0.9", lambda params, call: None, "x")])


def _built_in(tool_id: str) -> Tool:
    found = ToolRegistry().get(tool_id)
    assert found is not None
    return found


def test_built_in_tools_do_what_the_machine_does() -> None:
    """`core.transform` returns its value; `core.fail` fails with its message, of any type."""
    assert [each.id for each in ToolRegistry().all()] == ["core.fail", "core.transform", "core.wait", "core.workflow"]
    assert _built_in("core.transform").run({"value": [1]}, CALL) == [1]
    assert _built_in("core.transform").run({}, CALL) is None
    for params, message in (({"message": "no"}, "no"), ({"message": 5}, "5"), ({}, "failed by core.fail")):
        with pytest.raises(ToolFailed) as failed:
            _built_in("core.fail").run(params, CALL)
        assert (failed.value.message, failed.value.retryable) == (message, True)
    assert not any(_built_in(tool_id).checks for tool_id in ("core.fail", "core.transform", "core.wait"))


@pytest.mark.anyio
async def test_wait_waits() -> None:
    """`core.wait` returns its parameters, after its seconds."""
    wait = _built_in("core.wait")
    assert wait.is_async
    assert await _awaited(wait.run({"seconds": 0}, CALL)) == {"seconds": 0}


def test_what_a_tool_declares_of_its_calls() -> None:
    """`idempotent` and `provider` reach the tool, of methods too; undeclared it may not be called twice, and needs no
    connection."""

    class Desk:
        @tool(idempotent=True, provider="desk")
        def look(self, number: int) -> int:
            return number

    found = tool_of(Desk().look)
    assert (found.idempotent, found.provider) == (True, "desk")
    assert (tool_of(send_invoice).idempotent, tool_of(send_invoice).provider) == (False, None)


def test_built_in_tools_are_idempotent() -> None:
    """Each of them accepts the same parameters as the machine: `input` of `core.workflow` is optional."""
    assert all(each.idempotent for each in ToolRegistry().all())
    schema = compile_schema(_built_in("core.workflow").parameters)
    assert schema.check({"workflowId": 3}, "params") == []
    for wrong in ({}, {"workflowId": 0}, {"workflowId": 3, "input": []}, {"workflowId": 3, "more": 1}):
        assert schema.check(wrong, "params")
    with pytest.raises(ToolFailed):
        _built_in("core.workflow").run({"workflowId": 3}, CALL)


def test_no_repr_shows_a_secret() -> None:
    """The `repr` of a call shows that it has a connection, but not its configuration."""
    call = replace(CALL, connection=ToolConnection("c-1", "desk", "api_key", {"apiKey": "canary"}))
    assert "c-1" in repr(call)
    assert "canary" not in repr(call)


def test_options_of_a_tool_are_given_by_name() -> None:
    """`@wfcore.tool("Send")` is refused where it stands."""
    mark: Any = tool
    with pytest.raises(TypeError, match="takes a function, and its options by name, not `str`"):
        mark("Send")
    with pytest.raises(TypeError, match="takes a function, and its options by name, not `NoneType`"):
        mark(idempotent=True)(None)
