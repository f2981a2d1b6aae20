"""Long-term memories in a table, with their words in another."""

import json
from collections.abc import Sequence
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.row_values import to_json
from wfcore.adapters.sql.schema.deferred import dialect, sa
from wfcore.adapters.sql.schema.named_tables import memories, memory_words, organizations
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import Store, Transaction
from wfcore.domain.agents.memories import weights_of, words_of
from wfcore.ports.providers import Memory

_FIELDS: Final = [field.name for field in attrs.fields(Memory)]
_DELETED: Final = {"memory": None, "hash": "", "metadata": "{}", "user_id": None}
"""The columns of a deleted memory."""

_DIGITS: Final = 4
"""Of a weight in `_SEARCH`."""

_SEARCH: Final = Statement(
    lambda d: (
        f"""
SELECT {", ".join(f"m.{name}" for name in _FIELDS)} FROM (
    SELECT w.memory, sum(CAST(substr(value, 1, {_DIGITS}) AS integer)) AS weight
    FROM {d.values(d["words"])} {d.join()} {d[memory_words]} w ON w.word = substr(value, {_DIGITS + 1})
    WHERE w.org = (SELECT key FROM {d[organizations]} WHERE uuid = {d["org"]}) AND w.skill_id = {d["skill"]}
    GROUP BY w.memory
) f JOIN {d[memories]} m ON m.key = f.memory
WHERE CAST({d["user"]} AS text) IS NULL OR m.user_id = {d["user"]} OR ({d["shared"]} AND m.user_id IS NULL)
ORDER BY f.weight DESC, m.key LIMIT {d["limit"]}"""
    )
)
"""One index look-up for each word within the skill; memories of other skills are not read. Each of `words` is a
weight of `_DIGITS` digits and the word.
"""

_COUNTS: Final = Statement(
    lambda d: (
        f"""
SELECT word, count(*) FROM {d[memory_words]}
WHERE org = (SELECT key FROM {d[organizations]} WHERE uuid = {d["org"]}) AND skill_id = {d["skill"]}
AND word IN (SELECT value FROM {d.values(d["words"])}) GROUP BY word"""
    )
)
"""How many memories of the skill have each of the words."""


