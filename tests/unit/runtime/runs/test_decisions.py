"""Resuming interrupted runs: access, the effects of a decision, and races (interface, Resume a run)."""

import asyncio
from typing import Any

import attrs
import pytest
from bench import Bench, act, ask, graph, kinds, paths, reason

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound, WfcoreError
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.runs.inbox import Inbox

pytestmark = pytest.mark.anyio

AFTER = act("echo", value="{{ nodes.h.output }}")
APPROVAL = graph("s>h h:approved>a", h=ask(), a=AFTER)
TWO = graph("s>g s>h g:approved>b h:approved>a", g=ask(), h=ask(), a=act("echo", value="a"), b=act("echo", value="b"))
BESIDE = graph("s>h s>w h:approved>a", h=ask(), w=act("hold"), a=act("echo", value="a"))
"""An approval beside a branch that works."""


async def parked(bench: Bench, structure: dict[str, Any], **fields: Any) -> RunView:
    run = await bench.ran(structure, **fields)
    assert run.status == "interrupted"
    return run


def ids(run: RunView) -> list[str]:
    return [interrupt.id for interrupt in run.interrupts]


class TestDecisions:
    """A decision continues the execution in a new run."""

    async def test_a_resume_is_a_new_run_of_the_same_thread(self, bench: Bench) -> None:
        """`parentRunId` and `resumedBy` link the two; the thread stays; the output names the approvers."""
        run = await parked(bench, APPROVAL)
        turn = await bench.ended(await bench.core.runs.resume(bench.other, run.id, decision="approve", data={"x": 1}))
        before = await bench.core.runs.get(bench.me, run.id)
        assert (turn.status, turn.row.parent_run_id, before.row.resumed_by) == ("done", run.id, turn.id)
        assert turn.row.thread_id == run.row.thread_id
        assert (before.status, before.to_wire()["interrupts"]) == ("interrupted", run.to_wire()["interrupts"])
        said = turn.output
        assert (said["decision"], said["decidedBy"], said["data"]) == ("approve", ["other"], {"x": 1})

    async def test_an_execution_keeps_its_thread_and_variation(self, bench: Bench) -> None:
        """Whatever a resume says about both: those are of a start."""
        run = await parked(bench, APPROVAL)
        await bench.core.workflows.patch(bench.me, 1, workflow_structure=graph("s>b", b=act("echo", value=2)))
        body = {"decision": "approve", "fileThreadId": "another", "sessionId": "another", "version": "draft"}
        turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, body))
        for name in ("threadId", "variationId", "version"):
            assert turn.to_wire()[name] == run.to_wire()[name]
        assert turn.output["decision"] == "approve"

    async def test_denial_ends_that_path(self, bench: Bench) -> None:
        """Without a `denied` edge nothing follows, and the run is done."""
        run = await parked(bench, APPROVAL)
        turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="deny"))
        assert (turn.status, turn.output["decision"]) == ("done", "deny")
        assert bench.tools.calls == []

    async def test_several_at_once_all_or_nothing(self, bench: Bench) -> None:
        """One invalid decision refuses all; both valid ones together are one turn."""
        run = await parked(bench, TWO)
        good, other = ids(run)
        approve = {"decision": "approve"}
        for bad, error in (
            ({"interruptId": "int_none", **approve}, Invalid),
            ({"interruptId": other, "decision": "connected"}, Invalid),
            ({"interruptId": good, **approve}, Conflict),
        ):
            with pytest.raises(error):
                await bench.core.runs.resume(bench.me, run.id, decisions=[{"interruptId": good, **approve}, bad])
            assert ids(await bench.core.runs.get(bench.me, run.id)) == [good, other]
        both = [{"interruptId": one, **approve} for one in (other, good)]
        turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decisions=both))
        assert (turn.status, turn.output) == ("done", {"a": "a", "b": "b"})

    async def test_decisions_in_any_order(self, bench: Bench) -> None:
        """After one decision of two the new turn continues and parks again on the other interrupt."""
        run = await parked(bench, TWO)
        second = await bench.ended(
            await bench.core.runs.resume(bench.me, run.id, decision="approve", interrupt_id=ids(run)[1])
        )
        assert (second.status, ids(second)) == ("interrupted", ids(run)[:1])
        third = await bench.ended(await bench.core.runs.resume(bench.me, second.id, decision="deny"))
        assert third.status == "done"

    async def test_the_first_of_several_approvals_parks_again(self, bench: Bench) -> None:
        """Each is a turn of its own on the same `interruptId`; the same user counts once."""
        run = await parked(bench, graph("s>h h:approved>a", h=ask(requiredApprovals=2), a=AFTER))
        first = await bench.core.runs.resume(bench.me, run.id, decision="approve")
        assert (first.status, ids(first)) == ("interrupted", ids(run))
        assert kinds(await bench.events(first.id)) == ["run_started", "done"]
        with pytest.raises(Forbidden) as error:
            await bench.core.runs.resume(bench.me, first.id, decision="approve")
        assert error.value.info == {"reason": "already_decided"}
        assert await reason(bench.core.runs.resume(bench.other, run.id, decision="approve")) == "already_resumed"
        last = await bench.ended(await bench.core.runs.resume(bench.other, first.id, decision="approve"))
        assert last.output["decidedBy"] == ["me", "other"]

    async def test_with_an_active_branch(self, bench: Bench) -> None:
        """The old turn ends as interrupted, the new one gets the branch's events; its tool is not called again."""
        run = await bench.started(BESIDE)
        await bench.until("it")
        assert (await bench.core.runs.get(bench.me, run.id)).status == "running"
        turn = await bench.core.runs.resume(bench.me, run.id, decision="approve")
        old = await bench.events(run.id)
        assert old[-1].data["status"] == "interrupted"
        record = (await bench.core.runs.get(bench.me, run.id)).to_wire()
        assert (
            [one["interruptId"] for one in record["interrupts"]]
            == [one["interruptId"] for one in old[-1].data["interrupts"]]
            != []
        )
        assert (record["status"], record["resumedBy"]) == ("interrupted", turn.id)
        bench.tools.free["it"].set()
        done = await bench.ended(turn)
        assert (done.status, done.output) == ("done", {"a": "a", "w": "it"})
        assert bench.tools.count("hold") == 1
        assert bench.tools.broken_off == []
        nodes = [event.data.get("nodeId") for event in await bench.events(turn.id) if event.kind == "node_finished"]
        assert sorted(nodes) == ["a", "h", "w"]

    async def test_the_fields_of_a_resume(self, bench: Bench) -> None:
        """`message` and similar fields are read as `run.*` from this turn on; a field without effect is refused."""
        structure = graph("s>h h:approved>a", h=ask(), a=act("echo", value="{{ run }}"))
        run = await parked(bench, structure, message="first", origin="api")
        body = {"decision": "approve", "message": "second", "streamProtocolVersion": 2, "sessionId": "s"}
        with pytest.raises(Invalid) as error:
            await bench.core.runs.resume(bench.me, run.id, {**body, "config": {"model": "x"}})
        assert paths(error) == {("config.model", "unsupported")}
        turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, body))
        assert (turn.output["message"], turn.output["origin"], turn.output["id"]) == ("second", "api", run.id)


