"""The statements of lists of runs: each filter adds a condition that an index serves."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from wfcore.adapters.sql.journal.conversion import (
    OTHER_TARGETS,
    stored_origin,
    stored_starter,
    target_of,
    target_range,
    to_json,
)
from wfcore.adapters.sql.journal.statements import executions_of_thread, list_of_runs, run_columns
from wfcore.adapters.sql.repositories.row_values import to_key
from wfcore.adapters.sql.schema.named_tables import executions, grants, resources, runs
from wfcore.adapters.sql.schema.names import NO_RESOURCE
from wfcore.adapters.sql.schema.statement import Dialect, Statement
from wfcore.adapters.sql.schema.usable import exists_for
from wfcore.domain.resources.access import Principal
from wfcore.ports.journal import RunFilter

Query = tuple[Statement, tuple[Any, ...]]
"""A statement with numbered parameters, and their values from the first."""

_Condition = Callable[[Dialect, str], str]
"""A condition with a parameter."""


def _of_variation(d: Dialect, given: str) -> str:
    return f"""r.key IN (
        SELECT x.key FROM {d[executions]} y JOIN {d[runs]} x ON x.execution = y.id
        WHERE y.variation_id = {given} AND x.variation_id IS NULL
        UNION ALL SELECT key FROM {d[runs]} WHERE variation_id = {given})"""


_CONDITIONS: Final[Mapping[str, _Condition]] = {
    "status": lambda _, given: f"r.status = {given} AND r.status <> 'done'",
    "target": lambda _, given: f"r.target = {given}",
    "least_target": lambda _, given: f"r.target >= {given}",
    "greatest_target": lambda _, given: f"r.target <= {given}",
    "resource_id": lambda _, given: f"r.target IN (CAST({given} AS bigint), -CAST({given} AS bigint))",
    "thread_id": lambda d, given: f"r.execution IN ({executions_of_thread(d, given)})",
    "started_by": lambda _, given: f"r.user_id = {given} AND r.started_by <> 'system'",
    "origin": lambda _, given: f"r.origin = {given} AND r.origin <> ''",
    "root_started_by": lambda _, given: f"e.started_by = {given}",
    "variation_id": _of_variation,
    "since": lambda _, given: f"r.created_at + 0 >= {given}",
    "until": lambda _, given: f"r.created_at + 0 < {given}",
    "oldest": lambda _, given: f"r.key >= {given}",
}
"""Conditions of the filters. The second half of `status` and `origin` is that of their partial indexes. No index serves
those of a period, because a list is in the order of keys: `edges_of_period` are the keys of a period.
"""

_COMMON: Final[Mapping[str, tuple[str, _Condition]]] = {
    "status": ("done", lambda _, given: f"r.status = {given}"),
    "origin": ("", lambda _, given: f"r.origin = {given}"),
}
"""Values that most runs have, which the partial indexes leave out, and the conditions for them."""


def _visible(d: Dialect, user: str, subjects: str) -> str:
    """With EXISTS instead of the scalar subquery, PostgreSQL would read all grants first."""
    return f"""(CASE WHEN e.resource_id IS NULL THEN e.user_id = {user} ELSE (
    SELECT 1 FROM {d[resources]} s JOIN {d[grants]} g ON g.resource = s.key
    WHERE s.org = r.org AND s.kind = e.kind AND s.id = e.resource_id
    AND g.use AND g.subject IN (SELECT value FROM {d.values(subjects)}) AND {exists_for(d, subjects)} LIMIT 1
) = 1 END)"""


def _mine(d: Dialect, subjects: str) -> str:
    """The targets that the subjects, as JSON, can use."""
    return f"""
