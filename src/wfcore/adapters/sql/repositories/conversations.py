"""Conversations in tables, written within the journal's transaction."""

import heapq
import json
from collections.abc import Sequence
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.row_values import to_json
from wfcore.adapters.sql.store import CommitTransaction, Store
from wfcore.domain.projections.messages import MessageRow
from wfcore.domain.resources.access import Principal
from wfcore.ports.repositories.conversations import Conversation, Message, MessageSize

OPEN: Final = """
INSERT INTO wfcore_conversations (org, thread_id, user_id, created_at, updated_at)
SELECT org, thread_id, user_id, ?2, ?3 FROM wfcore_executions WHERE id = ?1
ON CONFLICT (org, thread_id, user_id) DO UPDATE
SET updated_at = max(wfcore_conversations.updated_at, excluded.updated_at)
RETURNING key, org, updated_at"""
"""The conversation of the execution's user in its thread, created or updated."""

ADD_TARGET: Final = """
INSERT INTO wfcore_participants (org, conversation, kind, id, updated_at)
SELECT org, ?2, kind, resource_id, 0 FROM wfcore_executions
WHERE id = ?1 AND kind IN ('workflow', 'skill') AND resource_id IS NOT NULL
ON CONFLICT DO NOTHING"""

ADD_SKILL: Final = """
INSERT INTO wfcore_participants (org, conversation, kind, id, updated_at) VALUES (?, ?, 'skill', ?, 0)
ON CONFLICT DO NOTHING"""

TOUCH: Final = "UPDATE wfcore_participants SET updated_at = ?2 WHERE conversation = ?1"

