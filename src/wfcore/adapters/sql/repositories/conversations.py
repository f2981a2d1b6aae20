"""Conversations in tables, written within the journal's transaction."""

import heapq
import json
from collections.abc import Sequence
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.row_values import to_json
from wfcore.adapters.sql.store import Hot, Store
from wfcore.domain.agents.context_attachments import tokens_of
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.records import MessageRecord
from wfcore.ports.conversations import Conversation, Message, MessageSize, length_of

OPEN: Final = """
INSERT INTO conversations (org, thread_id, user_id, created_at, updated_at)
SELECT org, thread_id, user_id, ?2, ?3 FROM executions WHERE id = ?1
ON CONFLICT (org, thread_id, user_id) DO UPDATE SET updated_at = max(conversations.updated_at, excluded.updated_at)
RETURNING key, org, updated_at"""
"""The conversation of who started the execution, in its thread: nobody else's can be meant."""

ADD_TARGET: Final = """
INSERT INTO participants (org, conversation, kind, id, updated_at)
SELECT org, ?2, kind, resource_id, 0 FROM executions
WHERE id = ?1 AND kind IN ('workflow', 'skill') AND resource_id IS NOT NULL
ON CONFLICT DO NOTHING"""

ADD_SKILL: Final = """
INSERT INTO participants (org, conversation, kind, id, updated_at) VALUES (?, ?, 'skill', ?, 0)
ON CONFLICT DO NOTHING"""

TOUCH: Final = "UPDATE participants SET updated_at = ?2 WHERE conversation = ?1"