class TestRefusals:
    """Runs that cannot be resumed, each with its `info.reason`."""

    async def test_the_reasons(self, bench: Bench) -> None:
        """`ambiguous` with the open ids, `already_resumed` for what somebody has decided, `not_interrupted`."""
        resume = bench.core.runs.resume
        run = await parked(bench, TWO)
        with pytest.raises(Conflict) as error:
            await resume(bench.me, run.id, decision="approve")
        assert error.value.info == {"reason": "ambiguous", "interruptIds": ids(run)}
        turn = await resume(bench.me, run.id, decision="approve", interrupt_id=ids(run)[0])
        assert await reason(resume(bench.me, run.id, decision="approve")) == "already_resumed"
        again = resume(bench.me, turn.id, decision="approve", interrupt_id=ids(run)[0])
        assert await reason(again) == "already_resumed"
        cancelled = await bench.core.runs.cancel(bench.me, turn.id)
        for interrupt_id, why in zip(ids(run), ("already_resumed", "not_interrupted"), strict=True):
            again = resume(bench.me, cancelled.id, decision="approve", interrupt_id=interrupt_id)
            assert await reason(again) == why
        done = await bench.ran(graph("s>a", a=act("echo")))
        assert await reason(resume(bench.me, done.id, decision="approve")) == "not_interrupted"
        assert await reason(resume(bench.me, done.id)) == "not_interrupted"
        going = await bench.started(graph("s>a", a=act("hold")))
        assert await reason(resume(bench.me, going.id, decision="approve")) == "not_interrupted"
        assert await reason(resume(bench.me, going.id)) == "not_interrupted"
        with pytest.raises(NotFound):
            await resume(bench.me, "none", decision="approve")

    async def test_an_unknown_interrupt(self, bench: Bench) -> None:
        """422 with the path of the id, alone or among others."""
        run = await parked(bench, TWO)
        for path, body in (
            ("interruptId", {"decision": "approve", "interruptId": "int_none"}),
            ("decisions[1].interruptId", {"decisions": [
                {"decision": "approve", "interruptId": name} for name in (ids(run)[0], "int_none")
            ]}),
        ):  # fmt: skip
            with pytest.raises(Invalid) as error:
                await bench.core.runs.resume(bench.me, run.id, body)
            assert paths(error) == {(path, "reference")}

    async def test_a_passed_deadline(self, bench: Bench) -> None:
        """A decision after the deadline is `expired`, also before the driver noticed the deadline."""
        run = await parked(bench, graph("s>h h:approved>a", h=ask(timeoutSeconds=60), a=AFTER))
        bench.clock._now += 60_000
        assert await reason(bench.core.runs.resume(bench.me, run.id, decision="approve")) == "expired"

    async def test_the_inbox_has_no_expired_interrupts(self, bench: Bench) -> None:
        """Before its deadline an approval is in the inbox of its approvers, afterwards in none."""
        await parked(bench, graph("s>h h:approved>a", h=ask(timeoutSeconds=60), a=AFTER))
        for later, waiting in ((59_999, 1), (1, 0)):
            bench.clock._now += later
            items, following = await bench.core.runs.interrupts(bench.me)
            assert (len(items), following) == (waiting, None)

    @pytest.mark.parametrize(
        ("body", "error", "found"),
        [
            ({}, Invalid, ("decision", "required_if")),
            ({"decision": "yes"}, Invalid, ("decision", "enum")),
            ({"decision": 1}, Malformed, ("decision", "type")),
            ({"decision": "connected"}, Invalid, ("decision", "enum")),
            ({"data": {}}, Invalid, ("decision", "required_if")),
            ({"decisions": []}, Invalid, ("decisions", "minItems")),
            ({"decisions": [{"interruptId": "i"}]}, Malformed, ("decisions[0].decision", "required")),
            ({"decision": "deny", "decisions": [{"interruptId": "i", "decision": "deny"}]}, Invalid,
             ("decision", "exclusive")),
            ({"decision": "approve", "data": {"n": "x"}}, Invalid, ("data.n", "type")),
            ({"decision": "approve"}, Invalid, ("data", "type")),
        ],
    )  # fmt: skip
    async def test_invalid_decisions(
        self, bench: Bench, body: dict[str, Any], error: type[WfcoreError], found: tuple[str, str]
    ) -> None:
        """The wrong kind and violations of the form are 422, with paths under `data`; the run stays parked."""
        form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        run = await parked(bench, graph("s>h h:approved>a", h=ask(formSchema=form), a=AFTER))
        with pytest.raises(error) as refused:
            await bench.core.runs.resume(bench.me, run.id, body)
        assert type(refused.value) is error
        assert found in paths(refused)
        assert (await bench.core.runs.get(bench.me, run.id)).row.resumed_by is None
        assert (await bench.core.runs.resume(bench.me, run.id, decision="approve", data={"n": 1})).row.parent_run_id

    async def test_the_form_of_one_of_several(self, bench: Bench) -> None:
        """A violation in `decisions` has the entry's path."""
        run = await parked(bench, graph("s>g s>h", g=ask(), h=ask(formSchema={"type": "object"})))
        answers = [{"interruptId": one, "decision": "approve", "data": 1} for one in ids(run)]
        with pytest.raises(Invalid) as error:
            await bench.core.runs.resume(bench.me, run.id, decisions=answers)
        assert paths(error) == {("decisions[1].data", "type")}