mine(target) AS (
    SELECT DISTINCT CASE s.kind WHEN 'workflow' THEN s.id ELSE -s.id END FROM {d.values(subjects)}
    {d.join()} {d[grants]} g ON g.subject = given.value AND g.use {d.join()} {d[resources]} s ON s.key = g.resource
    WHERE s.org = {d[1]} AND {exists_for(d, subjects)}
)"""


def _count(d: Dialect) -> str:
    """The numbers of runs by status, target and hour of a period, as four arrays in JSON.

    Only the rows of runs are read, and whether their targets are visible is found out once for each.
    """
    counted = ", ".join(d.array(f"counted.{name}") for name in ("status", "target", "hour", "runs"))
    return f"""
WITH {_mine(d, d[5])}
SELECT {counted} FROM (
    SELECT r.status, r.target, r.created_at / 3600000 AS hour, count(*) AS runs
    FROM {d[runs]} r {d.by_index("wfcore_runs_created")}
    WHERE r.org = {d[1]} AND r.created_at >= {d[2]} AND r.created_at < {d[3]} AND (
        r.target IN (SELECT target FROM mine)
        OR r.target > {NO_RESOURCE} AND (SELECT e.user_id FROM {d[executions]} e WHERE e.id = r.execution) = {d[4]}
    ) GROUP BY 1, 2, 3
) AS counted"""


_COUNT: Final = Statement(_count)


LATEST: Final = 2**63 - 1
"""Later than every time of a run."""

Filters = tuple[tuple[str, bool], ...]
"""The names of filters, each with whether its value is a common one."""


def _conditions(d: Dialect, filters: Filters) -> str:
    """The conditions of the filters, whose parameters begin at the third."""
    found = (
        ((_COMMON[name][1] if common else _CONDITIONS[name]), d[at]) for at, (name, common) in enumerate(filters, 3)
    )
    return " ".join(f"AND {condition(d, given)}" for condition, given in found)


_INDEXES: Final = {"thread_id": "wfcore_runs_turns", "variation_id": ""}
"""The index of runs with which SQLite must begin for these filters, "" their key. With another one it would not look up
what a filter lists, but read all runs of the organization.
"""


@lru_cache(maxsize=1024)
def _list(filters: Filters, *, of_principal: bool) -> Statement:
    """The list with these filters."""

    def build(d: Dialect) -> str:
        last = 2 + len(filters)
        indexes = (index for name, index in _INDEXES.items() if (name, False) in filters)
        text = [list_of_runs(d, next(indexes, None)), f"AND r.key < {d[2]}", _conditions(d, filters)]
        if of_principal:
            text.append(f"AND {_visible(d, d[last + 1], d[last + 2])}")
            last += 2
        return " ".join([*text, f"ORDER BY r.key DESC LIMIT {d[last + 1]}"])

    return Statement(build)


_UNINDEXED: Final[Mapping[str, _Condition]] = {
    "status": lambda _, given: f"r.status || '' = {given}",
    "origin": lambda _, given: f"r.origin || '' = {given}",
    **{
        name: _CONDITIONS[name]
        for name in ("since", "until", "target", "least_target", "greatest_target", "resource_id", "oldest")
    },
}
"""Conditions in a list by targets. None of them is served by an index, so that the database uses that of targets."""


@lru_cache(maxsize=256)
def _list_by_targets(names: tuple[str, ...]) -> Statement:
    """The same list, read from the runs of each target that the principal can use, and from the principal's own.

    The inner limit lets PostgreSQL expect few runs; without it, it would read all of them.
    """

    def build(d: Dialect) -> str:
        last = 2 + len(names)
        user, subjects, limit = d[last + 1], d[last + 2], d[last + 3]
        conditions = " ".join(f"AND {_UNINDEXED[name](d, d[at])}" for at, name in enumerate(names, 3))
        newest = f"""
SELECT r.key FROM {d[runs]} r WHERE r.org = {d[1]} AND r.target = mine.target AND r.key < {d[2]} {conditions}
ORDER BY r.key DESC LIMIT {limit}"""
        return f"""
