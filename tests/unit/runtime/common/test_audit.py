"""The audit through the library: every change writes its row in its own transaction, and nothing else does."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bench import Bench, act, ask, one

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, WfcoreError
from wfcore.domain.resources.access import Principal
from wfcore.ports.repositories.audit import AuditRow

pytestmark = pytest.mark.anyio

PLAIN = one(act("echo", value=1))


async def audit_rows(bench: Bench, boss: Principal, **wanted: Any) -> list[dict[str, Any]]:
    """The audit, oldest first, without the rows of the fixture."""
    rows = [view.to_wire() for view in await bench.core.audit.page(boss, limit=99, **wanted)]
    return [row for row in reversed(rows) if row["resource"]["id"] != "boss"]


async def actions(bench: Bench, boss: Principal) -> list[tuple[str, str, str]]:
    return [(row["userId"], row["action"], row["resource"]["id"]) for row in await audit_rows(bench, boss)]


class TestWhatIsWritten:
    """Which user did what to which resource."""

    @pytest.mark.parametrize(("area", "kind"), [("workflows", "workflow"), ("skills", "skill")])
    async def test_the_life_of_a_resource(self, bench: Bench, boss: Principal, area: str, kind: str) -> None:
        """Create, deploy, access, delete and restore write one row each; reads, edits and calls without effect none."""
        cases = getattr(bench.core, area)
        content = {"structure": PLAIN} if kind == "workflow" else {}
        number = (await cases.create(bench.me, name="f", **content)).id
        await cases.get(bench.me, number)
        await cases.patch(bench.me, number, name="g")
        await cases.deploy(bench.me, number)
        await cases.deploy(bench.me, number)
        await cases.patch(bench.me, number, accessConfig={"visibility": "private"})
        await cases.patch(bench.me, number, accessConfig={"visibility": "private"})
        await cases.delete(bench.me, number)
        await cases.delete(bench.me, number)
        await cases.restore(bench.me, number)
        verbs = ["create", "deploy", "access", "delete", "restore"]
        assert await actions(bench, boss) == [("me", f"{kind}.{verb}", "1") for verb in verbs]
        made, deployed, access, *_ = [row["details"] for row in await audit_rows(bench, boss)]
        everybody = {"subject": f"g:{bench.org}", "use": True, "manage": True}
        assert made == {"visibility": "shared", "grants": [everybody]}
        assert deployed["variationId"]
        assert access["visibility"] == "private"
        assert [line["subject"] for line in access["grants"]] == ["u:me"]

    async def test_changes_of_guardrails(self, bench: Bench, boss: Principal) -> None:
        """They belong to the access configuration: adding and removing them writes a row with the resulting list."""
        skills = bench.core.skills
        access = {"visibility": "private", "guardrails": ["redact-secrets"]}
        number = (await skills.create(bench.me, name="s", access=access)).id
        await skills.patch(bench.me, number, access={"visibility": "private"})
        assert await actions(bench, boss) == [("me", "skill.create", "1"), ("me", "skill.access", "1")]
        details = [row["details"] for row in await audit_rows(bench, boss)]
        assert [one.get("guardrails") for one in details] == [["redact-secrets"], None]

    async def test_a_repeated_create_is_one(self, bench: Bench, boss: Principal) -> None:
        """A create repeated with its Idempotency-Key writes no second row."""
        for _ in range(2):
            await bench.core.workflows.create(bench.me, name="f", key="k")
        assert await actions(bench, boss) == [("me", "workflow.create", "1")]

    async def test_people_groups_and_tokens(self, bench: Bench, boss: Principal) -> None:
        """Each change of members, groups and tokens writes a row without secrets."""
        core = bench.core
        group = (await core.groups.create(boss, name="team")).id
        await core.groups.patch(boss, group, name="crew")
        await core.groups.patch(boss, group, name="crew")
        await core.members.create(boss, userId="ann", groups=[group])
        await core.members.patch(boss, "ann", role="admin")
        await core.members.patch(boss, "ann", role="admin")
        token = await core.tokens.create(bench.person("ann"), name="ci", scopes=["skills:read"])
        for _ in range(2):
            await core.tokens.revoke(boss, token.id)
        await core.members.delete(boss, "ann")
        await core.groups.delete(boss, group)
        assert await actions(bench, boss) == [
            ("boss", "group.create", group), ("boss", "group.update", group), ("boss", "member.create", "ann"),
            ("boss", "member.update", "ann"), ("ann", "token.create", token.id), ("boss", "token.revoke", token.id),
            ("boss", "member.delete", "ann"), ("boss", "group.delete", group),
        ]  # fmt: skip
        rows = await audit_rows(bench, boss)
        assert rows[3]["details"] == {"role": "admin", "email": None, "groups": [group]}
        assert rows[4]["details"] == {"name": "ci", "userId": "ann", "scopes": ["skills:read"]}
        secret = str(token.text).rpartition("_")[2]
        assert secret not in str(rows)
        assert token.row.secret_hash not in str(rows)

    async def test_the_operator_has_no_user_id(self, bench: Bench, boss: Principal) -> None:
        """Rows of the command line and of the embedding program have no user."""
        directory = bench.core.directory
        for role in ("member", "admin"):
            await directory.add_member(bench.org, "ann", role=role)
        group = await directory.create_group(bench.org, "team")
        token = await directory.create_token(bench.org, "ann", scopes=[])
        assert await actions(bench, boss) == [
            (None, "member.create", "ann"), (None, "member.update", "ann"), (None, "group.create", group.id),
            (None, "token.create", token.split("_")[2]),
        ]  # fmt: skip

    async def test_decisions_on_runs(self, bench: Bench, boss: Principal) -> None:
        """Decisions, pauses and cancels write a row for their turn; runs themselves write none."""
        runs = bench.core.runs
        number = await bench.deployed(one(ask()))
        for key in ("first", "second"):
            await bench.ended(await runs.start(bench.me, workflow=number, input={}, key=key))
        (waiting,) = (await runs.get(bench.me, "first")).interrupts
        await bench.ended(await runs.resume(bench.me, "first", decision="approve", key="next"))
        await runs.cancel(bench.other, "second")
        *_, answered, cancelled = await audit_rows(bench, boss)
        assert (answered["userId"], answered["action"]) == ("me", "run.resume")
        assert answered["resource"] == {"type": "run", "id": "first"}
        decisions = [{"interruptId": waiting.id, "decision": "approve"}]
        target = {"type": "workflow", "id": number}
        assert answered["details"] == {"target": target, "resumedBy": "next", "decisions": decisions}
        assert (cancelled["userId"], cancelled["action"]) == ("other", "run.cancel")
        assert cancelled["resource"] == {"type": "run", "id": "second"}
        assert [row["action"] for row in await audit_rows(bench, boss)].count("run.resume") == 1

    async def test_an_expired_deadline_writes_no_row(self, bench: Bench, boss: Principal) -> None:
        """A turn that the system begins has no row."""
        run = await bench.started(one(ask(timeoutSeconds=10)))
        await bench.ended(run)
        before = await actions(bench, boss)
        bench.clock.advance(11)
        await bench.ended(await bench.resumed_by(run))
        assert await actions(bench, boss) == before

    async def test_a_pause_of_an_active_run(self, bench: Bench, boss: Principal) -> None:
        """The row names the active turn."""
        run = await bench.started(one(act("hold", name="x")), key="held")
        await bench.until("x")
        await bench.core.runs.interrupt(bench.me, run.id)
        bench.tools.free["x"].set()
        await bench.ended(run)
        assert (await actions(bench, boss))[-1] == ("me", "run.interrupt", "held")


class TestOneTransaction:
    """A row exists exactly when its change does."""

    async def test_refused_calls_write_no_row(self, bench: Bench, boss: Principal) -> None:
        """Invalid, forbidden and conflicting calls write no row."""
        ann = bench.person("ann")
        number = (await bench.core.workflows.create(ann, name="f", access={"visibility": "private"})).id
        await bench.core.directory.add_member(bench.org, "ann", "ann@x.org")
        before = await actions(bench, boss)
        for call in (
            bench.core.members.delete(boss, "ann"),
            bench.core.members.delete(boss, "boss"),
            bench.core.members.create(boss, userId=""),
            bench.core.groups.create(bench.me, name="g"),
            bench.core.workflows.patch(ann, number, access={"visibility": "shared"}),
            bench.core.workflows.deploy(ann, number),
        ):
            with pytest.raises(WfcoreError) as error:
                await call
            assert isinstance(error.value, Conflict | Forbidden | Invalid)
        assert await actions(bench, boss) == before


class TestReading:
    """`GET /api/v1/audit`."""

    async def test_only_admins_and_owners_read_it(self, bench: Bench, boss: Principal) -> None:
        """A member with the scope is refused; the error has its role."""
        with pytest.raises(Forbidden) as error:
            await bench.core.audit.page(bench.me)
        assert error.value.info == {"role": "member"}
        assert await bench.core.audit.page(bench.person("x", role="admin")) != []

    async def test_filters_and_pages(self, bench: Bench, boss: Principal) -> None:
        """By user, action and time; `before` is the position of the previous page's last row."""
        for minute in range(6):
            caller = bench.me if minute % 2 else bench.other
            await bench.core.workflows.create(caller, name="f")
            bench.clock.advance(60)
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        wanted = {"user": "me", "action": "workflow.create", "since": noon + timedelta(minutes=1)}
        assert [row["resource"]["id"] for row in await audit_rows(bench, boss, **wanted)] == ["2", "4", "6"]
        until = noon + timedelta(minutes=5)
        assert [row["resource"]["id"] for row in await audit_rows(bench, boss, **wanted, until=until)] == ["2", "4"]
        first = await bench.core.audit.page(boss, limit=4)
        second = await bench.core.audit.page(boss, limit=4, before=first[-1].position)
        assert [view.row.resource_id for view in (*first, *second)] == ["6", "5", "4", "3", "2", "1", "boss"]
        assert first[0].to_wire() == {
            "at": "2026-01-01T12:05:00.000Z", "userId": "me", "action": "workflow.create",
            "resource": {"type": "workflow", "id": "6"}, "details": first[0].row.details,
            "requestId": None, "remoteAddress": None, "userName": None, "resourceName": "f",
        }  # fmt: skip

    async def test_rows_have_the_names_that_the_caller_can_see(self, bench: Bench, boss: Principal) -> None:
        """Of members, workflows and skills the current ones, of other records that of the time of the row. What is
        deleted has none, nor has what is private to others."""
        core = bench.core
        await core.members.create(boss, userId="me", name="Ann")
        await core.members.create(boss, userId="mail", email="mail@x.org")
        for name in ("Refunds", "Deleted", "Private"):
            await core.workflows.create(bench.me, name=name)
        await core.workflows.delete(bench.me, 2)
        await core.workflows.patch(bench.me, 3, {"accessConfig": {"visibility": "private"}})
        await core.workflows.patch(bench.me, 1, {"name": "Payments"})
        await core.skills.create(bench.me, {"name": "Helper"})
        group = await core.groups.create(boss, name="Team")
        await core.groups.patch(boss, group.id, {"name": "Crew"})
        await core.members.delete(boss, "mail")
        rows = [view.to_wire() for view in await core.audit.page(boss, limit=99)]
        names = {(row["action"], row["resource"]["id"]): row["resourceName"] for row in rows}
        made = "workflow.create"
        assert (names[made, "1"], names[made, "2"], names[made, "3"]) == ("Payments", None, None)
        assert (names["workflow.delete", "2"], names["skill.create", "1"]) == (None, "Helper")
        assert (names["group.create", group.id], names["group.update", group.id]) == ("Team", "Crew")
        assert (names["member.create", "me"], names["member.create", "mail"]) == ("Ann", None)
        assert {row["userName"] for row in rows if row["userId"] == "me"} == {"Ann"}
        own = [view.to_wire() for view in await core.audit.page(bench.person("me", role="admin"), action=made)]
        assert [row["resourceName"] for row in own] == ["Private", None, "Payments"]

    async def test_a_run_has_the_name_of_what_it_is_a_run_of(self, bench: Bench, boss: Principal) -> None:
        """The current one of its workflow, also when the run is deleted; a row of an older release has none."""
        runs = bench.core.runs
        number = await bench.deployed(one(ask()))
        for key in ("first", "second"):
            await bench.ended(await runs.start(bench.me, workflow=number, input={}, key=key))
            await runs.cancel(bench.me, key)
        await runs.delete(bench.me, "second")
        await bench.core.workflows.patch(bench.me, number, name="Refunds")
        async with bench.core.ports.storage.transaction(bench.org) as work:
            await work.audit.add(AuditRow(bench.core.ports.now(), "me", "run.cancel", "run", "older"))
        rows = [row for row in await audit_rows(bench, boss) if row["resource"]["type"] == "run"]
        assert [(row["action"], row["resource"]["id"], row["resourceName"]) for row in rows] == [
            ("run.cancel", "first", "Refunds"), ("run.cancel", "second", "Refunds"),
            ("run.delete", "second", "Refunds"), ("run.cancel", "older", None),
        ]  # fmt: skip
