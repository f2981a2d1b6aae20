"""Random batches of begins, turns and appends, some of which the journal refuses, for two organizations."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from itertools import chain
from random import Random
from typing import Any

from sql_texts import statement

from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.store import Store
from wfcore.domain.projections.notices import Notice
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, ExecutionRef, NewRun, RunChange
from wfcore.ports.repositories.audit import AuditRow
from wfcore.testing.contracts.journal_values import NOW, ORG, OTHER_ORG, begin, steps

EXECUTIONS = 20
BEGINS = 8
ODD = ('"', "\\", '\\"', "{a,b}", "", "NULL", "null", "\u2028", "é€😀", "'", "%", "$1", "\n\t", "\x1e\x1f")

SUBSCRIBE = statement("INSERT INTO wfcore_subscriptions (org, hook, handler, event) VALUES (0, '', 'h', ?)")
RUNS = statement("""
SELECT r.id, r.user_id, r.fingerprint, r.status, r.result, r.created_at, r.updated_at, r.finished_at, r.resumed_by,
    r.target, e.user_id, e.wake_at, e.claimed_by, e.epoch
FROM wfcore_runs r JOIN wfcore_executions e ON e.id = r.execution
JOIN wfcore_organizations o ON o.key = e.org WHERE o.uuid = ? ORDER BY r.id""")
ENTRIES = statement("""
SELECT (SELECT min(id) FROM wfcore_runs WHERE execution = e.id), j.pos, j.entry, j.checksum FROM wfcore_executions e
JOIN wfcore_journal j ON j.execution = e.id JOIN wfcore_organizations o ON o.key = e.org WHERE o.uuid = ?
ORDER BY 1, 2""")
AUDIT = statement("""
SELECT a.user_id, a.action, a.details FROM wfcore_audit a JOIN wfcore_organizations o ON o.key = a.org
WHERE o.uuid = ? ORDER BY 1, 2, 3""")
DELIVERIES = statement("""
SELECT d.event, d.run_id, d.handler, d.status FROM wfcore_deliveries d JOIN wfcore_organizations o ON o.key = d.org
WHERE o.uuid = ? ORDER BY 2, 1""")


async def same_as_one_by_one(database: Store, seed: int, conflicts: float) -> list[type]:
    """Assert that a batch in one organization, and the same parts one by one in another, have the same outcomes and
    write the same. Returns the types of the outcomes.
    """
    async with database.writing() as connection:
        await connection.run(SUBSCRIBE, ("run.done",))
    found = {}
    for org in (ORG, OTHER_ORG):
        journal = SqlJournal(database)
        refs = [await begin(journal, f"r-{number}", org=org, claimed_by=1) for number in range(EXECUTIONS)]
        parts = _parts(journal, refs, org, Random(seed), conflicts)
        if org == ORG:
            outcome = await asyncio.gather(*parts, return_exceptions=True)
        else:
            outcome = [*chain(*[await asyncio.gather(part, return_exceptions=True) for part in parts])]
        written = [await database.look_up(one, org) for one in (RUNS, ENTRIES, AUDIT, DELIVERIES)]
        errors = [str(one) for one in outcome if isinstance(one, Exception)]
        found[org] = [type(one) for one in outcome], errors, written
    assert found[ORG] == found[OTHER_ORG]
    return found[ORG][0]


def _parts(
    journal: SqlJournal, refs: list[ExecutionRef], org: str, random: Random, conflicts: float
) -> list[Coroutine[Any, Any, Any]]:
    def odd() -> str:
        return random.choice(ODD)

    def refused() -> bool:
        return random.random() < conflicts

    def append(number: int) -> Append:
        expected, holder, at = 2 if refused() else 1, 9 if refused() else 1, NOW + number
        kind, entries = random.choice(("plain", "ends", "resumes")), steps(random.randint(1, 2), number)
        if kind == "plain":
            return Append(expected, entries, holder=holder)
        audit = [AuditRow(datetime(2026, 1, 1, tzinfo=UTC), odd(), "run.cancel", "run", odd(), {"why": odd()})]
        change = RunChange(
            "r-x" if refused() else f"r-{number}", RunStatus.done, at, {"output": odd()}, resumed_by=odd()
        )
        if kind == "ends":
            notice = Notice("run.done", at, "workflow", None, odd(), f"r-{number}", status="done")
            return Append(expected, entries, changes=[change], updates_claim=True, wake_at=random.choice((None, at)),
                          holder=holder, audit=audit[: number % 2], notices=[notice])  # fmt: skip
        run = NewRun("r-0" if refused() else f"s-{number}", odd(), b"\\x\0", RunStatus.running, at, f"r-{number}")
        return Append(expected, entries, run, [change], holder=holder, audit=audit)

    appends: list[Coroutine[Any, Any, Any]] = [journal.append(ref, append(number)) for number, ref in enumerate(refs)]
    begins = [
        begin(journal, "r-1" if refused() else f"t-{number}", org=org, user_id=odd(), entries=steps(2),
              claimed_by=random.choice((None, 3)))
        for number in range(BEGINS)
    ]  # fmt: skip
    parts = [*appends, *begins]
    random.shuffle(parts)
    return parts
