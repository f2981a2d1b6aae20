"""The tables of the first release.

The columns are written out again and not taken from the tables of today, which go on changing.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Boolean, Column, ForeignKey, PrimaryKeyConstraint

revision = "0001"
down_revision = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make every table."""
    _create_directory()
    _create_content()
    _create_organization_rows()
    _create_memories()
    _create_triggers()
    _create_runs()
    _create_records()


def _create_directory() -> None:
    op.create_table(
        "organizations",
        Column("key", INT, primary_key=True),
        _text("uuid"),
        _text("name"),
        _int("created_at"),
        sa.UniqueConstraint("uuid"),
    )
    op.create_table(
        "members",
        _org(),
        _text("user_id"),
        _text("email", null=True),
        _bool("email_verified"),
        _text("name", null=True),
        _text("role"),
        PrimaryKeyConstraint("org", "user_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("members_email", "members", ["org", "email", "user_id"])
    op.create_table(
        "groups",
        _org(),
        _text("id"),
        _text("name"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "group_members",
        _int("org"),
        _text("user_id"),
        _text("group_id"),
        PrimaryKeyConstraint("org", "user_id", "group_id"),
        sa.ForeignKeyConstraint(["org", "user_id"], ["members.org", "members.user_id"]),
        sqlite_with_rowid=False,
    )
    op.create_index("group_members_group", "group_members", ["org", "group_id", "user_id"])
    op.create_table(
        "tokens",
        _org(),
        _text("prefix"),
        _text("secret_hash"),
        _text("user_id"),
        _text("name"),
        _text("scopes"),
        _int("created_at"),
        _int("expires_at", null=True),
        _int("revoked_at", null=True),
        PrimaryKeyConstraint("org", "prefix"),
        sqlite_with_rowid=False,
    )
    op.create_index("tokens_user", "tokens", ["org", "user_id", "prefix"])
    _create_audit()


def _create_audit() -> None:
    op.create_table(
        "audit",
        Column("key", INT, primary_key=True),
        _org(),
        _int("at"),
        _text("user_id", null=True),
        _text("action"),
        _text("kind"),
        _text("resource_id"),
        _text("details"),
        _text("request_id", null=True),
        _text("remote_address", null=True),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_at", "audit", ["org", "at", "key"])
    op.create_index("audit_user", "audit", ["org", "user_id", "at", "key"])
    op.create_index("audit_action", "audit", ["org", "action", "at", "key"])


def _create_content() -> None:
    op.create_table(
        "counters",
        _org(),
        _text("kind"),
        _int("last"),
        PrimaryKeyConstraint("org", "kind"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "resources",
        Column("key", INT, primary_key=True),
        _org(),
        _text("kind"),
        _int("id"),
        _text("slug"),
        _text("name"),
        _text("description", null=True),
        _text("status"),
        _text("access"),
        _text("active_variation_id", null=True),
        _text("draft_variation_id", null=True),
        _bool("is_enabled"),
        _text("pending_transfer", null=True),
        _int("created_at"),
        _int("updated_at"),
        _int("deleted_at", null=True),
        _int("revision"),
        sa.UniqueConstraint("org", "kind", "id"),
        sa.UniqueConstraint("org", "kind", "slug"),
    )
    op.create_table(
        "grants",
        Column("resource", INT, ForeignKey("resources.key"), nullable=False),
        _text("subject"),
        _bool("use"),
        _bool("manage"),
        PrimaryKeyConstraint("resource", "subject"),
        sqlite_with_rowid=False,
    )
    op.create_index("grants_subject", "grants", ["subject"])
    op.create_table(
        "variations",
        _int("org"),
        _text("kind"),
        _int("resource_id"),
        _text("id"),
        _text("content"),
        _int("created_at"),
        _text("created_by"),
        _int("deployed_at", null=True),
        _text("deployed_by", null=True),
        PrimaryKeyConstraint("org", "kind", "resource_id", "id"),
        sa.ForeignKeyConstraint(["org", "kind", "resource_id"], ["resources.org", "resources.kind", "resources.id"]),
    )
    op.create_index(
        "variations_deployed",
        "variations",
        ["org", "kind", "resource_id", sa.text("deployed_at DESC"), sa.text("id DESC")],
        **_only_where(sa.text("deployed_at IS NOT NULL")),
    )
    op.create_table(
        "kept",
        _org(),
        _text("kind"),
        _text("user_id"),
        _text("key"),
        _text("fingerprint"),
        _text("answer"),
        PrimaryKeyConstraint("org", "kind", "user_id", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "interfaces",
        _org(),
        _int("workflow_id"),
        _text("id"),
        _text("kind"),
        _text("config"),
        _int("created_at"),
        _text("sealed", null=True),
        PrimaryKeyConstraint("org", "workflow_id", "id"),
        sqlite_with_rowid=False,
    )
    op.create_index("interfaces_id", "interfaces", ["id"])


def _create_triggers() -> None:
    op.create_table(
        "schedules",
        _org(),
        _int("workflow_id"),
        _text("variation_id"),
        _int("next_at", null=True),
        _text("paused", null=True),
        _text("last_run_id", null=True),
        _text("missed"),
        PrimaryKeyConstraint("org", "workflow_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("schedules_due_org", "schedules", ["org", "next_at"], **_only_where(sa.text("next_at IS NOT NULL")))
    op.create_index("schedules_due", "schedules", ["next_at"], **_only_where(sa.text("next_at IS NOT NULL")))
    op.create_table(
        "webhooks",
        _org(),
        _int("workflow_id"),
        _text("digest"),
        _text("sealed"),
        PrimaryKeyConstraint("org", "workflow_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("webhooks_digest", "webhooks", ["digest"], unique=True)


def _create_organization_rows() -> None:
    op.create_table(
        "context_items",
        _org(),
        _text("id"),
        _text("title"),
        _text("content"),
        _int("created_at"),
        _int("updated_at"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "connections",
        _org(),
        _text("id"),
        _text("name"),
        _text("provider"),
        _text("kind"),
        _text("config"),
        _text("sealed"),
        _text("status"),
        _int("last_checked_at", null=True),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )


def _create_memories() -> None:
    op.create_table(
        "memories",
        Column("key", INT, primary_key=True),
        _org(),
        _int("skill_id"),
        _text("id"),
        _text("memory", null=True),
        _text("hash"),
        _text("metadata"),
        _int("created_at"),
        _int("updated_at"),
        _text("user_id", null=True),
        sa.UniqueConstraint("org", "skill_id", "id"),
        sqlite_autoincrement=True,
    )
    live = sa.text("memory IS NOT NULL")
    op.create_index("memories_list", "memories", ["org", "skill_id", "key"], **_only_where(live))
    op.create_index("memories_of_user", "memories", ["org", "skill_id", "user_id", "key"], **_only_where(live))
    op.create_table(
        "memory_words",
        *map(_int, ("org", "skill_id")),
        _text("word"),
        _int("memory"),
        PrimaryKeyConstraint("org", "skill_id", "word", "memory"),
        sqlite_with_rowid=False,
    )
    op.create_index("memory_words_of", "memory_words", ["memory"])


def _create_runs() -> None:
    op.create_table(
        "executions",
        Column("id", INT, primary_key=True),
        _int("org"),
        _text("kind"),
        _int("resource_id", null=True),
        Column("variation_id", sa.LargeBinary),
        _bool("is_draft"),
        _text("user_id"),
        _text("thread_id"),
        _text("started_by"),
        _int("wake_at", null=True),
        _int("claimed_by", null=True),
        _int("epoch"),
    )
    op.create_index("executions_draft", "executions", ["variation_id"], **_only_where(sa.text("is_draft")))
    op.create_index(
        "executions_due",
        "executions",
        ["wake_at"],
        **_only_where(sa.text("wake_at IS NOT NULL AND claimed_by IS NULL")),
    )
    op.create_index(
        "executions_due_org",
        "executions",
        ["org", "wake_at"],
        **_only_where(sa.text("wake_at IS NOT NULL AND claimed_by IS NULL")),
    )
    op.create_index("executions_thread", "executions", ["org", "thread_id"])
    op.create_index("executions_variation", "executions", ["variation_id"])
    op.create_index("executions_claims", "executions", ["claimed_by"], **_only_where(sa.text("claimed_by IS NOT NULL")))
    op.create_table(
        "journal",
        _int("execution"),
        _int("pos"),
        Column("checksum", sa.Integer, nullable=False),
        _text("entry"),
        PrimaryKeyConstraint("execution", "pos"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "runs",
        Column("key", INT, primary_key=True),
        _int("org"),
        _text("id"),
        _int("execution"),
        _text("user_id"),
        Column("fingerprint", sa.LargeBinary, nullable=False),
        _text("status"),
        _text("parent_run_id", null=True),
        _text("resumed_by", null=True),
        _text("result", null=True),
        _int("created_at"),
        _int("updated_at"),
        _int("finished_at", null=True),
        *map(_text, ("started_by", "origin", "kind")),
        _int("resource_id", null=True),
        sa.UniqueConstraint("org", "id"),
    )
    op.create_index("runs_target", "runs", ["org", "kind", "resource_id", "key"])
    op.create_index("runs_user", "runs", ["org", "user_id", "key"])
    op.create_index("runs_created", "runs", ["org", "created_at"])
    op.create_index("runs_status", "runs", ["org", "status", "key"], **_only_where(sa.text("status != 'done'")))
    op.create_index("runs_origin", "runs", ["org", "origin", "key"], **_only_where(sa.text("origin != 'api'")))
    op.create_index("runs_recent", "runs", ["org", "key"])
    op.create_index("runs_execution", "runs", ["execution"])
    op.create_table(
        "interrupts",
        Column("key", INT, primary_key=True),
        _int("org"),
        _int("execution"),
        _text("body"),
        sqlite_autoincrement=True,
    )
    op.create_index("interrupts_inbox", "interrupts", ["org", "key"])
    op.create_index("interrupts_execution", "interrupts", ["execution"])
    op.create_table(
        "closed_interrupts",
        Column("key", INT, primary_key=True, autoincrement=False),
        *map(_int, ("org", "execution")),
        *map(_text, ("body", "decision")),
        _int("decided_at"),
    )
    op.create_index("closed_interrupts_execution", "closed_interrupts", ["execution"])
    op.create_table(
        "approvers",
        _int("org"),
        _text("subject"),
        *map(_int, ("closed", "interrupt")),
        PrimaryKeyConstraint("org", "subject", "closed", "interrupt"),
        sqlite_with_rowid=False,
    )
    op.create_index("approvers_interrupt", "approvers", ["interrupt"])
    op.create_table(
        "workers",
        Column("id", INT, primary_key=True),
        _text("host"),
        _int("pid"),
        _int("beats"),
        sqlite_autoincrement=True,
    )


def _create_records() -> None:
    op.create_table(
        "conversations",
        Column("key", INT, primary_key=True),
        _int("org"),
        *map(_text, ("thread_id", "user_id")),
        *map(_int, ("created_at", "updated_at")),
        sa.UniqueConstraint("org", "thread_id", "user_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("conversations_recent", "conversations", ["org", sa.text("updated_at DESC"), sa.text("key DESC")])
    op.create_table(
        "participants",
        _int("conversation"),
        _text("kind"),
        *map(_int, ("id", "org", "updated_at")),
        PrimaryKeyConstraint("conversation", "kind", "id"),
        sqlite_with_rowid=False,
    )
    latest: list[Any] = ["org", "kind", "id", sa.text("updated_at DESC"), sa.text("conversation DESC")]
    op.create_index("participants_recent", "participants", latest)
    op.create_table(
        "messages",
        Column("seq", INT, primary_key=True),
        _int("conversation"),
        _text("type"),
        _int("length"),
        _int("skill_id", null=True),
        *map(_int, ("attached", "execution", "at")),
        _text("id"),
        *(_text(name, null=True) for name in ("tool_call_id", "tool_calls", "attachments")),
        _text("content"),
        sqlite_autoincrement=True,
    )
    op.create_index("messages_conversation", "messages", ["conversation", "seq"])
    op.create_table(
        "usage",
        Column("key", INT, primary_key=True),
        *map(_int, ("org", "at")),
        _text("model", null=True),
        *(_int(name, null=True) for name in ("skill_id", "workflow_id")),
        _text("user_id"),
        *map(_int, ("input_tokens", "output_tokens", "calls", "duration_ms")),
        _int("cost", null=True),
    )
    op.create_index("usage_at", "usage", ["org", "at"])
    op.create_index("usage_user", "usage", ["org", "user_id", "at"])
    op.create_table(
        "postings",
        _org(),
        *map(_text, ("id", "interface_id", "mark", "place", "run_id")),
        _int("next_at", null=True),
        _text("told", null=True),
        _int("tries"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    op.create_index("postings_due_org", "postings", ["org", "next_at"], **_only_where(sa.text("next_at IS NOT NULL")))
    op.create_index("postings_due", "postings", ["next_at"], **_only_where(sa.text("next_at IS NOT NULL")))


def _text(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, TEXT, nullable=null)


def _int(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, INT, nullable=null)


def _bool(name: str) -> Column[Any]:
    return Column(name, Boolean, nullable=False)


def _only_where(condition: Any) -> dict[str, Any]:
    return {"sqlite_where": condition, "postgresql_where": condition}


def _org() -> Column[Any]:
    return Column("org", INT, ForeignKey("organizations.key"), nullable=False)
