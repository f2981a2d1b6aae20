"""The tables of records that runs write beside their journal: conversations, usage, responses to post."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, PrimaryKeyConstraint, Table

from wfcore.adapters.sql.schema.dialect import INT, TEXT, only_where


def add_record_tables(metadata: sa.MetaData) -> None:
    """Add the tables. `messages.content` is the last column, so that queries for sizes do not read the text."""
    conversations = Table(
        "wfcore_conversations",
        metadata,
        Column("key", INT, primary_key=True),
        *_ints("org"),
        *_texts("thread_id", "user_id"),
        *_ints("created_at", "updated_at"),
        sa.UniqueConstraint("org", "thread_id", "user_id"),
        sqlite_autoincrement=True,
    )
    Index(
        "wfcore_conversations_recent",
        conversations.c.org,
        _descending(conversations, "updated_at"),
        _descending(conversations, "key"),
    )
    participants = Table(
        "wfcore_participants",
        metadata,
        *_ints("conversation"),
        *_texts("kind"),
        *_ints("id", "org", "updated_at"),
        PrimaryKeyConstraint("conversation", "kind", "id"),
        sqlite_with_rowid=False,
    )
    latest = _descending(participants, "updated_at"), _descending(participants, "conversation")
    Index("wfcore_participants_recent", participants.c.org, participants.c.kind, participants.c.id, *latest)
    Table(
        "wfcore_messages",
        metadata,
        Column("seq", INT, primary_key=True),
        *_ints("conversation"),
        *_texts("type"),
        *_ints("length"),
        *_ints("skill_id", null=True),
        *_ints("attached", "execution", "at"),
        *_texts("id"),
        *_texts("tool_call_id", "tool_calls", "attachments", null=True),
        *_texts("content"),
        Index("wfcore_messages_conversation", "conversation", "seq"),
        sqlite_autoincrement=True,
    )
    Table(
        "wfcore_usage",
        metadata,
        Column("key", INT, primary_key=True),
        *_ints("org", "at"),
        *_texts("model", null=True),
        *_ints("skill_id", "workflow_id", null=True),
        *_texts("user_id"),
        *_ints("input_tokens", "output_tokens", "calls", "duration_ms"),
        *_ints("cost", null=True),
        *_texts("origin"),
        Index("wfcore_usage_at", "org", "at"),
        Index("wfcore_usage_user", "org", "user_id", "at"),
    )
    Table(
        "wfcore_verdicts",
        metadata,
        Column("execution", INT, primary_key=True, autoincrement=False),
        *_ints("org", "skill_id"),
        *_texts("content", "evaluation_id", "case_id", "run_id"),
        *_ints("at"),
        *_ints("passed", null=True),
        *_texts("body"),
        Index("wfcore_verdicts_content", "org", "skill_id", "content", "case_id", "execution"),
    )
    postings = Table(
        "wfcore_postings",
        metadata,
        Column("org", INT, ForeignKey("wfcore_organizations.key"), nullable=False),
        *_texts("id", "interface_id", "mark", "place", "run_id"),
        *_ints("next_at", null=True),
        *_texts("told", null=True),
        *_ints("tries"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    Index("wfcore_postings_due_org", postings.c.org, postings.c.next_at, **only_where(postings.c.next_at.is_not(None)))
    Index("wfcore_postings_due", postings.c.next_at, **only_where(postings.c.next_at.is_not(None)))
    _add_hook_tables(metadata)
    _add_delegations(metadata)
    _add_erasures(metadata)


def _add_hook_tables(metadata: sa.MetaData) -> None:
    """Hooks; who subscribes to which events (in organization 0: handlers of the program); deliveries."""
    Table(
        "wfcore_hooks",
        metadata,
        Column("org", INT, ForeignKey("wfcore_organizations.key"), nullable=False),
        *_texts("id", "url", "events"),
        *_ints("workflow_id", null=True),
        Column("is_enabled", sa.Boolean, nullable=False),
        *_texts("user_id", "sealed"),
        *_texts("former", null=True),
        *_ints("former_until"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )
    Table(
        "wfcore_subscriptions",
        metadata,
        *_ints("org"),
        *_texts("event", "hook", "handler"),
        *_ints("workflow_id", null=True),
        PrimaryKeyConstraint("org", "event", "hook", "handler"),
        sqlite_with_rowid=False,
    )
    deliveries = Table(
        "wfcore_deliveries",
        metadata,
        Column("key", INT, primary_key=True),
        *_ints("org"),
        *_texts("hook", "handler", "event"),
        *_ints("at"),
        *_texts("kind"),
        *_ints("resource_id", null=True),
        *_texts("user_id", "run_id", "interrupt_id"),
        *_texts("status", "decision", null=True),
        *_texts("state"),
        *_ints("next_at", null=True),
        *_ints("tries"),
        *_texts("attempts"),
        *_texts("body", null=True),
        Index("wfcore_deliveries_hook", "org", "hook", "key"),
        sqlite_autoincrement=True,
    )
    due = only_where(deliveries.c.next_at.is_not(None))
    Index("wfcore_deliveries_due", deliveries.c.handler, deliveries.c.next_at, **due)
    Index("wfcore_deliveries_due_org", deliveries.c.handler, deliveries.c.org, deliveries.c.next_at, **due)


def _add_delegations(metadata: sa.MetaData) -> None:
    """Who decides for whom."""
    Table(
        "wfcore_delegations",
        metadata,
        Column("org", INT, ForeignKey("wfcore_organizations.key"), nullable=False),
        *_texts("id", "from_user", "to_user"),
        *_ints("until", null=True),
        *_texts("workflow_ids", null=True),
        PrimaryKeyConstraint("org", "id"),
        Index("wfcore_delegations_from", "org", "from_user"),
        Index("wfcore_delegations_to", "org", "to_user"),
        sqlite_with_rowid=False,
    )


def _add_erasures(metadata: sa.MetaData) -> None:
    """Erasures of members that are not over."""
    Table(
        "wfcore_erasures",
        metadata,
        Column("org", INT, ForeignKey("wfcore_organizations.key"), nullable=False),
        *_texts("id", "body"),
        PrimaryKeyConstraint("org", "id"),
        sqlite_with_rowid=False,
    )


def _texts(*names: str, null: bool = False) -> list[Column[Any]]:
    return [Column(name, TEXT, nullable=null) for name in names]


def _ints(*names: str, null: bool = False) -> list[Column[Any]]:
    return [Column(name, INT, nullable=null) for name in names]


def _descending(table: Table, name: str) -> sa.UnaryExpression[Any]:
    return table.c[name].desc()