class TestWho:
    """Who can decide: the named approvers, otherwise users of the workflow."""

    async def test_named_approvers_need_no_access(self, bench: Bench) -> None:
        """By verified e-mail or by group: they see the run in their inbox, read it and decide; others do not."""
        team = (await bench.core.directory.create_group(bench.org, "team")).id
        named = ask(approvers={"emails": ["Boss@x.org"], "groups": [team]})
        flows = bench.core.workflows
        number = (await flows.create(bench.me, name="f", access={"visibility": "private"},
                                     structure=graph("s>h h:approved>a", h=named, a=AFTER))).id  # fmt: skip
        await flows.deploy(bench.me, number)
        run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        boss = bench.person("boss")
        unverified = attrs.evolve(boss, email_verified=False)
        for who in (bench.other, unverified):
            assert await bench.core.runs.interrupts(who) == ([], None)
            for call in (bench.core.runs.get(who, run.id), bench.core.runs.resume(who, run.id, decision="approve")):
                with pytest.raises(NotFound):
                    await call
        with pytest.raises(Forbidden) as error:
            await bench.core.runs.resume(bench.me, run.id, decision="approve")
        assert error.value.info == {"reason": "not_an_approver"}
        for who in (boss, bench.person("mate", groups=[team])):
            ((item,), _) = await bench.core.runs.interrupts(who)
            assert (item.to_wire()["runId"], item.to_wire()["interruptId"]) == (run.id, ids(run)[0])
            assert (await bench.core.runs.get(who, run.id)).status == "interrupted"
        turn = await bench.core.runs.resume(boss, run.id, decision="approve")
        assert (await bench.core.runs.get(boss, turn.id)).id == turn.id

    async def test_an_approver_cannot_decide_another_interrupt(self, bench: Bench) -> None:
        """The approver sees the run, so the error is 403 and not 404."""
        named = ask(approvers={"emails": ["boss@x.org"]})
        number = await bench.deployed(graph("s>g s>h", g=named, h=ask()), access={"visibility": "private"})
        run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        with pytest.raises(Forbidden):
            await bench.core.runs.resume(bench.person("boss"), run.id, decision="approve", interrupt_id=ids(run)[1])

    async def test_use_is_required_without_named_approvers(self, bench: Bench) -> None:
        """At the time of the decision: a starter who lost use can neither read the run nor decide."""
        number = await bench.deployed(APPROVAL)
        run = await bench.ended(await bench.core.runs.start(bench.other, workflow=number, input={}))
        await bench.core.workflows.patch(bench.me, number, access={"visibility": "private"})
        for call in (bench.core.runs.get, bench.core.runs.events, bench.core.runs.resume):
            with pytest.raises(NotFound):
                await call(bench.other, run.id)
        assert await bench.core.runs.interrupts(bench.other) == ([], None)
        assert (await bench.core.runs.resume(bench.me, run.id, decision="approve")).row.user_id == "me"

    async def test_self_approval(self, bench: Bench) -> None:
        """Where it is not allowed, the starter of the execution cannot approve in any turn of it."""
        structure = graph("s>g g:approved>h", g=ask(), h=ask(allowSelfApproval=False))
        run = await parked(bench, structure)
        turn = await bench.ended(await bench.core.runs.resume(bench.other, run.id, decision="approve"))
        with pytest.raises(Forbidden) as error:
            await bench.core.runs.resume(bench.me, turn.id, decision="approve")
        assert error.value.info == {"reason": "self_approval"}
        assert await bench.core.runs.interrupts(bench.me) == ([], None)
        assert (await bench.core.runs.resume(bench.other, turn.id, decision="approve")).status == "done"

    async def test_the_inbox_shows_the_latest_run(self, bench: Bench) -> None:
        """Newest first; items keep their position and have the id of the latest turn; pages continue."""
        run = await parked(bench, TWO)
        another = await parked(bench, APPROVAL)
        turn = await bench.ended(
            await bench.core.runs.resume(bench.me, run.id, decision="approve", interrupt_id=ids(run)[0])
        )
        items, following = await bench.core.runs.interrupts(bench.me, limit=1)
        assert ([item.to_wire()["runId"] for item in items], following is None) == ([another.id], False)
        rest, end = await bench.core.runs.interrupts(bench.me, limit=1, before=following or 0)
        assert ([item.to_wire()["runId"] for item in rest], end) == ([turn.id], None)


