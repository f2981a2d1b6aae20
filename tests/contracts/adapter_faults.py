"""Faults that make an adapter wrong: each changes one method of it, and leaves the rest as it is.

A fault is a function from a method to a wrong one. It fits sync and async methods and async generators.
"""

import asyncio
import inspect
from collections.abc import Callable
from functools import partial, wraps
from itertools import count
from typing import Any

Fault = Callable[[Callable[..., Any]], Callable[..., Any]]


def _changing(change: Callable[[Any], Any]) -> Fault:
    """The method with another result."""

    def fault(method: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isasyncgenfunction(method):

            async def generate(*args: Any, **named: Any) -> Any:
                for part in change([part async for part in method(*args, **named)]) or ():
                    yield part

            return wraps(method)(generate)
        if inspect.iscoroutinefunction(method):

            async def call(*args: Any, **named: Any) -> Any:
                return change(await method(*args, **named))

            return wraps(method)(call)
        return wraps(method)(lambda *args, **named: change(method(*args, **named)))

    return fault


def _list(found: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(found, dict):
        return dict(change(list(found.items())))
    return change(found) if isinstance(found, list | tuple | str | bytes) else found


def does_nothing(method: Callable[..., Any]) -> Callable[..., Any]:
    """It returns None at once."""
    return _instead(method, lambda *_, **__: None)


def _instead(method: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    async def wrong(*args: Any, **named: Any) -> Any:
        return call(*args, **named)

    return wraps(method)(wrong if inspect.iscoroutinefunction(method) else call)


def does_it_twice(method: Callable[..., Any]) -> Callable[..., Any]:
    """The effect happens twice, where the second time succeeds."""

    async def twice(*args: Any, **named: Any) -> Any:
        found = await method(*args, **named)
        try:
            await method(*args, **named)
        except Exception:
            return found
        return found

    def twice_now(*args: Any, **named: Any) -> Any:
        found = method(*args, **named)
        try:
            method(*args, **named)
        except Exception:
            return found
        return found

    return wraps(method)(twice if inspect.iscoroutinefunction(method) else twice_now)


def hides_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    """It returns None where it must raise."""
    if inspect.isasyncgenfunction(method):

        async def generate(*args: Any, **named: Any) -> Any:
            try:
                async for part in method(*args, **named):
                    yield part
            except Exception:
                return

        return wraps(method)(generate)

    async def hide(*args: Any, **named: Any) -> Any:
        try:
            return await method(*args, **named)
        except Exception:
            return None

    def hide_now(*args: Any, **named: Any) -> Any:
        try:
            return method(*args, **named)
        except Exception:
            return None

    return wraps(method)(hide if inspect.iscoroutinefunction(method) else hide_now)


def raises_another_error(method: Callable[..., Any]) -> Callable[..., Any]:
    """It raises LookupError where it must raise another error."""

    async def change(*args: Any, **named: Any) -> Any:
        try:
            return await method(*args, **named)
        except Exception as error:
            raise LookupError("another error") from error

    def change_now(*args: Any, **named: Any) -> Any:
        try:
            return method(*args, **named)
        except Exception as error:
            raise LookupError("another error") from error

    return wraps(method)(change if inspect.iscoroutinefunction(method) else change_now)


def works_once(method: Callable[..., Any]) -> Callable[..., Any]:
    """The second call and all after it do nothing."""
    calls = count()

    async def once(*args: Any, **named: Any) -> Any:
        return await method(*args, **named) if next(calls) == 0 else None

    def once_now(*args: Any, **named: Any) -> Any:
        return method(*args, **named) if next(calls) == 0 else None

    return wraps(method)(once if inspect.iscoroutinefunction(method) else once_now)


def ignores(name: str, value: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    """A parameter always has this value."""
    signature = inspect.signature(method)

    def call(*args: Any, **named: Any) -> Any:
        bound = signature.bind(*args, **named)
        bound.arguments[name] = value
        return method(*bound.args, **bound.kwargs)

    return wraps(method)(call)


def mixes_organizations(method: Callable[..., Any]) -> Callable[..., Any]:
    """Every organization is the same one."""
    signature = inspect.signature(method)

    def call(*args: Any, **named: Any) -> Any:
        bound = signature.bind(*args, **named)
        if isinstance(bound.arguments.get("org"), str):
            bound.arguments["org"] = "6f1c2b9e-58c4-4f0b-9f0e-0d4a8c1e7a11"
        return method(*bound.args, **bound.kwargs)

    return wraps(method)(call)


def hides_cancellation(method: Callable[..., Any]) -> Callable[..., Any]:
    """A cancelled call returns None."""

    async def hide(*args: Any, **named: Any) -> Any:
        try:
            return await method(*args, **named)
        except asyncio.CancelledError:
            return None

    return wraps(method)(hide)


def always_raises(method: Callable[..., Any]) -> Callable[..., Any]:
    """It never works."""

    def fail(*_: Any, **__: Any) -> Any:
        raise LookupError("it never works")

    return _instead(method, fail)


FAULTS: dict[str, Fault] = {
    "returns True": _changing(lambda _: True),
    "always raises": always_raises,
    "hides cancellation": hides_cancellation,
    "returns None": _changing(lambda _: None),
    "drops the last": _changing(lambda found: _list(found, lambda each: each[:-1])),
    "drops the first": _changing(lambda found: _list(found, lambda each: each[1:])),
    "reverses": _changing(lambda found: _list(found, lambda each: each[::-1])),
    "doubles": _changing(lambda found: _list(found, lambda each: each + each)),
    "flips": _changing(lambda found: not found if isinstance(found, bool) else found),
    "adds one": _changing(lambda found: found + 1 if type(found) in (int, float) else found),
    "takes one off": _changing(lambda found: found - 1 if type(found) in (int, float) else found),
    "does nothing": does_nothing,
    "does it twice": does_it_twice,
    "hides errors": hides_errors,
    "raises another error": raises_another_error,
    "works once": works_once,
    "mixes organizations": mixes_organizations,
    **{
        f"ignores {name}": partial(ignores, name, value)
        for name, value in {
            "limit": 1_000, "after": "", "before": None, "where": None, "principal": None, "holder": None, "now": 2**50,
            "kind": "", "user_id": "", "of": None, "since": 0, "until": 2**50, "handler": "", "decided": False,
            "workflow": None, "seconds": 0, "cover": None, "filter": None, "query": "", "newest": None, "old": None,
            "scheduled": False,
        }.items()
    },
}  # fmt: skip
"""The faults by name."""
