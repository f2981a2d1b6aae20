"""Conversations in tables, written within the journal's transaction."""

import heapq
import json
from collections.abc import Sequence
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.row_values import to_json
from wfcore.adapters.sql.schema.named_tables import (
    conversations,
    executions,
    grants,
    messages,
    organizations,
    participants,
    resources,
    runs,
)
from wfcore.adapters.sql.schema.statement import Dialect, Statement, row
from wfcore.adapters.sql.schema.usable import exists_for
from wfcore.adapters.sql.store import CommitTransaction, Store
from wfcore.domain.projections.messages import MessageRow
from wfcore.domain.resources.access import Principal
from wfcore.ports.repositories.conversations import Conversation, Message, MessageSize


def thread_id(d: Dialect) -> str:
    """The thread of an execution `e`. One whose id derives from that of the execution's first run is not stored."""
    first = f"SELECT id FROM {d[runs]} WHERE key = (SELECT min(key) FROM {d[runs]} WHERE execution = e.id)"
    return f"coalesce(e.thread_id, 'thread_' || replace(({first}), '-', ''))"


def first_run_id(d: Dialect) -> str:
    """The id of the first run of an execution `e`."""
    return f"(SELECT id FROM {d[runs]} WHERE execution = e.id ORDER BY key LIMIT 1)"


OPEN: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[conversations]} (org, thread_id, user_id, created_at, updated_at)
SELECT e.org, {thread_id(d)}, e.user_id, {d[2]}, {d[3]} FROM {d[executions]} e WHERE e.id = {d[1]}
ON CONFLICT (org, thread_id, user_id) DO UPDATE
SET updated_at = {d.greatest(f"{d[conversations]}.updated_at", "excluded.updated_at")}
RETURNING key, org, updated_at"""
    )
)
"""The conversation of the execution's user in its thread, created or updated."""

ADD_TARGET: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[participants]} (org, conversation, kind, id, updated_at)
SELECT org, {d[2]}, kind, resource_id, 0 FROM {d[executions]}
WHERE id = {d[1]} AND kind IN ('workflow', 'skill') AND resource_id IS NOT NULL
ON CONFLICT DO NOTHING"""
    )
)

ADD_SKILL: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[participants]} (org, conversation, kind, id, updated_at) VALUES ({d[1]}, {d[2]}, 'skill', {d[3]}, 0)
ON CONFLICT DO NOTHING"""
    )
)

TOUCH: Final = Statement(lambda d: f"UPDATE {d[participants]} SET updated_at = {d[2]} WHERE conversation = {d[1]}")

ADD_MESSAGE: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[messages]} (conversation, type, length, skill_id, attached, execution, at, id, tool_call_id,
tool_calls, attachments, content)
VALUES {row(d, 12)}"""
    )
)

# Reads. The parameters `user` and `subjects` are the principal's, `org` is the organization's UUID.


def _org(d: Dialect) -> str:
    return f"""(SELECT key FROM {d[organizations]} WHERE uuid = {d["org"]})"""


def _columns(d: Dialect) -> str:
    return f"""
c.key, c.thread_id, c.user_id, c.created_at, c.updated_at,
(SELECT {d.array("p.id")} FROM {d[participants]} p WHERE p.conversation = c.key AND p.kind = 'skill')"""


def _visible(d: Dialect, c: str) -> str:
    """A look-up for each conversation. With EXISTS instead of the subquery, PostgreSQL would read all grants first."""
    return f"""
({c}.user_id = {d["user"]} OR (
    SELECT 1 FROM {d[participants]} p JOIN {d[resources]} s ON s.org = p.org AND s.kind = p.kind AND s.id = p.id
    JOIN {d[grants]} g ON g.resource = s.key
    WHERE p.conversation = {c}.key AND g.use AND g.subject IN (SELECT value FROM {d.values(d["subjects"])})
    AND {exists_for(d, d["subjects"])} LIMIT 1) = 1)"""


def _with_skill(d: Dialect, c: str) -> str:
    return f"""
AND EXISTS (
    SELECT 1 FROM {d[participants]} p WHERE p.conversation = {c}.key AND p.kind = 'skill' AND p.id = {d["skill"]})"""


def _newer(d: Dialect, more: str = "") -> str:
    """A thread is sorted by the latest of its visible conversations."""
    return f"""
