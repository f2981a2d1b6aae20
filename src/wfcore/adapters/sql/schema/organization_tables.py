"""The tables of organizations, their members, workflows and skills, and of what belongs to these."""

from typing import Final

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, PrimaryKeyConstraint, Table

from wfcore.adapters.sql.schema.columns import boolean, integer, metadata, organization, text
from wfcore.adapters.sql.schema.dialect import INT, only_where

# Organizations and their members

organizations: Final = Table(
    "wfcore_organizations",
    metadata,
    Column("key", INT, primary_key=True),
    text("uuid"),
    text("name"),
    integer("created_at"),
    integer("max_concurrent_runs", null=True),
    sa.UniqueConstraint("uuid"),
    sqlite_autoincrement=True,
)
Index(
    "wfcore_organizations_limited",
    organizations.c.max_concurrent_runs,
    **only_where(organizations.c.max_concurrent_runs.is_not(None)),
)

members: Final = Table(
    "wfcore_members",
    metadata,
    organization(),
    text("user_id"),
    text("email", null=True),
    boolean("email_verified"),
    text("name", null=True),
    text("role"),
    PrimaryKeyConstraint("org", "user_id"),
    Index("wfcore_members_email", "org", "email", "user_id"),
    sqlite_with_rowid=False,
)

groups: Final = Table(
    "wfcore_groups",
    metadata,
    organization(),
    text("id"),
    text("name"),
    PrimaryKeyConstraint("org", "id"),
    sqlite_with_rowid=False,
)

group_members: Final = Table(
    "wfcore_group_members",
    metadata,
    integer("org"),
    text("user_id"),
    text("group_id"),
    PrimaryKeyConstraint("org", "user_id", "group_id"),
    sa.ForeignKeyConstraint(["org", "user_id"], ["wfcore_members.org", "wfcore_members.user_id"]),
    Index("wfcore_group_members_group", "org", "group_id", "user_id"),
    sqlite_with_rowid=False,
)

tokens: Final = Table(
    "wfcore_tokens",
    metadata,
    organization(),
    text("prefix"),
    text("secret_hash"),
    text("user_id"),
    text("name"),
    text("scopes"),
    integer("created_at"),
    integer("expires_at", null=True),
    integer("revoked_at", null=True),
    PrimaryKeyConstraint("org", "prefix"),
    Index("wfcore_tokens_user", "org", "user_id", "created_at", "prefix"),
    sqlite_with_rowid=False,
)

audit: Final = Table(
    "wfcore_audit",
    metadata,
    Column("key", INT, primary_key=True),
    organization(),
    integer("at"),
    text("user_id", null=True),
    text("action"),
    text("kind"),
    text("resource_id"),
    text("details"),
    text("request_id", null=True),
    text("remote_address", null=True),
    Index("wfcore_audit_at", "org", "at", "key"),
    Index("wfcore_audit_user", "org", "user_id", "at", "key"),
    Index("wfcore_audit_action", "org", "action", "at", "key"),
    sqlite_autoincrement=True,
)

# Workflows and skills

counters: Final = Table(
    "wfcore_counters",
    metadata,
    organization(),
    text("kind"),
    integer("last"),
    PrimaryKeyConstraint("org", "kind"),
    sqlite_with_rowid=False,
)

resources: Final = Table(
    "wfcore_resources",
    metadata,
    Column("key", INT, primary_key=True),
    organization(),
    text("kind"),
    integer("id"),
    text("slug"),
    text("name"),
    text("description", null=True),
    text("status"),
    text("access"),
    text("active_variation_id", null=True),
    text("draft_variation_id", null=True),
    boolean("is_enabled"),
    text("pending_transfer", null=True),
    integer("created_at"),
    integer("updated_at"),
    integer("deleted_at", null=True),
    integer("revision"),
    integer("max_concurrent_runs", null=True),
    boolean("is_scheduled"),
    sa.UniqueConstraint("org", "kind", "id"),
    sa.UniqueConstraint("org", "kind", "slug"),
)
Index(
    "wfcore_resources_limited",
    resources.c.org,
    resources.c.kind,
    resources.c.id,
    **only_where(resources.c.max_concurrent_runs.is_not(None)),
)
Index(
    "wfcore_resources_scheduled",
    resources.c.org,
    resources.c.kind,
    resources.c.id,
    **only_where(resources.c.is_scheduled),
)

grants: Final = Table(
    "wfcore_grants",
    metadata,
    Column("resource", INT, ForeignKey("wfcore_resources.key"), nullable=False),
    text("subject"),
    boolean("use"),
    boolean("manage"),
    PrimaryKeyConstraint("resource", "subject"),
    Index("wfcore_grants_subject", "subject"),
    sqlite_with_rowid=False,
)