WITH {_mine(d, subjects)}, found(key) AS (
    SELECT key FROM (
        SELECT x.key FROM {d.for_each("mine", newest, d[runs])}
        UNION SELECT r.key FROM {d[runs]} y {d.by_index("wfcore_runs_own")}
        {d.join()} {d[runs]} r ON r.execution = y.execution {d.join()} {d[executions]} e ON e.id = r.execution
        WHERE y.org = {d[1]} AND y.user_id = {user} AND y.target > {NO_RESOURCE}
        AND e.resource_id IS NULL AND e.user_id = {user} AND r.key < {d[2]} {conditions}
    ) AS listed ORDER BY key DESC LIMIT {limit}
)
SELECT {run_columns(d)} FROM found {d.join()} {d[runs]} r ON r.key = found.key
{d.join()} {d[executions]} e ON e.id = r.execution ORDER BY r.key DESC"""

    return Statement(build)


@lru_cache(maxsize=256)
def _list_by_period(names: tuple[str, ...]) -> Statement:
    """The same list, read from all runs of the period: no other condition is served by an index."""
    conditions: dict[str, _Condition] = {
        **_UNINDEXED,
        "since": lambda _, given: f"r.created_at >= {given}",
        "until": lambda _, given: f"r.created_at < {given}",
    }

    def build(d: Dialect) -> str:
        last = 2 + len(names)
        given = " ".join(f"AND {conditions[name](d, d[at])}" for at, name in enumerate(names, 3))
        return f"""
{list_of_runs(d, "wfcore_runs_created")} AND r.key + 0 < {d[2]} {given}
AND {_visible(d, d[last + 1], d[last + 2])} ORDER BY r.key + 0 DESC LIMIT {d[last + 3]}"""

    return Statement(build)


MORE_OF_PERIOD: Final = Statement(
    lambda d: (
        f"""
SELECT 1 FROM {d[runs]} WHERE org = {d[1]} AND created_at >= {d[2]} AND created_at < {d[3]} LIMIT 1 OFFSET {d[4]}"""
    )
)
"""A row if more runs than so many of an organization began in a period."""


@lru_cache(maxsize=4)
def _edges(*, begins: bool, ends: bool) -> Statement:
    """The least key of the first runs from a time on, and the greatest one of the last runs before a time."""

    def build(d: Dialect) -> str:
        runs_of = f"SELECT r.key FROM {d[runs]} r WHERE r.org = {d[1]} AND r.created_at"
        first = f"{runs_of} >= {d[3]} ORDER BY r.created_at LIMIT {d[2]}"
        last = f"{runs_of} < {d[3 + begins]} ORDER BY r.created_at DESC LIMIT {d[2]}"
        least = f"(SELECT min(key) FROM ({first}) AS first)" if begins else "0"
        greatest = f"(SELECT max(key) FROM ({last}) AS last)" if ends else "NULL"
        return f"SELECT {least}, {greatest}"

    return Statement(build)


@lru_cache(maxsize=8)
def _oldest(name: str) -> Statement:
    """The key of the run that is so many places before a key; with a filter, among those with a value of it."""

    def build(d: Dialect) -> str:
        condition = f"AND {_CONDITIONS[name](d, d[4])}" if name else ""
        return f"""