AND NOT EXISTS (
    SELECT 1 FROM {d[conversations]} n WHERE n.org = c.org AND n.thread_id = c.thread_id
    AND (+n.updated_at, +n.key) > (c.updated_at, c.key) AND {_visible(d, "n")} {more})"""


def _threads(d: Dialect, more: str = "") -> str:
    """The visible conversations of some threads, by an index on the thread.

    The plus signs prevent SQLite from scanning the index by time of all threads.
    """
    return f"""
SELECT {_columns(d)} FROM {d[conversations]} c
WHERE c.org = {_org(d)} AND c.thread_id IN (SELECT value FROM {d.values(d["threads"])}) AND {_visible(d, "c")} {more}
ORDER BY +c.updated_at DESC, +c.key DESC"""


OWN: Final = Statement(
    lambda d: (
        f"""
SELECT {_columns(d)} FROM {d[conversations]} c
WHERE c.org = {_org(d)} AND c.thread_id = {d["thread"]} AND c.user_id = {d["user"]}"""
    )
)

THREADS: Final = Statement(_threads)
THREADS_OF_SKILL: Final = Statement(lambda d: _threads(d, _with_skill(d, "c")))

PAGE: Final = Statement(
    lambda d: (
        f"""
SELECT c.thread_id FROM {d[conversations]} c
WHERE c.org = {_org(d)} AND (c.updated_at, c.key) < ({d["at"]}, {d["key"]}) AND {_visible(d, "c")} {_newer(d)}
ORDER BY c.updated_at DESC, c.key DESC LIMIT {d["limit"]}"""
    )
)
"""A page of threads: one backward scan of an index by time."""

PAGE_OF_SKILL: Final = Statement(
    lambda d: (
        f"""
SELECT c.thread_id FROM {d[participants]} l {d.join()} {d[conversations]} c ON c.key = l.conversation
WHERE l.org = {_org(d)} AND l.kind = 'skill' AND l.id = {d["skill"]}
AND (l.updated_at, l.conversation) < ({d["at"]}, {d["key"]})
AND {_visible(d, "c")} {_newer(d, _with_skill(d, "n"))}
ORDER BY l.updated_at DESC, l.conversation DESC LIMIT {d["limit"]}"""
    )
)
"""The same of the threads in which a skill took part, by its index."""

SIZES: Final = Statement(
    lambda d: (
        f"""
SELECT seq, type, length, skill_id, attached FROM {d[messages]}
WHERE conversation = {d["key"]} AND seq < {d["before"]} ORDER BY seq DESC LIMIT {d["limit"]}"""
    )
)

MESSAGES: Final = Statement(
    lambda d: (
        f"""
