"""All rows of one organization, in dicts."""

import attrs

from wfcore.adapters.inmemory.idempotency import IdempotencyKey
from wfcore.adapters.inmemory.interfaces import InterfaceKey
from wfcore.adapters.inmemory.resources import ResourceTable
from wfcore.domain.agents.connection_grants import ConnectionGrant
from wfcore.domain.agents.connections import Connection
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.channels.hooks import Hook
from wfcore.domain.channels.interfaces import Interface
from wfcore.domain.people.delegations import Delegation
from wfcore.domain.people.erasure import Erasure
from wfcore.domain.people.people import AccessToken, Group, Member
from wfcore.domain.resources.resource import Kind
from wfcore.domain.rules.policies import Policy
from wfcore.ports.repositories.postings import Posting
from wfcore.ports.repositories.schedules import Timer
from wfcore.ports.repositories.webhooks import WebhookRow
from wfcore.ports.storage import IdempotencyRecord


@attrs.define
class Tenant:
    """All rows of one organization. The rows are immutable, so a copy of the dicts is a full copy."""

    name: str = ""
    resource_tables: dict[Kind, ResourceTable] = attrs.Factory(lambda: {kind: ResourceTable() for kind in Kind})
    members: dict[str, Member] = attrs.Factory(dict)
    groups: dict[str, Group] = attrs.Factory(dict)
    tokens: dict[str, AccessToken] = attrs.Factory(dict)
    interfaces: dict[InterfaceKey, Interface] = attrs.Factory(dict)
    idempotency: dict[IdempotencyKey, IdempotencyRecord] = attrs.Factory(dict)
    timers: dict[int, Timer] = attrs.Factory(dict)
    webhooks: dict[int, WebhookRow] = attrs.Factory(dict)
    context_items: dict[str, ContextItem] = attrs.Factory(dict)
    policies: dict[str, Policy] = attrs.Factory(dict)
    hooks: dict[str, Hook] = attrs.Factory(dict)
    connections: dict[str, Connection] = attrs.Factory(dict)
    delegations: dict[str, Delegation] = attrs.Factory(dict)
    connection_grants: dict[str, ConnectionGrant] = attrs.Factory(dict)
    postings: dict[str, Posting] = attrs.Factory(dict)
    erasures: dict[str, Erasure] = attrs.Factory(dict)
    max_concurrent_runs: int | None = None
    workflow_limits: dict[int, int] = attrs.Factory(dict)

    def copy(self) -> "Tenant":
        resource_tables = {kind: table.copy() for kind, table in self.resource_tables.items()}
        people = (dict(self.members), dict(self.groups), dict(self.tokens))
        return Tenant(
            self.name,
            resource_tables,
            *people,
            dict(self.interfaces),
            dict(self.idempotency),
            timers=dict(self.timers),
            webhooks=dict(self.webhooks),
            context_items=dict(self.context_items),
            policies=dict(self.policies),
            hooks=dict(self.hooks),
            connections=dict(self.connections),
            delegations=dict(self.delegations),
            connection_grants=dict(self.connection_grants),
            postings=dict(self.postings),
            erasures=dict(self.erasures),
            max_concurrent_runs=self.max_concurrent_runs,
            workflow_limits=dict(self.workflow_limits),
        )
