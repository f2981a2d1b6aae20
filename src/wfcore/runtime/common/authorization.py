"""Authorization of use cases: token scopes, roles, and the one function that decides about a resource."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from wfcore.domain.kernel.errors import Conflict, Forbidden, NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Access, Principal, Role, derive, missing_scopes
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.ownership import is_owner, is_pending_owner
from wfcore.domain.resources.resource import Resource

P = ParamSpec("P")
R = TypeVar("R")


def needs(*scopes: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a use case (a method whose first argument is the principal) with the token scopes it takes.

    They are checked on every call, whatever the door, before anything else. `*` stands for the `area` of the object
    that has the method. A door reads them with `scopes_of`, to check them before it reads a body.
    """

    def mark(use_case: Callable[P, R]) -> Callable[P, R]:
        @wraps(use_case)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            check_scopes(_principal(args[1]), _named(scopes, args[0]))
            return use_case(*args, **kwargs)

        checked.scopes = scopes  # type: ignore[attr-defined]
        return checked

    return mark


def scopes_of(use_case: Any) -> tuple[str, ...]:
    """The token scopes of a bound use case."""
    return _named(use_case.scopes, use_case.__self__)


def _named(scopes: tuple[str, ...], owner: Any) -> tuple[str, ...]:
    return tuple(scope.replace("*", owner.area) if "*" in scope else scope for scope in scopes)


def _principal(value: Any) -> Principal:
    if not isinstance(value, Principal):
        raise TypeError("the first argument of a use case is a Principal")
    return value


def check_scopes(principal: Principal, scopes: tuple[str, ...]) -> None:
    """`Forbidden` with `info.missing` when the credential lacks a scope (interface, Authentication 4)."""
    missing = missing_scopes(principal.scopes, scopes)
    if missing:
        raise Forbidden("the token lacks a scope", {"missing": missing})


def administer(principal: Principal) -> None:
    """`Forbidden`, with the principal's own role in `info`, to all but the admins and owners of an organization."""
    if principal.role is Role.MEMBER:
        raise Forbidden("this takes the role `admin` or `owner`", {"role": principal.role.value})


def authorize(principal: Principal, resource: Resource | None, grant: str) -> Access:
    """The one authorization function: `grant` is `see`, `use` or `manage` (interface, Authentication 6).

    `NotFound` for what does not exist and for what the principal may neither use nor manage, without a difference;
    `Forbidden` when it may do the one and not the other. What is deleted exists only for those who manage it.
    Two more are of ownership: `own` is the owner's, who has to see the resource; `inherit` is that of the member to
    whom the ownership is offered, and what is no offer to the principal does not exist.
    """
    if resource is None:
        raise NotFound
    access = derive(principal, resource.access)
    known = is_pending_owner(principal, resource) if grant == "inherit" else access.visible
    if not known or (resource.status is Status.DELETED and not access.can_manage):
        raise NotFound
    if grant == "manage" and not access.can_manage:
        raise Forbidden("you may use this but not manage it", {"manageDenial": access.manage_denial})
    if grant == "use" and not access.can_use:
        raise Forbidden("you may manage this but not use it", {"canUse": False})
    if grant == "own" and not is_owner(principal, resource.access):
        raise Forbidden("only the owner may do this", {"reason": "not_owner"})
    return access


def conflict(message: str, reason: str, **info: JSON) -> Conflict:
    """A 409 that says why in one word."""
    return Conflict(message, {"reason": reason, **info})