ADD_MESSAGE: Final = """
INSERT INTO messages (conversation, type, length, skill_id, attached, execution, at, id, tool_call_id, tool_calls,
attachments, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

# Reading. `:user` and `:subjects` are the principal's, `:org` is the organization's UUID.

_ORG: Final = "(SELECT key FROM organizations WHERE uuid = :org)"

_COLUMNS: Final = """
c.key, c.thread_id, c.user_id, c.created_at, c.updated_at,
(SELECT json_group_array(p.id) FROM participants p WHERE p.conversation = c.key AND p.kind = 'skill')"""

_SEEN: Final = """
({c}.user_id = :user OR (
    SELECT 1 FROM participants p JOIN resources s ON s.org = p.org AND s.kind = p.kind AND s.id = p.id
    JOIN grants g ON g.resource = s.key
    WHERE p.conversation = {c}.key AND g.use AND g.subject IN (SELECT value FROM json_each(:subjects)) LIMIT 1) = 1)"""
"""Looked up for each conversation: PostgreSQL would make a table of all grants first, were it an EXISTS."""

_TOOK_PART: Final = """
AND EXISTS (SELECT 1 FROM participants p WHERE p.conversation = {c}.key AND p.kind = 'skill' AND p.id = :skill)"""

_OWN: Final = f"""
SELECT {_COLUMNS} FROM conversations c WHERE c.org = {_ORG} AND c.thread_id = :thread AND c.user_id = :user"""

_VISIBLE: Final = f"""
SELECT {_COLUMNS} FROM conversations c
WHERE c.org = {_ORG} AND c.thread_id IN (SELECT value FROM json_each(:threads)) AND {_SEEN.format(c="c")}"""

_LATEST: Final = "ORDER BY +c.updated_at DESC, +c.key DESC"
"""The plus signs keep SQLite from walking along the times of all threads instead of looking at these alone."""

_RECENT: Final = f"""
SELECT c.thread_id FROM conversations c
WHERE c.org = {_ORG} AND (c.updated_at, c.key) < (:at, :key) AND {_SEEN.format(c="c")}"""

_RECENT_OF_SKILL: Final = f"""
SELECT c.thread_id FROM participants l CROSS JOIN conversations c ON c.key = l.conversation
WHERE l.org = {_ORG} AND l.kind = 'skill' AND l.id = :skill AND (l.updated_at, l.conversation) < (:at, :key)
AND {_SEEN.format(c="c")}"""

_NEWER: Final = """
AND NOT EXISTS (
    SELECT 1 FROM conversations n WHERE n.org = c.org AND n.thread_id = c.thread_id
    AND (+n.updated_at, +n.key) > (c.updated_at, c.key) AND {seen})"""
"""A thread has the place of the latest of its conversations that can be seen."""

_HEADS: Final = """
SELECT seq, type, length, skill_id, attached FROM messages
WHERE conversation = :key AND seq < :before ORDER BY seq DESC LIMIT :limit"""

_MESSAGES: Final = """
SELECT seq, type, id, content, tool_calls, attachments, tool_call_id, skill_id, at FROM messages
WHERE conversation = :key AND seq > :after AND seq <= :up_to ORDER BY seq"""

_STILL: Final = f"SELECT key FROM conversations WHERE key = :key AND org = {_ORG}"

_REMOVE: Final = f"DELETE FROM conversations WHERE key = :key AND org = {_ORG}"
"""The row first: whoever writes to the conversation at the same time has to wait for it."""

_REMOVE_REST: Final = (
    "DELETE FROM messages WHERE conversation = :key",
    "DELETE FROM participants WHERE conversation = :key",
)

LAST: Final = 2**63 - 1


class SqlConversations:
    """Implements the port `Conversations` on an open database."""

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
        at, key = before or (LAST, 0)
        statement, values = page_statement(skill_id), {**_eyes(principal), "at": at, "key": key, "limit": limit}
        async with self._database.reading() as connection:
            threads = [thread for (thread,) in await connection.scan(statement, values | _skill(skill_id))]
        found: dict[str, list[Conversation]] = {thread: [] for thread in threads}
        for one in await self._of_threads(principal, threads, skill_id):
            found[one.thread_id].append(one)
        return [parts for parts in found.values() if parts]

    async def message_sizes(
        self, conversations: Sequence[Conversation], *, limit: int, before: int | None = None
    ) -> list[MessageSize]:
        found = await self._of_each(conversations, _HEADS, before=LAST if before is None else before, limit=limit)
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
        values = {**_eyes(principal), **_skill(skill_id), "threads": to_json(list(threads))}
        rows = await self._read(threads_statement(skill_id), **values)
        return [_conversation(principal.org_uuid, row) for row in rows]

    async def _of_each(
        self, conversations: Sequence[Conversation], statement: str, **values: Any
    ) -> list[list[tuple[Any, ...]]]:
        """One walk along the index for each: together they would have to be sorted."""
        found = []
        async with self._database.reading() as connection:
            for one in conversations:
                key = {"key": one.key, "org": one.org}
                if (await connection.exec_driver_sql(_STILL, key)).first() is not None:
                    rows = await connection.exec_driver_sql(statement, {"key": one.key, **values})
                    found.append([tuple(row) for row in rows.fetchall()])
        return found

    async def _read(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        async with self._database.reading() as connection:
            return [tuple(row) for row in (await connection.exec_driver_sql(statement, values)).fetchall()]


def threads_statement(skill_id: int | None) -> str:
    """A look at each thread by its id."""
    return f"{_VISIBLE} {'' if skill_id is None else _TOOK_PART.format(c='c')} {_LATEST}"


def page_statement(skill_id: int | None) -> str:
    """One walk back along an index of times, that of the skill when one is asked for."""
    seen = _SEEN.format(c="n")
    if skill_id is None:
        return f"{_RECENT} {_NEWER.format(seen=seen)} ORDER BY c.updated_at DESC, c.key DESC LIMIT :limit"
    newer = _NEWER.format(seen=f"{seen} {_TOOK_PART.format(c='n')}")
    return f"{_RECENT_OF_SKILL} {newer} ORDER BY l.updated_at DESC, l.conversation DESC LIMIT :limit"


def add_messages(hot: Hot, execution: int, records: Sequence[MessageRecord]) -> None:
    """Messages of an execution's own user, within the journal's transaction."""
    if not records:
        return
    times = [record.at for record in records]
    ((key, org, updated_at),) = hot.execute(OPEN, (execution, min(times), max(times))).fetchall()
    hot.execute(ADD_TARGET, (execution, key))
    skills = {record.skill_id for record in records if record.skill_id is not None}
    hot.executemany(ADD_SKILL, [(org, key, skill) for skill in sorted(skills)])
    hot.execute(TOUCH, (key, updated_at))
    hot.executemany(ADD_MESSAGE, [_row(key, execution, record) for record in records])


def _row(key: int, execution: int, record: MessageRecord) -> tuple[Any, ...]:
    calls = to_json(list(record.tool_calls)) if record.tool_calls else None
    attachments = None if record.attachments is None else to_json(record.attachments)
    attached = tokens_of(record.attachments)
    head = (key, record.type, length_of(record), record.skill_id, attached, execution, record.at)
    return (*head, record.id, record.tool_call_id, calls, attachments, to_json(record.content))


def _eyes(principal: Principal) -> dict[str, Any]:
    subjects = to_json(sorted(principal.subjects))
    return {"org": principal.org_uuid, "user": principal.user_id, "subjects": subjects}


def _skill(skill_id: int | None) -> dict[str, int]:
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