variations: Final = Table(
    "wfcore_variations",
    metadata,
    integer("org"),
    text("kind"),
    integer("resource_id"),
    text("id"),
    text("content"),
    integer("created_at"),
    text("created_by"),
    integer("deployed_at", null=True),
    text("deployed_by", null=True),
    PrimaryKeyConstraint("org", "kind", "resource_id", "id"),
    sa.ForeignKeyConstraint(
        ["org", "kind", "resource_id"], ["wfcore_resources.org", "wfcore_resources.kind", "wfcore_resources.id"]
    ),
)
Index(
    "wfcore_variations_deployed",
    variations.c.org,
    variations.c.kind,
    variations.c.resource_id,
    variations.c.deployed_at.desc(),
    variations.c.id.desc(),
    **only_where(variations.c.deployed_at.is_not(None)),
)

kept: Final = Table(
    "wfcore_kept",
    metadata,
    organization(),
    text("kind"),
    text("user_id"),
    text("key"),
    text("fingerprint"),
    text("answer"),
    PrimaryKeyConstraint("org", "kind", "user_id", "key"),
    sqlite_with_rowid=False,
)

# Memories of skills, and the words in them

memories: Final = Table(
    "wfcore_memories",
    metadata,
    Column("key", INT, primary_key=True),
    organization(),
    integer("skill_id"),
    text("id"),
    text("memory", null=True),
    text("hash"),
    text("metadata"),
    integer("created_at"),
    integer("updated_at"),
    text("user_id", null=True),
    sa.UniqueConstraint("org", "skill_id", "id"),
    sqlite_autoincrement=True,
)
Index(
    "wfcore_memories_list",
    memories.c.org,
    memories.c.skill_id,
    memories.c.key,
    **only_where(memories.c.memory.is_not(None)),
)
Index(
    "wfcore_memories_of_user",
    memories.c.org,
    memories.c.skill_id,
    memories.c.user_id,
    memories.c.key,
    **only_where(memories.c.memory.is_not(None)),
)

memory_words: Final = Table(
    "wfcore_memory_words",
    metadata,
    integer("org"),
    integer("skill_id"),
    text("word"),
    integer("memory"),
    PrimaryKeyConstraint("org", "skill_id", "word", "memory"),
    Index("wfcore_memory_words_of", "memory"),
    sqlite_with_rowid=False,
)

interfaces: Final = Table(
    "wfcore_interfaces",
    metadata,
    organization(),
    text("target"),
    integer("resource_id"),
    text("id"),
    text("kind"),
    text("config"),
    integer("created_at"),
    text("sealed", null=True),
    PrimaryKeyConstraint("org", "target", "resource_id", "id"),
    Index("wfcore_interfaces_id", "id"),
    sqlite_with_rowid=False,
)

schedules: Final = Table(
    "wfcore_schedules",
    metadata,
    organization(),
    integer("workflow_id"),
    text("variation_id"),
    integer("next_at", null=True),
    text("paused", null=True),
    text("last_run_id", null=True),
    text("missed"),
    text("later", null=True),
    PrimaryKeyConstraint("org", "workflow_id"),
    sqlite_with_rowid=False,
)
Index("wfcore_schedules_due_org", schedules.c.org, schedules.c.next_at, **only_where(schedules.c.next_at.is_not(None)))
Index("wfcore_schedules_due", schedules.c.next_at, **only_where(schedules.c.next_at.is_not(None)))

webhooks: Final = Table(
    "wfcore_webhooks",
    metadata,
    organization(),
    integer("workflow_id"),
    text("digest"),
    text("sealed"),
    PrimaryKeyConstraint("org", "workflow_id"),
    Index("wfcore_webhooks_digest", "digest", unique=True),
    sqlite_with_rowid=False,
)

context_items: Final = Table(
    "wfcore_context_items",
    metadata,
    organization(),
    text("id"),
    text("title"),
    text("content"),
    integer("created_at"),
    integer("updated_at"),
    PrimaryKeyConstraint("org", "id"),
    sqlite_with_rowid=False,
)

policies: Final = Table(
    "wfcore_policies",
    metadata,
    organization(),
    text("id"),
    text("name"),
    text("condition"),
    text("requirement"),
    text("severity"),
    PrimaryKeyConstraint("org", "id"),
    sqlite_with_rowid=False,
)

connections: Final = Table(
    "wfcore_connections",
    metadata,
    organization(),
    text("id"),
    text("name"),
    text("provider"),
    text("kind"),
    text("config"),
    text("sealed"),
    text("status"),
    integer("last_checked_at", null=True),
    text("status_reason", null=True),
    text("ownership"),
    text("client"),
    PrimaryKeyConstraint("org", "id"),
    sqlite_with_rowid=False,
)

connection_grants: Final = Table(
    "wfcore_connection_grants",
    metadata,
    organization(),
    text("id"),
    text("connection_id"),
    text("user_id"),
    text("sealed"),
    integer("expires_at", null=True),
    boolean("can_refresh"),
    text("status"),
    text("reason", null=True),
    integer("leased_until"),
    PrimaryKeyConstraint("org", "id"),
    sqlite_with_rowid=False,
)
