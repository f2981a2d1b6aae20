"""The settings and the secret keys of one installation."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import attrs
from attrs.validators import ge, in_, le, matches_re, optional

from wfcore.domain.agents.attachments import AttachmentLimits
from wfcore.domain.agents.budgets import Budget
from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.projections.cost import Price
from wfcore.domain.run.entries import Limits
from wfcore.ports.system import Rate

MAX_BUSY_SECONDS: Final = 86_400.0
"""SQLite counts milliseconds in 32 bits."""


def _check_days(_: object, field: "attrs.Attribute[Any]", days: object) -> None:
    if days is not None and not (isinstance(days, (int, float)) and 0 < days < math.inf):
        raise ValueError(f"`{field.name}` must be a number of days greater than 0, or None, not `{days}`")


@attrs.frozen
class Retention:
    """After how many days data is deleted; None: never. Fractions are allowed; ValueError for 0 and less.

    `runs` counts from the end of an execution, `conversations` from the latest message, `deleted` from the deletion of
    a workflow or skill, `blobs` from the last upload of content that nothing refers to.
    """

    runs: float | None = attrs.field(default=None, validator=_check_days)
    conversations: float | None = attrs.field(default=None, validator=_check_days)
    audit: float | None = attrs.field(default=None, validator=_check_days)
    deleted: float | None = attrs.field(default=None, validator=_check_days)
    blobs: float | None = attrs.field(default=None, validator=_check_days)

    def __bool__(self) -> bool:
        """Whether anything is deleted."""
        return any(days is not None for days in attrs.astuple(self))


Engine = Literal["database", "nats", "temporal"]


@attrs.frozen
class Dispatch:
    """What decides which worker drives which run, and carries notifications and events between processes.

    `database`: the claims of workers that poll it, and its notifications. `nats`: NATS with JetStream at `urls`, which
    can have users and passwords; `replicas` is the number of servers that store the queue. `temporal`: Temporal at the
    one address in `urls`, in a `namespace`; notifications are those of the database. `credentials` and `tls_...` are
    files. Installations on one server differ in `name`.
    """

    engine: Engine = "database"
    urls: Sequence[str] = attrs.field(default=(), repr=False)
    name: str = "wfcore"
    replicas: int = 1
    credentials: str | None = None
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    namespace: str = "default"

    def __attrs_post_init__(self) -> None:
        if (self.engine == "database") == bool(self.urls):
            raise ValueError("`dispatch` needs the URL of a server exactly if its engine is not `database`")
        if self.engine == "temporal" and len(self.urls) != 1:
            raise ValueError("`dispatch` needs exactly one address of Temporal")


@attrs.frozen
class Settings:
    """The operator's settings. Durations are in seconds. Raises ValueError for a value that cannot be used."""

    limits: Limits = attrs.field(factory=Limits)
    max_request_bytes: int = 10 * 2**20
    max_output_bytes: int = 10 * 2**20
    max_concurrent_runs: int = attrs.field(default=1_000, validator=ge(1))
    default_model: str = "default"
    delta_interval: float = 0.04
    http_allow: Sequence[str] = ()
    """Private addresses and networks, with or without a port, that requests of customers can reach."""
    hold_for: float = 2.0
    """How long a driver keeps an execution in memory that only waits for a time."""
    catch_up: float = 3_600.0
    """How late a schedule's latest slot can still fire when no worker was up at its time."""
    prices: Mapping[str, Price] = attrs.field(factory=dict)
    """The prices of models, by name. A call stores its cost, so a new price does not change past calls."""
    requests_per_minute: int | None = None
    """How many HTTP requests one principal can make in any minute; None: no limit."""
    budgets: Sequence[Budget] = ()
    """What models can consume for each user or organization; a run that exceeds it opens an interrupt first."""
    organization_requests_per_minute: int | None = None
    """The same limit for all principals of an organization together."""
    limits_backend: str = attrs.field(default="memory", repr=False)
    """Where rates are counted: `memory`, for each process alone; `database`, which must be PostgreSQL; or the URL of a
    Valkey or Redis server."""
    tool_calls: Mapping[str, str] = attrs.field(factory=dict)
    """How many calls of a tool each organization can begin, such as `100/minute`, by the tool's id."""
    max_waiting_requests: int = 1_000
    """How many HTTP requests of one organization wait for their turn at each process; a further one is a 429."""
    attachments: AttachmentLimits = attrs.field(factory=AttachmentLimits)
    graph: GraphLimits = attrs.field(factory=GraphLimits)
    hosts: Sequence[str] = ()
    """The names of this server, in lower case and without a port. Without any, some browser requests are refused."""
    public_url: str | None = attrs.field(
        default=None, validator=optional(matches_re(r"https?://[^\s/?#@]+(/[^\s?#]*)?"))
    )
    """The address of this server in the links of hooks; None: they have no links."""
    synchronous: Literal["FULL", "NORMAL"] = attrs.field(default="FULL", validator=in_(("FULL", "NORMAL")))
    """What a commit survives: with `FULL` a power cut, with `NORMAL` only the end of the process."""
    busy_seconds: float = attrs.field(default=10.0, validator=[ge(0), le(MAX_BUSY_SECONDS)])
    """How long a writer of a SQLite file waits for another process, or for a transaction of the embedding product."""
    retention: Retention = attrs.field(factory=Retention)
    dispatch: Dispatch = attrs.field(factory=Dispatch)
    shards: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """The URLs of further PostgreSQL databases, by the names of their shards; the database of `open` is `main`."""
    grace: float = attrs.field(default=5.0, validator=ge(0))
    """How long active runs can continue at exit to reach a durable point."""

    @tool_calls.validator
    def _check_tool_calls(self, _: object, tool_calls: Mapping[str, str]) -> None:
        for tool, calls in tool_calls.items():
            Rate.of(tool, calls)


@attrs.frozen
class Secrets:
    """The keys that seal the secrets of connections, 32 bytes each.

    `current` seals; None: the key file beside an embedded database. `previous` only unseal.
    """

    current: bytes | None = attrs.field(default=None, repr=False)
    previous: Sequence[bytes] = attrs.field(default=(), repr=False, kw_only=True)