SELECT r.key FROM {d[runs]} r WHERE r.org = {d[1]} AND r.key < {d[2]} {condition}
ORDER BY r.key DESC LIMIT 1 OFFSET {d[3]}"""

    return Statement(build)


RECENT: Final = 200
"""The runs of an organization that are read to find those that a principal can see. Nearly always that is enough."""

SELECTED: Final = 1_000
"""As many runs with the status, with the origin or of the period of a filter, which an index finds: they are read
before those of each target, which can be all runs of the organization."""


EDGE: Final = 1_000
"""As many runs are read at the begin and the end of a period to find its keys. So many can have begun in another order
than their times say, because the clocks of processes differ."""


def list_runs(
    org: int | None, limit: int, before: int, where: RunFilter, principal: Principal | None, oldest: int = 0
) -> Query:
    """The statement that lists runs from the key `oldest` on, latest start first."""
    return _query(org, limit, before, _given(where, oldest), principal)


def can_be_far(where: RunFilter, principal: Principal | None) -> bool:
    """Whether many runs that the principal cannot see can lie between those of a page."""
    return principal is not None and _given(where).keys() <= _UNINDEXED.keys()


def more_of_period(org: int | None, where: RunFilter) -> Query | None:
    """The statement that finds a row if the period of the filter has many runs; None without a period."""
    if where.since is None and where.until is None:
        return None
    until = LATEST if where.until is None else where.until
    return MORE_OF_PERIOD, (org, where.since or 0, until, SELECTED)


def edges_of_period(org: int | None, where: RunFilter) -> Query | None:
    """The statement that finds the least and the greatest key of the period of the filter; None without a period.

    Without them, a list would read all runs after the period, or all before it if the other filters select few.
    """
    times = [at for at in (where.since, where.until) if at is not None]
    if not times:
        return None
    return _edges(begins=where.since is not None, ends=where.until is not None), (org, EDGE, *times)


def list_runs_by_period(org: int | None, limit: int, before: int, where: RunFilter, principal: Principal) -> Query:
    """The statement that finds the same runs among those of the period."""
    given = _given(where)
    values = *given.values(), principal.user_id, to_json(sorted(principal.subjects))
    return _list_by_period(tuple(given)), (org, before, *values, limit)


def oldest_of_recent(org: int | None, before: int, where: RunFilter) -> Query:
    """The statement that finds the oldest of the recent runs, which are read first; no row if that would be all."""
    for name, value in _given(where).items():
        if name in _COMMON and value != _COMMON[name][0]:
            return _oldest(name), (org, before, SELECTED, value)
    return _oldest(""), (org, before, RECENT)


def list_runs_by_targets(
    org: int | None, limit: int, before: int, where: RunFilter, principal: Principal, oldest: int = 0
) -> Query:
    """The statement that finds the same runs by the targets of the principal, however many others there are."""
    given = _given(where, oldest)
    values = *given.values(), principal.user_id, to_json(sorted(principal.subjects))
    return _list_by_targets(tuple(given)), (org, before, *values, limit)


def _query(org: int | None, limit: int, before: int, given: Mapping[str, Any], principal: Principal | None) -> Query:
    filters = tuple((name, name in _COMMON and value == _COMMON[name][0]) for name, value in given.items())
    visible = [principal.user_id, to_json(sorted(principal.subjects))] if principal else []
    statement = _list(filters, of_principal=principal is not None)
    return statement, (org, before, *given.values(), *visible, limit)


def _given(where: RunFilter, oldest: int = 0) -> dict[str, Any]:
    """The conditions of a filter with the values of their parameters, as they are stored."""
    given: dict[str, Any] = {
        "status": where.status,
        "thread_id": where.thread_id,
        "started_by": where.started_by,
        "origin": None if where.origin is None else stored_origin(where.origin),
        "root_started_by": None if where.root_started_by is None else stored_starter(where.root_started_by),
        "variation_id": to_key(where.variation_id),
        "since": where.since,
        "until": where.until,
        "oldest": oldest or None,
    }
    if where.kind is None:
        given["resource_id"] = where.resource_id
    elif where.resource_id is not None or where.kind in OTHER_TARGETS:
        given["target"] = target_of(where.kind, where.resource_id)
    else:
        given["least_target"], given["greatest_target"] = target_range(where.kind)
    return {name: value for name, value in given.items() if value is not None}


def count_runs(org: int | None, since: int, until: int, principal: Principal) -> Query:
    """The statement that counts runs by status, target and hour."""
    subjects = to_json(sorted(principal.subjects))
    return _COUNT, (org, since, until, principal.user_id, subjects)
