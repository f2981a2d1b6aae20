"""What the operator of one installation sets."""

from collections.abc import Mapping, Sequence

import attrs

from wfcore.domain.agents.attachments import AttachmentLimits
from wfcore.domain.agents.budgets import Budget
from wfcore.domain.agents.prices import Price
from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.run.entries import Limits


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
