"""Usage and suggestions through the library (interface, functional areas)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bench import Bench, ask, one

from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.run.records import UsageRecord
from wfcore.testing.contracts.run_records import human, recorded

pytestmark = pytest.mark.anyio

PRIVATE: dict[str, Any] = {"visibility": "private", "groupPermissions": {}, "sharedWith": []}


async def use(bench: Bench, user: str, calls: int, ago: timedelta = timedelta()) -> None:
    at = bench.clock.now() - ago // timedelta(milliseconds=1) - 1
    record = UsageRecord("m", 3, "n", 10 * calls, calls, calls, 100, at=at)
    await recorded(bench.core.ports.journal, [record], org=bench.org, user=user, run=f"{user}-{at}")


class TestUsage:
    """The usage of models, and who sees it."""

    async def test_an_unknown_group_by_is_refused(self, bench: Bench) -> None:
        """The message has each allowed name in backticks, as every error has."""
        unknown: Any = "x"
        with pytest.raises(Malformed) as error:
            await bench.core.usage.report(bench.me, group_by=unknown)
        names = "`model`, `skill`, `workflow`, `user`, `day`, `origin`"
        assert error.value.message == f"`groupBy`: must be one of {names}"

    @pytest.mark.parametrize(("role", "seen"), [("member", {"me": 1}), ("admin", {"me": 1, "other": 2}),
                                                ("owner", {"me": 1, "other": 2})])  # fmt: skip
    async def test_members_see_their_own(self, bench: Bench, role: str, seen: dict[str, int]) -> None:
        """Admins and owners see the usage of the organization, members that of their own executions."""
        await use(bench, "me", 1)
        await use(bench, "other", 2)
        wire = (await bench.core.usage.report(bench.person("me", role=role), group_by="user")).to_wire()
        assert {row["key"]: row["calls"] for row in wire["usage"]} == seen
        calls = sum(seen.values())
        assert wire["totals"] == {
            "calls": calls, "inputTokens": 10 * calls, "outputTokens": calls, "durationMs": 100 * len(seen),
            "cost": None,
        }  # fmt: skip

    async def test_the_last_thirty_days_by_default(self, bench: Bench) -> None:
        """Without a period: the usage of the 30 days until now."""
        for days, calls in ((0, 1), (29, 10), (30, 100), (31, 1000)):
            await use(bench, "me", calls, timedelta(days=days))
        report = await bench.core.usage.report(bench.me)
        assert (report.to_wire()["totals"]["calls"], report.until - report.since) == (11, timedelta(days=30))

    async def test_invalid_periods(self, bench: Bench) -> None:
        """Empty, reversed, of more than 366 days, or before 1970: malformed, with the parameter's name."""
        late, early = datetime(2026, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)
        for since, until, name in (
            (late, late, "from"),
            (late, late - timedelta(days=1), "from"),
            (late - timedelta(days=366, milliseconds=1), late, "from"),
            (None, early, "to"),
            (early, early, "to"),
            (early, None, "from"),
        ):
            with pytest.raises(Malformed) as caught:
                await bench.core.usage.report(bench.me, since=since, until=until)
            assert [issue["path"] for issue in caught.value.info["errors"]] == [name]
        await bench.core.usage.report(bench.me, since=late - timedelta(days=366), until=late)


class TestSuggestions:
    """Suggested prompts from what the caller can see."""

    async def test_each_kind_of_suggestion(self, bench: Bench) -> None:
        """An open decision, a conversation to continue, a skill never used, a workflow to run."""
        tried = await self.skill(bench, "Tried", "Answers letters")
        await self.skill(bench, "New", "Writes poems")
        run = await bench.ran(one(ask(message="Pay 40?")))
        flow = int(run.to_wire()["target"]["id"])
        words = [human("Where is it?", 5)]
        await recorded(bench.core.ports.journal, words, org=bench.org, user="me", kind="skill", resource=tried)
        found = [one.to_wire() for one in await bench.core.suggestions.suggest(bench.me)]
        assert [row["prompt"] for row in found] == [
            "What is waiting for my decision: Pay 40?",
            "Let us go on with this: Where is it?",
            "Help me with this: Writes poems",
            "Run `A flow`",
        ]
        assert found[0]["target"].items() >= {"type": "interrupt", "runId": run.id}.items()
        assert found[1]["target"] == {"type": "conversation", "threadId": "t-1", "skillId": tried}
        assert found[3]["target"] == {"type": "workflow", "id": flow}
        assert all(row["reason"] for row in found)

    async def test_what_is_hidden_has_no_influence(self, bench: Bench) -> None:
        """Private skills and workflows, drafts, and other users' messages leave no trace."""
        before = await bench.core.suggestions.suggest(bench.other)
        number = await self.skill(bench, "Canary", "Canary", accessConfig=PRIVATE)
        await bench.core.skills.create(bench.other, name="Canary draft")
        flow = await bench.core.workflows.create(bench.me, name="Canary", structure=one(ask()), accessConfig=PRIVATE)
        await bench.core.workflows.deploy(bench.me, flow.id)
        await bench.ended(await bench.core.runs.start(bench.me, workflow=flow.id, input={}))
        said = [human("Canary", 5)]
        await recorded(bench.core.ports.journal, said, org=bench.org, user="me", kind="skill", resource=number)
        assert await bench.core.suggestions.suggest(bench.other) == before == []
        assert await bench.core.suggestions.suggest(bench.me)

    async def test_suggestions_require_scopes(self, bench: Bench) -> None:
        """Without the scope to read conversations, or workflows, there are no suggestions from them."""
        number = await self.skill(bench, "Tried", None)
        await bench.ran(one(ask()))
        words = [human("Where is it?", 5)]
        await recorded(bench.core.ports.journal, words, org=bench.org, user="me", kind="skill", resource=number)

        async def sorts(*scopes: str) -> list[str]:
            person = bench.person("me", scopes=["skills:read", *scopes])
            return [str(row.target["type"]) for row in await bench.core.suggestions.suggest(person)]

        assert await sorts() == ["skill"]
        assert await sorts("conversations:read") == ["conversation"]
        assert await sorts("workflows:read") == ["interrupt", "skill", "workflow"]

    async def skill(self, bench: Bench, name: str, description: str | None, **more: Any) -> int:
        """A deployed one."""
        fields = more | ({} if description is None else {"description": description})
        made = await bench.core.skills.create(bench.me, name=name, instructions=["Be kind."], **fields)
        await bench.core.skills.deploy(bench.me, made.id)
        return made.id
