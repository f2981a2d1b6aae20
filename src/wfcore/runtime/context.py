"""What every use case has at hand: the ports, the installation's settings, and the one authorization function."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import attrs

from wfcore.domain.agents.attachments import AttachmentLimits
from wfcore.domain.agents.budgets import Budget
from wfcore.domain.agents.prices import Price
from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.json.codec import from_ms
from wfcore.domain.kernel.errors import Conflict, Forbidden, NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Access, Principal, Role, derive, missing_scopes
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.ownership import is_owner, is_pending_owner
from wfcore.domain.resources.resource import Resource
from wfcore.domain.run.entries import Limits
from wfcore.ports.blobs import Blobs
from wfcore.ports.dispatcher import Dispatcher
from wfcore.ports.guardrails import Guardrails
from wfcore.ports.journal import Journal
from wfcore.ports.outbound import Outbound
from wfcore.ports.providers import EventSink, MemoryBackend, ModelProvider, Tools
from wfcore.ports.sealing import Sealer
from wfcore.ports.storage import Storage
from wfcore.ports.system import Clock, Ids
from wfcore.ports.telemetry import Telemetry
from wfcore.ports.tool_servers import ToolServers


@attrs.frozen
class Settings:
    """What the operator sets. Durations in seconds."""

    limits: Limits = attrs.field(factory=Limits)
    max_request_bytes: int = 10 * 2**20
    max_output_bytes: int = 10 * 2**20
    max_concurrent_runs: int = 1_000
    default_model: str = "default"
    delta_interval: float = 0.04
    http_allow: Sequence[str] = ()
    """Addresses and networks, with or without a port, that requests of customers may reach though not public."""
    hold_for: float = 2.0
    """How long a driver keeps an execution in memory when only time has to pass."""
    catch_up: float = 3_600.0
    """How late a schedule's latest slot may still fire after a time in which nobody worked."""
    prices: Mapping[str, Price] = attrs.field(factory=dict)
    """What models cost, by name. The cost of a call is kept with it, so a new price changes nothing of the past."""
    requests_per_minute: int | None = None
    """How many HTTP requests one principal may make in any minute, at each process; None: no matter."""
    budgets: Sequence[Budget] = ()
    """What models may consume for each user or organization; a run that would go beyond asks first."""
    organization_requests_per_minute: int | None = None
    """The same for all of an organization together."""
    attachments: AttachmentLimits = attrs.field(factory=AttachmentLimits)
    graph: GraphLimits = attrs.field(factory=GraphLimits)
    hosts: Sequence[str] = ()
    """The names of this server, in lower case and without a port; without any, browsers may not ask everything."""


@attrs.frozen
class Ports:
    """The bundle of ports. Built in one place, `wfcore.bootstrap`; every one of them can be replaced."""

    storage: Storage
    journal: Journal
    dispatcher: Dispatcher
    events: EventSink
    tools: Tools
    models: Mapping[str, ModelProvider]
    memories: MemoryBackend
    blobs: Blobs
    sealer: Sealer
    clock: Clock
    ids: Ids
    settings: Settings = attrs.field(factory=Settings)
    telemetry: Telemetry | None = None
    """Who hears of work as it happens; None for nobody, at no cost."""
    tool_servers: ToolServers = attrs.field(kw_only=True)
    guardrails: Guardrails = attrs.field(kw_only=True)
    outbound: Outbound = attrs.field(kw_only=True)

    def now(self) -> datetime:
        """The time in UTC, to the millisecond."""
        return from_ms(self.clock.now())


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