class SqlMemories:
    """Implements the port `MemoryBackend` on an open database.

    A search ranks memories by the weights of the distinct words of the query that they contain (`weights_of`), in any
    form; among equals the older one comes first. A deleted memory leaves an empty row, which keeps its position in
    the list, and its id.
    """

    def __init__(self, database: Store) -> None:
        self._database = database

    async def add(self, org: str, skill_id: int, memory: Memory) -> None:
        row = {"org": _org_key(org), "skill_id": skill_id, **_row(memory)}
        async with self._database.writing() as connection:
            added = await connection.execute(
                dialect.insert_new(memories).values(row).returning(memories.c.key, memories.c.org)
            )
            if (new := added.first()) is not None:
                await _add_words(connection, new.org, skill_id, new.key, memory.memory)

    async def get(self, org: str, skill_id: int, memory_id: str) -> Memory | None:
        found = await self._select(*_one(org, skill_id, memory_id), limit=1)
        return found[0] if found else None

    async def replace(self, org: str, skill_id: int, memory: Memory, *, old: Memory | None = None) -> bool:
        wanted = _live(org, skill_id, memory.id, old)
        change = memories.update().where(*wanted).values(_row(memory))
        async with self._database.writing() as connection:
            replaced = (await connection.execute(change.returning(memories.c.key, memories.c.org))).first()
            if replaced is not None:
                key, number = replaced
                await connection.execute(memory_words.delete().where(memory_words.c.memory == key))
                await _add_words(connection, number, skill_id, key, memory.memory)
        return replaced is not None

    async def delete(self, org: str, skill_id: int, memory_id: str, *, old: Memory | None = None) -> bool:
        change = memories.update().where(*_live(org, skill_id, memory_id, old)).values(_DELETED)
        async with self._database.writing() as connection:
            key = (await connection.execute(change.returning(memories.c.key))).scalar()
            if key is not None:
                await connection.execute(memory_words.delete().where(memory_words.c.memory == key))
        return key is not None

    async def list(
        self, org: str, skill_id: int, *, limit: int, after: str | None = None, user_id: str | None = None
    ) -> Sequence[Memory]:
        behind = [] if after is None else [memories.c.key > _position(org, skill_id, after)]
        of_user = [] if user_id is None else [memories.c.user_id == user_id]
        return await self._select(*_of(memories, org, skill_id), *behind, *of_user, limit=limit)

    async def search(
        self, org: str, skill_id: int, query: str, *, limit: int, user_id: str | None = None, shared: bool = False
    ) -> Sequence[Memory]:
        of = {"org": org, "skill": skill_id}
        filters = {"user": user_id, "shared": shared, "limit": limit}
        async with self._database.reading() as connection:
            counts = await connection.run(_COUNTS, {**of, "words": to_json(sorted(words_of(query)))})
            weights = weights_of({word: count for word, count, *_ in counts.all()})
            words = to_json([f"{weight:0{_DIGITS}}{word}" for word, weight in sorted(weights.items())])
            rows = (await connection.run(_SEARCH, {**of, **filters, "words": words})).mappings().all()
        return [_to_memory(row) for row in rows]

    async def _select(self, *wanted: "sa.ColumnElement[bool]", limit: int) -> Sequence[Memory]:
        found = (
            sa.select(*(memories.c[name] for name in _FIELDS))
            .where(*wanted, _is_live())
            .order_by(memories.c.key)
            .limit(limit)
        )
        async with self._database.reading() as connection:
            rows = (await connection.execute(found)).mappings().all()
        return [_to_memory(row) for row in rows]


async def _add_words(connection: Transaction, org: int, skill_id: int, key: int, text: str) -> None:
    scope = {"org": org, "skill_id": skill_id, "memory": key}
    rows = [{**scope, "word": word} for word in sorted(words_of(text))]
    if rows:
        await connection.execute(memory_words.insert(), rows)


def _is_live() -> "sa.ColumnElement[bool]":
    return memories.c.memory.is_not(None)


def _org_key(org: str) -> "sa.ScalarSelect[int]":
    """The key of an organization; NULL for an unknown one."""
    return sa.select(organizations.c.key).where(organizations.c.uuid == org).scalar_subquery()


def _of(table: "sa.FromClause", org: str, skill_id: int) -> "tuple[sa.ColumnElement[bool], ...]":
    return table.c.org == _org_key(org), table.c.skill_id == skill_id


def _one(org: str, skill_id: int, memory_id: str) -> "tuple[sa.ColumnElement[bool], ...]":
    return *_of(memories, org, skill_id), memories.c.id == memory_id


def _live(org: str, skill_id: int, memory_id: str, old: Memory | None) -> "list[sa.ColumnElement[bool]]":
    """The memory, unless it is deleted; with `old` only while it equals that."""
    before = {} if old is None else _row(old)
    unchanged = [memories.c[name].is_not_distinct_from(value) for name, value in before.items()]
    return [*_one(org, skill_id, memory_id), _is_live(), *unchanged]


def _position(org: str, skill_id: int, memory_id: str) -> "sa.ScalarSelect[int]":
    """The position of a memory in the list, also of a deleted one; NULL for an unknown one, which no key is above."""
    marked = memories.alias("marked")
    return sa.select(marked.c.key).where(*_of(marked, org, skill_id), marked.c.id == memory_id).scalar_subquery()


def _row(memory: Memory) -> dict[str, Any]:
    return attrs.asdict(memory, recurse=False) | {"metadata": to_json(memory.metadata)}


def _to_memory(row: "sa.RowMapping") -> Memory:
    return Memory(**{**row, "metadata": json.loads(row["metadata"])})
