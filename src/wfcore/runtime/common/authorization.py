"""Authorization of use cases: token scopes, roles, and access to resources."""

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from wfcore.domain.kernel.errors import Conflict, Forbidden, NotFound
from wfcore.domain.kernel.ids import parse_id
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Access, Principal, Role, derive, missing_scopes
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.ownership import is_owner, is_pending_owner
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.arguments import argument_check
from wfcore.runtime.common.loop_slice import check_home, loop_slice

MEMBER: Final = "member"
"""The kind of members, beside `Kind`."""

Named = tuple[str, str]
"""A kind and an id."""

P = ParamSpec("P")
R = TypeVar("R")


def needs(*scopes: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare the token scopes of a use case (a method whose first argument is the principal).

    They are checked first on every call, from any adapter, and then the types of the arguments. `*` stands for the
    `area` of the method's object. An adapter reads them with `scopes_of`, to check them before it reads a body. A
    coroutine begins within the loop's time slice, and raises RuntimeError on another loop than that of the core.
    """

    def decorate(use_case: Callable[P, R]) -> Callable[P, R]:
        is_coroutine = inspect.iscoroutinefunction(use_case)
        has_area = any("*" in scope for scope in scopes)
        check_arguments = argument_check(use_case, 2)

        @wraps(use_case)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            me = args[1] if len(args) > 1 else kwargs.get("me")
            check_scopes(_principal(me), _named(scopes, args[0]) if has_area else scopes)
            check_arguments(args, kwargs)
            return _later(use_case, args, kwargs) if is_coroutine else use_case(*args, **kwargs)

        checked.scopes = scopes  # type: ignore[attr-defined]
        return checked

    return decorate


class RequiredScopes(tuple[str, ...]):  # noqa: SLOT001  (a tuple has no slots for further values)
    """The token scopes of a use case. `description` is its docstring, for documents that are generated from routes."""

    description: str = ""


def scopes_of(use_case: Any) -> RequiredScopes:
    """The token scopes of a bound use case."""
    scopes = RequiredScopes(_named(use_case.scopes, use_case.__self__))
    scopes.description = inspect.cleandoc(use_case.__doc__ or "")
    return scopes


async def names_of(work: UnitOfWork, me: Principal, wanted: Collection[Named]) -> Mapping[Named, str]:
    """The current names of what these pairs of a kind and an id are: of workflows and skills that the caller can see,
    and of members. A member without a name has the e-mail address. What is gone has no name.
    """
    names: dict[Named, str] = {}
    for kind in Kind:
        ids = [number for of, text in wanted if of == kind and (number := parse_id(text)) is not None]
        names |= {(kind.value, str(one.id)): one.name for one in await work.resources(kind).visible(me, ids)}
    users = {user for of, user in wanted if of == MEMBER}
    found = await work.directory.members(limit=len(users), ids=users) if users else []
    return names | {(MEMBER, one.user_id): shown for one in found if (shown := one.name or one.email)}


def _later(use_case: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A coroutine with the name of the use case, for Python's warning of one that is never awaited."""
    work: Any = _in_slice(use_case, args, kwargs)
    work.__qualname__ = use_case.__qualname__
    return work


async def _in_slice(use_case: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    check_home(args[0]._ports.loop)  # noqa: SLF001  (every object with use cases has its ports there)
    await loop_slice().take()
    return await use_case(*args, **kwargs)


def _named(scopes: tuple[str, ...], owner: Any) -> tuple[str, ...]:
    return tuple(scope.replace("*", owner.area) if "*" in scope else scope for scope in scopes)


def _principal(value: Any) -> Principal:
    if not isinstance(value, Principal):
        raise TypeError(f"the first argument of a use case must be a Principal, not `{type(value).__name__}`")
    return value


def check_scopes(principal: Principal, scopes: tuple[str, ...]) -> None:
    """`Forbidden` when the credential lacks a scope, with all missing ones in `info.missing` and in the message
    (interface, Authentication 4).
    """
    missing = missing_scopes(principal.scopes, scopes)
    if missing:
        raise lacks_scopes("the token lacks", missing)


def lacks_scopes(fault: str, missing: list[str]) -> Forbidden:
    """The error for a credential without these scopes. `fault` is the beginning of its message."""
    names = " and ".join(f"`{scope}`" for scope in missing)
    listed: list[JSON] = [*missing]
    return Forbidden(f"{fault} the scope{'s' if len(missing) > 1 else ''} {names}", {"missing": listed})


def check_not_limited(principal: Principal) -> None:
    """`Forbidden` for a credential that is limited to some workflows: this concerns something else."""
    if principal.workflows is not None:
        reached: list[JSON] = [*sorted(principal.workflows)]
        raise Forbidden("your credential is limited to some workflows", {"workflows": reached})


def administer(principal: Principal) -> None:
    """`Forbidden`, with the principal's role in `info`, for everyone except admins and owners of an organization."""
    if principal.role is Role.MEMBER:
        raise Forbidden("this requires the role `admin` or `owner`", {"role": principal.role.value})


def authorize(principal: Principal, resource: Resource | None, grant: str) -> Access:
    """Check the principal's access to a resource (interface, Authentication 6). All use cases call this function.

    `grant` is `see`, `use` or `manage`. `NotFound` for a resource that does not exist, and equally for one that the
    principal can neither use nor manage; `Forbidden` when it has only the other of the two grants. A deleted resource
    exists only for its managers, and what a limited credential does not reach does not exist for it. Two more grants
    concern ownership: `own` requires the owner, who must see the resource; `inherit` requires the member to whom the
    ownership is offered, and is `NotFound` for everyone else.
    """
    if resource is None:
        raise NotFound
    if not principal.reaches(resource.kind, resource.id):
        raise NotFound
    access = derive(principal, resource.access)
    known = is_pending_owner(principal, resource) if grant == "inherit" else access.visible
    if not known or (resource.status is Status.DELETED and not access.can_manage):
        raise NotFound
    if grant == "manage" and not access.can_manage:
        raise Forbidden("you can use this but not manage it", {"manageDenial": access.manage_denial})
    if grant == "use" and not access.can_use:
        raise Forbidden("you can manage this but not use it", {"canUse": False})
    if grant == "own" and not is_owner(principal, resource.access):
        raise Forbidden("only the owner can do this", {"reason": "not_owner"})
    return access


def conflict(message: str, reason: str, **info: JSON) -> Conflict:
    """A 409 with the code `reason` in its `info`."""
    return Conflict(message, {"reason": reason, **info})