ADD_MESSAGE: Final = """
INSERT INTO wfcore_messages (conversation, type, length, skill_id, attached, execution, at, id, tool_call_id,
tool_calls, attachments, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

# Reads. `:user` and `:subjects` are the principal's, `:org` is the organization's UUID.

_ORG: Final = "(SELECT key FROM wfcore_organizations WHERE uuid = :org)"

_COLUMNS: Final = """
c.key, c.thread_id, c.user_id, c.created_at, c.updated_at,
(SELECT json_group_array(p.id) FROM wfcore_participants p WHERE p.conversation = c.key AND p.kind = 'skill')"""

_VISIBLE_TO: Final = """
({c}.user_id = :user OR (
    SELECT 1 FROM wfcore_participants p JOIN wfcore_resources s ON s.org = p.org AND s.kind = p.kind AND s.id = p.id
    JOIN wfcore_grants g ON g.resource = s.key
    WHERE p.conversation = {c}.key AND g.use AND g.subject IN (SELECT value FROM json_each(:subjects)) LIMIT 1) = 1)"""
"""A look-up for each conversation. With EXISTS instead of the subquery, PostgreSQL would read all grants first."""

_WITH_SKILL: Final = """
AND EXISTS (
    SELECT 1 FROM wfcore_participants p WHERE p.conversation = {c}.key AND p.kind = 'skill' AND p.id = :skill)"""

_OWN: Final = f"""
SELECT {_COLUMNS} FROM wfcore_conversations c WHERE c.org = {_ORG} AND c.thread_id = :thread AND c.user_id = :user"""

_VISIBLE: Final = f"""
SELECT {_COLUMNS} FROM wfcore_conversations c
WHERE c.org = {_ORG} AND c.thread_id IN (SELECT value FROM json_each(:threads)) AND {_VISIBLE_TO.format(c="c")}"""

_LATEST: Final = "ORDER BY +c.updated_at DESC, +c.key DESC"
"""The plus signs prevent SQLite from scanning the index by time of all threads."""

_RECENT: Final = f"""
SELECT c.thread_id FROM wfcore_conversations c
WHERE c.org = {_ORG} AND (c.updated_at, c.key) < (:at, :key) AND {_VISIBLE_TO.format(c="c")}"""

_RECENT_OF_SKILL: Final = f"""
SELECT c.thread_id FROM wfcore_participants l CROSS JOIN wfcore_conversations c ON c.key = l.conversation
WHERE l.org = {_ORG} AND l.kind = 'skill' AND l.id = :skill AND (l.updated_at, l.conversation) < (:at, :key)
AND {_VISIBLE_TO.format(c="c")}"""

_NEWER: Final = """
AND NOT EXISTS (
    SELECT 1 FROM wfcore_conversations n WHERE n.org = c.org AND n.thread_id = c.thread_id
    AND (+n.updated_at, +n.key) > (c.updated_at, c.key) AND {seen})"""
"""A thread is sorted by the latest of its visible conversations."""

_SIZES: Final = """
SELECT seq, type, length, skill_id, attached FROM wfcore_messages
WHERE conversation = :key AND seq < :before ORDER BY seq DESC LIMIT :limit"""

_MESSAGES: Final = """
SELECT seq, type, id, content, tool_calls, attachments, tool_call_id, skill_id, at FROM wfcore_messages
WHERE conversation = :key AND seq > :after AND seq <= :up_to ORDER BY seq"""

_EXISTS: Final = f"SELECT key FROM wfcore_conversations WHERE key = :key AND org = {_ORG}"

_REMOVE: Final = f"DELETE FROM wfcore_conversations WHERE key = :key AND org = {_ORG}"
"""The row is deleted first, so that concurrent writers to the conversation wait for it."""

_REMOVE_REST: Final = (
    "DELETE FROM wfcore_messages WHERE conversation = :key",
    "DELETE FROM wfcore_participants WHERE conversation = :key",
)

MAX_KEY: Final = 2**63 - 1


class SqlConversations:
    """Implements the port `ConversationRepository` on an open database."""

    def __init__(self, database: Store) -> None:
        self._database = database

    async def own(self, org: str, thread_id: str, user_id: str) -> Conversation | None:
        rows = await self._read(_OWN, org=org, thread=thread_id, user=user_id)
        return _conversation(org, rows[0]) if rows else None

    async def visible(self, principal: Principal, thread_id: str, *, skill_id: int | None = None) -> list[Conversation]:
        return await self._of_threads(principal, [thread_id], skill_id)

    async def page(
        self, principal: Principal, *, limit: int, before: tuple[int, int] | None = None, skill_id: int | None = None
    ) -> list[list[Conversation]]:
        at, key = before or (MAX_KEY, 0)
        statement, values = (
            page_statement(skill_id),
            {**_principal_values(principal), "at": at, "key": key, "limit": limit},
        )
        async with self._database.reading() as connection:
            threads = [thread for (thread,) in await connection.scan(statement, values | _skill_value(skill_id))]
        found: dict[str, list[Conversation]] = {thread: [] for thread in threads}
        for one in await self._of_threads(principal, threads, skill_id):
            found[one.thread_id].append(one)
        return [parts for parts in found.values() if parts]

    async def message_sizes(
        self, conversations: Sequence[Conversation], *, limit: int, before: int | None = None
    ) -> list[MessageSize]:
        found = await self._of_each(conversations, _SIZES, before=MAX_KEY if before is None else before, limit=limit)
        newest_first = heapq.merge(*found, key=lambda row: row[0], reverse=True)
        return [MessageSize(*row) for row, _ in zip(newest_first, range(limit), strict=False)]

    async def messages(self, conversations: Sequence[Conversation], *, after: int, up_to: int) -> list[Message]:
        found = await self._of_each(conversations, _MESSAGES, after=after, up_to=up_to)
        return [_message(row) for row in heapq.merge(*found, key=lambda row: row[0])]

    async def remove(self, conversation: Conversation) -> bool:
        values = {"key": conversation.key, "org": conversation.org}
        async with self._database.writing() as connection:
            if not (await connection.exec_driver_sql(_REMOVE, values)).rowcount:
                return False
            for statement in _REMOVE_REST:
                await connection.exec_driver_sql(statement, {"key": conversation.key})
            return True

    async def _of_threads(
        self, principal: Principal, threads: Sequence[str], skill_id: int | None
    ) -> list[Conversation]:
        values = {**_principal_values(principal), **_skill_value(skill_id), "threads": to_json(list(threads))}
        rows = await self._read(threads_statement(skill_id), **values)
        return [_conversation(principal.org_uuid, row) for row in rows]

    async def _of_each(
        self, conversations: Sequence[Conversation], statement: str, **values: Any
    ) -> list[list[tuple[Any, ...]]]:
        """The rows of each conversation, by one index scan each: a common query would have to sort them."""
        found = []
        async with self._database.reading() as connection:
            for one in conversations:
                key = {"key": one.key, "org": one.org}
                if (await connection.exec_driver_sql(_EXISTS, key)).first() is not None:
                    rows = await connection.exec_driver_sql(statement, {"key": one.key, **values})
                    found.append([tuple(row) for row in rows.fetchall()])
        return found

    async def _read(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        async with self._database.reading() as connection:
            return [tuple(row) for row in (await connection.exec_driver_sql(statement, values)).fetchall()]


def threads_statement(skill_id: int | None) -> str:
    """The statement for the visible conversations of some threads, by an index on the thread."""
    return f"{_VISIBLE} {'' if skill_id is None else _WITH_SKILL.format(c='c')} {_LATEST}"


def page_statement(skill_id: int | None) -> str:
    """The statement for a page of threads: one backward scan of an index by time, that of the skill if given."""
    seen = _VISIBLE_TO.format(c="n")
    if skill_id is None:
        return f"{_RECENT} {_NEWER.format(seen=seen)} ORDER BY c.updated_at DESC, c.key DESC LIMIT :limit"
    newer = _NEWER.format(seen=f"{seen} {_WITH_SKILL.format(c='n')}")
    return f"{_RECENT_OF_SKILL} {newer} ORDER BY l.updated_at DESC, l.conversation DESC LIMIT :limit"


def add_messages(transaction: CommitTransaction, execution: int, rows: Sequence[MessageRow]) -> None:
    """Add messages to the conversation of the execution's user, within the journal's transaction."""
    if not rows:
        return
    times = [row.at for row in rows]
    ((key, org, updated_at),) = transaction.execute(OPEN, (execution, min(times), max(times))).fetchall()
    transaction.execute(ADD_TARGET, (execution, key))
    skills = {row.skill_id for row in rows if row.skill_id is not None}
    transaction.executemany(ADD_SKILL, [(org, key, skill) for skill in sorted(skills)])
    transaction.execute(TOUCH, (key, updated_at))
    transaction.executemany(ADD_MESSAGE, [_values(key, execution, row) for row in rows])


def _values(key: int, execution: int, row: MessageRow) -> tuple[Any, ...]:
    calls = to_json(list(row.tool_calls)) if row.tool_calls else None
    attachments = None if row.attachments is None else to_json(row.attachments)
    head = (key, row.type, row.length, row.skill_id, row.attached, execution, row.at)
    return (*head, row.id, row.tool_call_id, calls, attachments, to_json(row.content))


def _principal_values(principal: Principal) -> dict[str, Any]:
    subjects = to_json(sorted(principal.subjects))
    return {"org": principal.org_uuid, "user": principal.user_id, "subjects": subjects}


def _skill_value(skill_id: int | None) -> dict[str, int]:
    return {} if skill_id is None else {"skill": skill_id}


def _conversation(org: str, row: Sequence[Any]) -> Conversation:
    *own, skills = row
    key, thread_id, user_id, created_at, updated_at = own
    return Conversation(org, key, thread_id, user_id, created_at, updated_at, tuple(sorted(json.loads(skills))))


def _message(row: Sequence[Any]) -> Message:
    seq, type_, name, content, calls, attachments, *rest = row
    made = tuple(json.loads(calls)) if calls else ()
    message = Message(seq, type_, name, json.loads(content), made, *rest)
    return message if attachments is None else attrs.evolve(message, attachments=json.loads(attachments))
