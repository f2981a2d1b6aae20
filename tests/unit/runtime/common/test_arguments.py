"""Arguments of use cases: one of another type is refused by its name, in every use case."""

import importlib
import inspect
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

import pytest

import wfcore
from wfcore.core import AREAS, module_of
from wfcore.domain.kernel.errors import Invalid, Malformed
from wfcore.runtime.common.arguments import argument_check
from wfcore.runtime.common.installation import Retention

pytestmark = pytest.mark.anyio

FOREIGN = uuid4()
NOW = datetime.now(UTC)
NAIVE = NOW.replace(tzinfo=None)


def use_case(
    self: object,
    id: int,
    name: str | None = None,
    *,
    since: datetime | None = None,
    scopes: Collection[str] = (),
    limit: int = 25,
    timeout: float | None = None,
    view: Literal["active", "draft"] = "active",
    body: dict[str, Any] | None = None,
    more: object = None,
    path: tuple[str, ...] = (),
    after: tuple[datetime, int] | None = None,
    headers: Collection[tuple[str, str]] = (),
    handler: Callable[[], None] = print,
    retention: Retention | None = None,
) -> None:
    """A method with every kind of argument."""


CHECK = argument_check(use_case, 1)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((7,), {}),
        ((7, None), {"since": NOW, "limit": 0}),
        ((7, "ä"), {"scopes": ["a"], "timeout": 5, "view": "draft"}),
        ((7,), {"scopes": frozenset({"a"}), "timeout": 0.5, "since": None}),
        ((7,), {"body": FOREIGN, "more": FOREIGN}),
        ((7,), {"path": ["a"], "after": (NOW, 1), "headers": {"a": "b"}.items()}),
        ((7,), {"path": ("a", "b"), "after": None, "handler": len, "retention": Retention(runs=1)}),
        ((7, "a", "too many"), {"unknown": FOREIGN}),
    ],
)
def test_arguments_of_their_types(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Bodies have a check of their own, and the call itself refuses what the method does not take."""
    CHECK((object(), *arguments), named)


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((FOREIGN,), {}, "`id`: must be of type `int`, not `UUID`"),
        ((), {"id": "7"}, "`id`: must be of type `int`, not `str`"),
        ((True,), {}, "`id`: must be of type `int`, not `bool`"),
        ((None,), {}, "`id`: must be of type `int`, not None"),
        ((2**63,), {}, "`id`: must be from -9223372036854775807 to 9223372036854775807"),
        ((7, b"a"), {}, "`name`: must be of type `str` or None, not `bytes`"),
        ((7, "\ud83d"), {}, "`name`: must not have a lone surrogate"),
        ((7,), {"since": "2026-01-01"}, "`since`: must be of type `datetime` or None, not `str`"),
        ((7,), {"since": NOW.replace(tzinfo=None)}, "`since`: must have a time zone, as `datetime.now(UTC)` has"),
        ((7,), {"scopes": "workflows:read"}, "`scopes`: must be a list of `str`, not `str`"),
        ((7,), {"scopes": {"a": 1}}, "`scopes`: must be a list of `str`, not `dict`"),
        ((7,), {"scopes": ["a", 1]}, "`scopes`: must have items of type `str`, not `int`"),
        ((7,), {"scopes": ["\ud83d"]}, "`scopes`: must not have a lone surrogate"),
        ((7,), {"limit": -1}, "`limit`: must not be negative"),
        ((7,), {"timeout": "5"}, "`timeout`: must be of type `float` or None, not `str`"),
        ((7,), {"view": 1}, "`view`: must be of type `str`, not `int`"),
        ((7,), {"path": "a"}, "`path`: must be a list of `str`, not `str`"),
        ((7,), {"after": "a"}, "`after`: must be a tuple of `datetime` and `int` or None, not `str`"),
        ((7,), {"after": (NOW,)}, "`after`: must be a tuple of `datetime` and `int` or None, not `tuple`"),
        ((7,), {"after": (NOW, "a")}, "`after`: must be a tuple of `datetime` and `int` or None, not `tuple`"),
        ((7,), {"after": (NAIVE, 1)}, "`after`: must have a time zone, as `datetime.now(UTC)` has"),
        ((7,), {"after": (NOW, 2**63)}, "`after`: must be from -9223372036854775807 to 9223372036854775807"),
        ((7,), {"headers": {"a": "b"}}, "`headers`: must be a list of `tuple`, not `dict`"),
        ((7,), {"headers": ["a"]}, "`headers`: must have items of type `tuple`, not `str`"),
        ((7,), {"handler": b"a"}, "`handler`: must be a function, not `bytes`"),
        ((7,), {"retention": {"runs": 1}}, "`retention`: must be of type `Retention` or None, not `dict`"),
    ],
)
def test_arguments_of_other_types(arguments: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    """The message names the argument, what it can be, and what it is."""
    with pytest.raises(Malformed) as caught:
        CHECK((object(), *arguments), named)
    assert caught.value.message == message
    assert caught.value.info["errors"][0]["rule"] == "type"


def use_cases() -> Iterator[tuple[str, str, str]]:
    """The area, the method and the argument of each use case that a person calls."""
    for area, (_, kind, _) in AREAS.items():
        owner = getattr(importlib.import_module(module_of(area)), kind)
        for name, method in inspect.getmembers(owner, lambda found: hasattr(found, "scopes")):
            for parameter in list(inspect.signature(method).parameters.values())[2:]:
                if parameter.annotation in (str, int, str | None, int | None, datetime | None):
                    yield area, name, parameter.name


async def test_every_use_case_refuses_a_value_of_another_type() -> None:
    """With the name of the argument, whether or not another one is missing."""
    async with wfcore.open("sqlite://", worker=False) as core:
        me = core.principal(str(uuid4()), user="ann")
        found = list(use_cases())
        assert len(found) > 150
        for area, method, argument in found:
            with pytest.raises(Malformed, match=f"`{argument}`: must be of type .*, not `UUID`"):
                getattr(getattr(core, area), method)(me, **{argument: FOREIGN})


OPERATORS: list[Callable[[wfcore.Core], Any]] = [
    lambda core: core.directory.create_organization("Acme", id=FOREIGN),
    lambda core: core.directory.ensure_organization("Acme", id=FOREIGN),
    lambda core: core.directory.ensure_group("Acme", "Sales", id=FOREIGN),
    lambda core: core.directory.create_group(FOREIGN, "Sales"),
    lambda core: core.directory.add_member(FOREIGN, "ann"),
    lambda core: core.directory.create_token(FOREIGN, "ann", scopes=[]),
    lambda core: core.directory.limit_runs(FOREIGN, 7),
    lambda core: core.directory.run_limits(FOREIGN),
    lambda core: core.exports.organization(FOREIGN),
    lambda core: core.retention.delete_organization(FOREIGN),
    lambda core: core.retention.prune(FOREIGN),
    lambda core: core.secrets.reencrypt(dry_run=FOREIGN),
    lambda core: core.directory.authenticate(FOREIGN),
    lambda core: core.chat_apps.page(FOREIGN),
    lambda core: core.webhooks.receive(FOREIGN, [], print),
    lambda core: core.team_chats.receive(FOREIGN, [], print),
    lambda core: core.runs.result(FOREIGN),
    lambda core: core.notifier.forget(FOREIGN),
]


@pytest.mark.parametrize("call", OPERATORS)
async def test_use_cases_without_a_principal(call: Callable[[Any], Any]) -> None:
    """Those of the operator too."""
    async with wfcore.open("sqlite://", worker=False) as core:
        with pytest.raises(Malformed, match=r"`\w+`: must be of type .*, not `UUID`"):
            call(core)


async def test_a_caller_can_be_given_by_name() -> None:
    """As any other argument; a missing one is a TypeError that names what is needed."""
    async with wfcore.open("sqlite://", worker=False) as core:
        org = await core.directory.create_organization("Acme")
        assert await core.workflows.page(me=core.principal(org.uuid, user="ann")) == []
        with pytest.raises(TypeError, match="must be a Principal, not `NoneType`"):
            core.workflows.page()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="must be a Principal, not `int`"):
            core.workflows.get(1)  # type: ignore[arg-type, call-arg]


async def test_filters_of_runs() -> None:
    """A misspelt filter, and a status that no run has, would match other runs than those that are meant."""
    async with wfcore.open("sqlite://", worker=False) as core:
        me: Any = core.principal((await core.directory.create_organization("Acme")).uuid, user="ann")
        runs: Any = core.runs
        with pytest.raises(Invalid, match="`state`: is not a known filter: use `status`, `assistant`, "):
            await runs.page(me, state="error")
        with pytest.raises(Invalid, match="`status`: `failed` is not a status of a run: use `queued`, "):
            await runs.page(me, status="failed")
        with pytest.raises(Malformed, match="`since`: must be of type `int` or None, not `datetime`"):
            await runs.page(me, since=NOW)
        assert await runs.page(me, status="error") == []
        with pytest.raises(Malformed, match="unknown status `failed`: use `draft`, `active`, `deleted`"):
            await core.workflows.page(me, status="failed")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"email": 7}, TypeError, "`email` must be a string or None, not `int`"),
        ({"groups": "b4b4"}, TypeError, "`groups` must be a list of strings, not `str`"),
        ({"groups": None}, TypeError, "`groups` must be a list of strings, not `NoneType`"),
        ({"scopes": "workflows:read"}, TypeError, "`scopes` must be a list of strings, not `str`"),
        ({"role": "boss"}, ValueError, "`role`: `boss` is not a role: use `owner`, `admin`, `member`"),
        ({"user": "a\0"}, ValueError, "`user`: must have neither NUL nor a lone surrogate"),
        ({"user": "\ud83d"}, ValueError, "`user`: must have neither NUL nor a lone surrogate"),
    ],
)
async def test_principals(given: dict[str, Any], error: type[Exception], message: str) -> None:
    """A scope that is given as a text was a principal with the scopes of its characters: none."""
    async with wfcore.open("sqlite://", worker=False) as core:
        with pytest.raises(error, match=message):
            core.principal(**{"org": str(uuid4()), "user": "ann", **given})


@pytest.mark.parametrize(("handler", "name"), [(None, "mail"), (print, 7)])
async def test_handlers(handler: Any, name: Any) -> None:
    """What cannot be called would fail with each event."""
    async with wfcore.open("sqlite://", worker=False) as core:
        with pytest.raises(TypeError, match=r"`(handler|name)` must be a "):
            core.on("run.failed", handler, name=name)
