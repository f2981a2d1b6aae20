"""The tables of the first release.

The columns are written out again and not taken from the tables of today, which go on changing.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Boolean, Column, ForeignKey, PrimaryKeyConstraint

from wfcore.adapters.sql.migrations.names import own

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
    _create_hooks()
    _create_delegations()
    _create_erasures()


def _create_directory() -> None:
    op.create_table(
        own("organizations"),
        Column("key", INT, primary_key=True),
        _text("uuid"),
        _text("name"),
        _int("created_at"),
        _int("max_concurrent_runs", null=True),
        sa.UniqueConstraint("uuid"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        own("organizations_limited"),
        own("organizations"),
        ["max_concurrent_runs"],
        **_only_where(sa.text("max_concurrent_runs IS NOT NULL")),
    )
    op.create_table(
        own("members"),
        _org(),
        _text("user_id"),
        _text("email", null=True),
        _bool("email_verified"),
        _text("name", null=True),
        _text("role"),
        PrimaryKeyConstraint("org", "user_id"),
        sqlite_with_rowid=False,
    )
    op.create_index(own("members_email"), own("members"), ["org", "email", "user_id"])
    op.create_table(
        own("groups"),
        _org(),
        _text("id"),
        _text("name"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        own("group_members"),
        _int("org"),
        _text("user_id"),
        _text("group_id"),
        PrimaryKeyConstraint("org", "user_id", "group_id"),
        sa.ForeignKeyConstraint(["org", "user_id"], [own("members.org"), own("members.user_id")]),
        sqlite_with_rowid=False,
    )
    op.create_index(own("group_members_group"), own("group_members"), ["org", "group_id", "user_id"])
    op.create_table(
        own("tokens"),
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
    op.create_index(own("tokens_user"), own("tokens"), ["org", "user_id", "created_at", "prefix"])
    _create_audit()


def _create_audit() -> None:
    op.create_table(
        own("audit"),
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
    op.create_index(own("audit_at"), own("audit"), ["org", "at", "key"])
    op.create_index(own("audit_user"), own("audit"), ["org", "user_id", "at", "key"])
    op.create_index(own("audit_action"), own("audit"), ["org", "action", "at", "key"])


def _create_content() -> None:
    op.create_table(
        own("counters"),
        _org(),
        _text("kind"),
        _int("last"),
        PrimaryKeyConstraint("org", "kind"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        own("resources"),
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
        _int("max_concurrent_runs", null=True),
        _bool("is_scheduled"),
        sa.UniqueConstraint("org", "kind", "id"),
        sa.UniqueConstraint("org", "kind", "slug"),
    )
    op.create_index(
        own("resources_limited"),
        own("resources"),
        ["org", "kind", "id"],
        **_only_where(sa.text("max_concurrent_runs IS NOT NULL")),
    )
    op.create_index(
        own("resources_scheduled"), own("resources"), ["org", "kind", "id"], **_only_where(sa.text("is_scheduled"))
    )
    op.create_table(
        own("grants"),
        Column("resource", INT, ForeignKey(own("resources.key")), nullable=False),
        _text("subject"),
        _bool("use"),
        _bool("manage"),
        PrimaryKeyConstraint("resource", "subject"),
        sqlite_with_rowid=False,
    )
    op.create_index(own("grants_subject"), own("grants"), ["subject"])
    op.create_table(
        own("variations"),
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
        sa.ForeignKeyConstraint(
            ["org", "kind", "resource_id"], [own("resources.org"), own("resources.kind"), own("resources.id")]
        ),
    )
    op.create_index(
        own("variations_deployed"),
        own("variations"),
        ["org", "kind", "resource_id", sa.text("deployed_at DESC"), sa.text("id DESC")],
        **_only_where(sa.text("deployed_at IS NOT NULL")),
    )
    op.create_table(
        own("kept"),
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
        own("interfaces"),
        _org(),
        _text("target"),
        _int("resource_id"),
        _text("id"),
        _text("kind"),
        _text("config"),
        _int("created_at"),
        _text("sealed", null=True),
        PrimaryKeyConstraint("org", "target", "resource_id", "id"),
        sqlite_with_rowid=False,
    )
    op.create_index(own("interfaces_id"), own("interfaces"), ["id"])


def _create_triggers() -> None:
    op.create_table(
        own("schedules"),
        _org(),
        _int("workflow_id"),
        _text("variation_id"),
        _int("next_at", null=True),
        _text("paused", null=True),
        _text("last_run_id", null=True),
        _text("missed"),
        _text("later", null=True),
        PrimaryKeyConstraint("org", "workflow_id"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        own("schedules_due_org"), own("schedules"), ["org", "next_at"], **_only_where(sa.text("next_at IS NOT NULL"))
    )
    op.create_index(own("schedules_due"), own("schedules"), ["next_at"], **_only_where(sa.text("next_at IS NOT NULL")))
    op.create_table(
        own("webhooks"),
        _org(),
        _int("workflow_id"),
        _text("digest"),
        _text("sealed"),
        PrimaryKeyConstraint("org", "workflow_id"),
        sqlite_with_rowid=False,
    )
    op.create_index(own("webhooks_digest"), own("webhooks"), ["digest"], unique=True)


def _create_organization_rows() -> None:
    op.create_table(
        own("context_items"),
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
        own("policies"),
        _org(),
        _text("id"),
        _text("name"),
        _text("condition"),
        _text("requirement"),
        _text("severity"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        own("connections"),
        _org(),
        _text("id"),
        _text("name"),
        _text("provider"),
        _text("kind"),
        _text("config"),
        _text("sealed"),
        _text("status"),
        _int("last_checked_at", null=True),
        _text("status_reason", null=True),
        _text("ownership"),
        _text("client"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        own("connection_grants"),
        _org(),
        _text("id"),
        _text("connection_id"),
        _text("user_id"),
        _text("sealed"),
        _int("expires_at", null=True),
        _bool("can_refresh"),
        _text("status"),
        _text("reason", null=True),
        _int("leased_until"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )


def _create_memories() -> None:
    op.create_table(
        own("memories"),
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
    op.create_index(own("memories_list"), own("memories"), ["org", "skill_id", "key"], **_only_where(live))
    op.create_index(
        own("memories_of_user"), own("memories"), ["org", "skill_id", "user_id", "key"], **_only_where(live)
    )
    op.create_table(
        own("memory_words"),
        *map(_int, ("org", "skill_id")),
        _text("word"),
        _int("memory"),
        PrimaryKeyConstraint("org", "skill_id", "word", "memory"),
        sqlite_with_rowid=False,
    )
    op.create_index(own("memory_words_of"), own("memory_words"), ["memory"])


def _create_runs() -> None:
    op.create_table(
        own("executions"),
        Column("id", INT, primary_key=True),
        _int("org"),
        _text("kind"),
        _int("resource_id", null=True),
        Column("variation_id", sa.LargeBinary),
        _bool("is_draft"),
        _text("user_id"),
        _text("thread_id", null=True),
        _text("started_by"),
        _int("wake_at", null=True),
        _int("claimed_by", null=True),
        _int("epoch"),
        sqlite_autoincrement=True,
    )
    op.create_index(own("executions_draft"), own("executions"), ["variation_id"], **_only_where(sa.text("is_draft")))
    op.create_index(
        own("executions_due"),
        own("executions"),
        ["wake_at"],
        **_only_where(sa.text("wake_at IS NOT NULL AND claimed_by IS NULL")),
    )
    op.create_index(
        own("executions_due_org"),
        own("executions"),
        ["org", "wake_at"],
        **_only_where(sa.text("wake_at IS NOT NULL AND claimed_by IS NULL")),
    )
    op.create_index(
        own("executions_thread"),
        own("executions"),
        ["org", "thread_id"],
        **_only_where(sa.text("thread_id IS NOT NULL")),
    )
    op.create_index(own("executions_variation"), own("executions"), ["variation_id"])
    op.create_index(
        own("executions_claims"), own("executions"), ["claimed_by"], **_only_where(sa.text("claimed_by IS NOT NULL"))
    )
    op.create_table(
        own("journal"),
        _int("execution"),
        _int("pos"),
        Column("checksum", sa.Integer, nullable=False),
        _text("entry"),
        PrimaryKeyConstraint("execution", "pos"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        own("snapshots"),
        Column("execution", INT, primary_key=True, autoincrement=False),
        _int("org"),
        _int("length"),
        Column("checksum", sa.Integer, nullable=False),
        Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        own("runs"),
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
        _int("updated_at", null=True),
        _int("finished_at", null=True),
        *map(_text, ("started_by", "origin")),
        _int("target"),
        _text("retried_by", null=True),
        _text("forked_from", null=True),
        Column("variation_id", sa.LargeBinary),
        _bool("is_draft"),
        sa.UniqueConstraint("org", "id"),
    )
    op.create_index(
        own("runs_variation"), own("runs"), ["variation_id"], **_only_where(sa.text("variation_id IS NOT NULL"))
    )
    # Each index of SQLite ends with the key. Without it, PostgreSQL would look for the first run of an execution in the
    # order of the keys of all runs, until the table is analyzed.
    key = ["key"] if op.get_context().dialect.name == "postgresql" else []
    op.create_index(own("runs_target"), own("runs"), ["org", "target", *key])
    op.create_index(own("runs_user"), own("runs"), ["org", "user_id", *key])
    op.create_index(own("runs_created"), own("runs"), ["org", "created_at"])
    op.create_index(
        own("runs_status"), own("runs"), ["org", "status", *key], **_only_where(sa.text("status != 'done'"))
    )
    op.create_index(own("runs_own"), own("runs"), ["org", "user_id", *key], **_only_where(sa.text(f"target > {2**40}")))
    op.create_index(own("runs_origin"), own("runs"), ["org", "origin", *key], **_only_where(sa.text("origin != ''")))
    op.create_index(own("runs_recent"), own("runs"), ["org", *key])
    op.create_index(own("runs_turns"), own("runs"), ["execution", *key])
    op.create_table(
        own("interrupts"),
        Column("key", INT, primary_key=True),
        _int("org"),
        _int("execution"),
        _text("body"),
        _int("resource", null=True),
        _int("expires_at", null=True),
        Column("id_hash", sa.Integer, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index(own("interrupts_id"), own("interrupts"), ["id_hash"])
    op.create_index(own("interrupts_inbox"), own("interrupts"), ["resource", *key])
    op.create_index(
        own("interrupts_deadline"),
        own("interrupts"),
        ["org", "expires_at"],
        **_only_where(sa.text("expires_at IS NOT NULL")),
    )
    op.create_index(own("interrupts_execution"), own("interrupts"), ["execution"])
    op.create_table(
        own("closed_interrupts"),
        Column("key", INT, primary_key=True, autoincrement=False),
        *map(_int, ("org", "execution")),
        *map(_text, ("body", "decision")),
        _int("decided_at"),
        *(_int(name, null=True) for name in ("resource", "expires_at")),
        Column("id_hash", sa.Integer, nullable=False),
    )
    op.create_index(own("closed_interrupts_id"), own("closed_interrupts"), ["id_hash"])
    op.create_index(own("closed_interrupts_inbox"), own("closed_interrupts"), ["resource", *key])
    op.create_index(own("closed_interrupts_execution"), own("closed_interrupts"), ["execution"])
    op.create_table(
        own("approvers"),
        _int("org"),
        _text("subject"),
        *map(_int, ("closed", "interrupt")),
        PrimaryKeyConstraint("org", "subject", "closed", "interrupt"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        own("call_slots"),
        Column("key", INT, primary_key=True),
        _int("org"),
        _text("name"),
        _int("execution"),
        _text("attempt"),
        _int("most"),
        sa.UniqueConstraint("execution", "attempt"),
        sqlite_autoincrement=True,
    )
    op.create_index(own("call_slots_queue"), own("call_slots"), ["org", "name", "key"])
    op.create_index(own("approvers_interrupt"), own("approvers"), ["interrupt"])
    op.create_table(
        own("workers"),
        Column("id", INT, primary_key=True),
        _text("host"),
        _int("pid"),
        _int("beats"),
        sqlite_autoincrement=True,
    )


def _create_records() -> None:
    op.create_table(
        own("conversations"),
        Column("key", INT, primary_key=True),
        _int("org"),
        *map(_text, ("thread_id", "user_id")),
        *map(_int, ("created_at", "updated_at")),
        sa.UniqueConstraint("org", "thread_id", "user_id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        own("conversations_recent"), own("conversations"), ["org", sa.text("updated_at DESC"), sa.text("key DESC")]
    )
    op.create_table(
        own("participants"),
        _int("conversation"),
        _text("kind"),
        *map(_int, ("id", "org", "updated_at")),
        PrimaryKeyConstraint("conversation", "kind", "id"),
        sqlite_with_rowid=False,
    )
    latest: list[Any] = ["org", "kind", "id", sa.text("updated_at DESC"), sa.text("conversation DESC")]
    op.create_index(own("participants_recent"), own("participants"), latest)
    op.create_table(
        own("messages"),
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
    op.create_index(own("messages_conversation"), own("messages"), ["conversation", "seq"])
    op.create_table(
        own("usage"),
        Column("key", INT, primary_key=True),
        *map(_int, ("org", "at")),
        _text("model", null=True),
        *(_int(name, null=True) for name in ("skill_id", "workflow_id")),
        _text("user_id"),
        *map(_int, ("input_tokens", "output_tokens", "calls", "duration_ms")),
        _int("cost", null=True),
        _text("origin"),
    )
    op.create_index(own("usage_at"), own("usage"), ["org", "at"])
    op.create_index(own("usage_user"), own("usage"), ["org", "user_id", "at"])
    op.create_table(
        own("verdicts"),
        Column("execution", INT, primary_key=True, autoincrement=False),
        *map(_int, ("org", "skill_id")),
        *map(_text, ("content", "evaluation_id", "case_id", "run_id")),
        _int("at"),
        _int("passed", null=True),
        _text("body"),
    )
    op.create_index(own("verdicts_content"), own("verdicts"), ["org", "skill_id", "content", "case_id", "execution"])
    op.create_table(
        own("postings"),
        _org(),
        *map(_text, ("id", "interface_id", "mark", "place", "run_id")),
        _int("next_at", null=True),
        _text("told", null=True),
        _int("tries"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        own("postings_due_org"), own("postings"), ["org", "next_at"], **_only_where(sa.text("next_at IS NOT NULL"))
    )
    op.create_index(own("postings_due"), own("postings"), ["next_at"], **_only_where(sa.text("next_at IS NOT NULL")))


def _create_hooks() -> None:
    op.create_table(
        own("hooks"),
        _org(),
        *map(_text, ("id", "url", "events")),
        _int("workflow_id", null=True),
        _bool("is_enabled"),
        *map(_text, ("user_id", "sealed")),
        _text("former", null=True),
        _int("former_until"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        own("subscriptions"),
        _int("org"),
        *map(_text, ("event", "hook", "handler")),
        _int("workflow_id", null=True),
        PrimaryKeyConstraint("org", "event", "hook", "handler"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        own("deliveries"),
        Column("key", INT, primary_key=True),
        _int("org"),
        *map(_text, ("hook", "handler", "event")),
        _int("at"),
        _text("kind"),
        _int("resource_id", null=True),
        *map(_text, ("user_id", "run_id", "interrupt_id")),
        _text("status", null=True),
        _text("decision", null=True),
        _text("state"),
        _int("next_at", null=True),
        _int("tries"),
        _text("attempts"),
        _text("body", null=True),
        sqlite_autoincrement=True,
    )
    op.create_index(own("deliveries_hook"), own("deliveries"), ["org", "hook", "key"])
    due = _only_where(sa.text("next_at IS NOT NULL"))
    op.create_index(own("deliveries_due"), own("deliveries"), ["handler", "next_at"], **due)
    op.create_index(own("deliveries_due_org"), own("deliveries"), ["handler", "org", "next_at"], **due)


def _create_delegations() -> None:
    op.create_table(
        own("delegations"),
        _org(),
        *map(_text, ("id", "from_user", "to_user")),
        _int("until", null=True),
        _text("workflow_ids", null=True),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    op.create_index(own("delegations_from"), own("delegations"), ["org", "from_user"])
    op.create_index(own("delegations_to"), own("delegations"), ["org", "to_user"])


def _create_erasures() -> None:
    op.create_table(
        own("erasures"),
        _org(),
        *map(_text, ("id", "body")),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )


def _text(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, TEXT, nullable=null)


def _int(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, INT, nullable=null)


def _bool(name: str) -> Column[Any]:
    return Column(name, Boolean, nullable=False)


def _only_where(condition: Any) -> dict[str, Any]:
    return {"sqlite_where": condition, "postgresql_where": condition}


def _org() -> Column[Any]:
    return Column("org", INT, ForeignKey(own("organizations.key")), nullable=False)
