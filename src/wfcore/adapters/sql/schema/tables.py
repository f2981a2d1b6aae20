"""All tables. Rows belong to `org`, the key of an organization; JSON is stored as text, verbatim.

Times are milliseconds since the Unix epoch.
"""

from wfcore.adapters.sql.schema.columns import metadata
from wfcore.adapters.sql.schema.organization_tables import (
    audit,
    connection_grants,
    connections,
    context_items,
    counters,
    grants,
    group_members,
    groups,
    interfaces,
    kept,
    members,
    memories,
    memory_words,
    organizations,
    policies,
    resources,
    schedules,
    tokens,
    variations,
    webhooks,
)
from wfcore.adapters.sql.schema.record_tables import add_record_tables
from wfcore.adapters.sql.schema.run_tables import (
    approvers,
    call_slots,
    closed_interrupts,
    executions,
    interrupts,
    journal,
    runs,
    snapshots,
    workers,
)

__all__ = [
    "approvers",
    "audit",
    "call_slots",
    "closed_interrupts",
    "connection_grants",
    "connections",
    "context_items",
    "counters",
    "executions",
    "grants",
    "group_members",
    "groups",
    "interfaces",
    "interrupts",
    "journal",
    "kept",
    "members",
    "memories",
    "memory_words",
    "metadata",
    "organizations",
    "policies",
    "resources",
    "runs",
    "schedules",
    "snapshots",
    "tokens",
    "variations",
    "webhooks",
    "workers",
]

add_record_tables(metadata)