class TestRaces:
    """Exactly one decision is recorded."""

    async def test_of_two_approvers_one_wins(self, bench: Bench) -> None:
        """Of two concurrent decisions one resumes the run, the other gets 409."""
        for _ in range(5):
            run = await parked(bench, APPROVAL)
            answers = await asyncio.gather(
                _answer(bench, bench.me, run, "approve"), _answer(bench, bench.other, run, "deny")
            )
            won = [answer for answer in answers if isinstance(answer, RunView)]
            lost = [answer for answer in answers if isinstance(answer, Conflict)]
            assert [error.info["reason"] for error in lost] == ["already_resumed"]
            assert (await bench.core.runs.get(bench.me, run.id)).row.resumed_by == won[0].id

    async def test_decisions_from_two_inboxes(self, bench: Bench) -> None:
        """Both count while the interrupt needs them, although one has made a new turn of the run before the other."""
        inbox = Inbox(bench.core.ports, bench.core.runs)
        for _ in range(5):
            (name,) = ids(await parked(bench, graph("s>h h:approved>a", h=ask(requiredApprovals=2), a=AFTER)))
            body = {"decisions": [{"interruptId": name, "decision": "approve"}]}
            outcomes = await asyncio.gather(*(inbox.decide(who, body) for who in (bench.me, bench.other)))
            assert [one.error for (one,) in outcomes] == [None, None]
            (late,) = await inbox.decide(bench.me, body)
            assert isinstance(late.error, Conflict)

    async def test_the_same_key_and_body_join(self, bench: Bench) -> None:
        """Twenty retries of one decision are one run; another body with the key is 409."""
        run = await parked(bench, APPROVAL)
        turns = await asyncio.gather(
            *(bench.core.runs.resume(bench.me, run.id, decision="approve", key="k") for _ in range(20))
        )
        assert {turn.id for turn in turns} == {"k"}
        await bench.ended("k")
        assert bench.tools.count("echo") == 1
        body: dict[str, Any] = {"decision": "approve", "runId": "k"}
        assert (await bench.core.runs.resume(bench.me, run.id, body)).id == "k"
        for body in ({"decision": "deny"}, {"decision": "approve", "message": "x"}):
            assert await reason(bench.core.runs.resume(bench.me, run.id, body, key="k")) == "key_reused"
        assert await reason(bench.core.runs.resume(bench.other, run.id, decision="approve", key="k")) == "key_reused"
        assert await reason(bench.core.runs.resume(bench.me, run.id, decision="approve", key=run.id)) == "key_reused"

    async def test_a_body_run_id_equal_to_the_path_is_ignored(self, bench: Bench) -> None:
        """A client that sends the whole start body again gets a new run."""
        run = await parked(bench, APPROVAL)
        turn = await bench.core.runs.resume(bench.me, run.id, {"decision": "approve", "runId": run.id})
        assert turn.id != run.id

    async def test_resume_against_cancel(self, bench: Bench) -> None:
        """After a concurrent resume and cancel the record is consistent."""
        for _ in range(5):
            run = await parked(bench, APPROVAL)
            answer, cancel = await asyncio.gather(
                _answer(bench, bench.me, run, "deny"), bench.core.runs.cancel(bench.me, run.id), return_exceptions=True
            )
            record = await bench.core.runs.get(bench.me, run.id)
            if isinstance(cancel, Conflict):
                assert isinstance(answer, RunView)
                assert record.row.resumed_by == answer.id
            else:
                assert isinstance(answer, Conflict)
                assert (record.status, record.row.resumed_by) == ("cancelled", None)


async def _answer(bench: Bench, who: Any, run: RunView, decision: str) -> RunView | Conflict:
    try:
        return await bench.core.runs.resume(who, run.id, decision=decision)
    except Conflict as error:
        return error