SELECT seq, type, id, content, tool_calls, attachments, tool_call_id, skill_id, at FROM {d[messages]}
WHERE conversation = {d["key"]} AND seq > {d["after"]} AND seq <= {d["up_to"]} ORDER BY seq"""
    )
)

_EXISTS: Final = Statement(
    lambda d: f"""SELECT key FROM {d[conversations]} WHERE key = {d["key"]} AND org = {_org(d)}"""
)

_LOCK: Final = Statement(
    lambda d: f"""UPDATE {d[conversations]} SET updated_at = updated_at WHERE key = {d["key"]} AND org = {_org(d)}"""
)
"""Runs before a removal, so that concurrent writers to the conversation wait for it, and it for them."""

_NEWER: Final = Statement(
    lambda d: f"""SELECT 1 FROM {d[messages]} WHERE conversation = {d["key"]} AND seq > {d["newest"]} LIMIT 1"""
)

_REMOVE: Final = (
    Statement(lambda d: f"DELETE FROM {d[conversations]} WHERE key = {d[1]}"),
    Statement(lambda d: f"DELETE FROM {d[messages]} WHERE conversation = {d[1]}"),
    Statement(lambda d: f"DELETE FROM {d[participants]} WHERE conversation = {d[1]}"),
)

MAX_KEY: Final = 2**63 - 1


class SqlConversations:
    """Implements the port `ConversationRepository` on an open database."""

    def __init__(self, database: Store) -> None:
        self._database = database

    async def own(self, org: str, thread_id: str, user_id: str) -> Conversation | None:
        rows = await self._read(OWN, org=org, thread=thread_id, user=user_id)
        return _conversation(org, rows[0]) if rows else None

    async def visible(self, principal: Principal, thread_id: str, *, skill_id: int | None = None) -> list[Conversation]:
        return await self._of_threads(principal, [thread_id], skill_id)

    async def page(
        self, principal: Principal, *, limit: int, before: tuple[int, int] | None = None, skill_id: int | None = None
    ) -> list[list[Conversation]]:
        at, key = before or (MAX_KEY, 0)
        statement = PAGE if skill_id is None else PAGE_OF_SKILL
        values = {**_principal_values(principal), "at": at, "key": key, "limit": limit}
        async with self._database.reading() as connection:
            threads = [thread for (thread,) in await connection.scan(statement, values | _skill_value(skill_id))]
        found: dict[str, list[Conversation]] = {thread: [] for thread in threads}
        for one in await self._of_threads(principal, threads, skill_id):
            found[one.thread_id].append(one)
        return [parts for parts in found.values() if parts]

    async def message_sizes(
        self, conversations: Sequence[Conversation], *, limit: int, before: int | None = None
    ) -> list[MessageSize]:
        found = await self._of_each(conversations, SIZES, before=MAX_KEY if before is None else before, limit=limit)
        newest_first = heapq.merge(*found, key=lambda row: row[0], reverse=True)
        return [MessageSize(*row) for row, _ in zip(newest_first, range(limit), strict=False)]

    async def messages(self, conversations: Sequence[Conversation], *, after: int, up_to: int) -> list[Message]:
        found = await self._of_each(conversations, MESSAGES, after=after, up_to=up_to)
        return [_message(row) for row in heapq.merge(*found, key=lambda row: row[0])]

    async def remove(self, conversation: Conversation, *, newest: int | None = None) -> bool:
        key = conversation.key
        async with self._database.writing() as connection:
            if not (await connection.run(_LOCK, {"key": key, "org": conversation.org})).rowcount:
                return False
            last = MAX_KEY if newest is None else newest
            if (await connection.run(_NEWER, {"key": key, "newest": last})).first() is not None:
                return False
            for statement in _REMOVE:
                await connection.run(statement, (key,))
            return True

    async def _of_threads(
        self, principal: Principal, threads: Sequence[str], skill_id: int | None
    ) -> list[Conversation]:
        values = {**_principal_values(principal), **_skill_value(skill_id), "threads": to_json(list(threads))}
        rows = await self._read(THREADS if skill_id is None else THREADS_OF_SKILL, **values)
        return [_conversation(principal.org_uuid, row) for row in rows]

    async def _of_each(
        self, conversations: Sequence[Conversation], statement: Statement, **values: Any
    ) -> list[list[tuple[Any, ...]]]:
        """The rows of each conversation, by one index scan each: a common query would have to sort them."""
        found = []
        async with self._database.reading() as connection:
            for one in conversations:
                key = {"key": one.key, "org": one.org}
                if (await connection.run(_EXISTS, key)).first() is not None:
                    rows = await connection.run(statement, {"key": one.key, **values})
                    found.append([tuple(row) for row in rows.fetchall()])
        return found

    async def _read(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        async with self._database.reading() as connection:
            return [tuple(row) for row in (await connection.run(statement, values)).fetchall()]


def add_messages(transaction: CommitTransaction, execution: int, rows: Sequence[MessageRow]) -> None:
    """Add messages to the conversation of the execution's user, within the journal's transaction."""
    if not rows:
        return
    times = [row.at for row in rows]
    ((key, org, updated_at),) = transaction.execute(OPEN, (execution, min(times), max(times))).fetchall()
    transaction.executemany(ADD_TARGET, [(execution, key)])
    skills = {row.skill_id for row in rows if row.skill_id is not None}
    transaction.executemany(ADD_SKILL, [(org, key, skill) for skill in sorted(skills)])
    transaction.executemany(TOUCH, [(key, updated_at)])
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
