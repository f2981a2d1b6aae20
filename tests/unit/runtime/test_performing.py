"""Performing effects: tools that misbehave, models that stream (interface, Node; Events)."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

import pydantic
import pytest
from bench import Bench, act, agent, deployed_skill, eventually, graph, kinds, one, opened, why

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.ports.providers import Delta, Finished, ModelError, ModelRequest, TextDelta, TokenUsage, ToolFailed
from wfcore.runtime.agents.model_calls import MOST_TOKENS
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio


async def crash() -> None:
    """Cancelled from inside."""
    raise asyncio.CancelledError


def leave() -> None:
    raise SystemExit(3)


def refuse() -> None:
    raise ToolFailed("not today", retryable=False)


def thread() -> bool:
    import threading

    return threading.current_thread() is not threading.main_thread()


async def ever() -> None:
    await asyncio.Event().wait()


def unspeakable() -> Any:
    return object()


def typed(count: int) -> int:
    return count


async def doubled(number: int) -> int:
    return 2 * number


def large() -> str:
    return "x" * 3000


def countless() -> int:
    return 2**64


def bottomless() -> Any:
    return functools.reduce(lambda inner, _: [inner], range(129), 1)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


def garbled() -> None:
    raise OSError("no file \ud800")


def mute() -> None:
    raise Mute


def odd() -> None:
    raise ToolFailed({"why": "not today"})  # type: ignore[arg-type]


def exhausted() -> None:
    raise StopIteration("nothing more")


def breaks() -> None:
    raise KeyboardInterrupt("^C")


class Panic(BaseException):
    """As a module in Rust raises it: no Exception."""


async def panics() -> None:
    raise Panic("index out of bounds")


def panics_in_thread() -> None:
    raise Panic("index out of bounds")


async def closes() -> None:
    raise GeneratorExit("from inside")


def closes_in_thread() -> None:
    raise GeneratorExit("from inside")


async def halved(number: int) -> float:
    if number % 2:
        raise Panic("odd")
    return number / 2


MISFITS = [garbled, mute, odd, exhausted, breaks, panics, panics_in_thread, closes, closes_in_thread]


class Receipt(pydantic.BaseModel):
    paid: Decimal
    on: date


class Fuse(pydantic.BaseModel):
    @pydantic.model_serializer
    def explode(self) -> dict[str, int]:
        raise Panic("no fuse")


class Bomb(pydantic.BaseModel):
    @pydantic.model_serializer
    def explode(self) -> dict[str, int]:
        raise LookupError("no fuse")


def receipt() -> Receipt:
    return Receipt(paid=Decimal("7.50"), on=date(2026, 1, 2))


def bomb() -> Any:
    return Bomb()


def fuse() -> Any:
    return Fuse()


TOOLS = [
    receipt, bomb, fuse, crash, leave, refuse, thread, ever, unspeakable, large, typed, countless, bottomless, *MISFITS,
]  # fmt: skip


class TestTools:
    """Whatever a tool does, the run learns of it and other runs go on."""

    @pytest.mark.parametrize(
        ("node", "message", "reason"),
        [
            (act("crash"), "the tool was cancelled from inside", "tool"),
            (act("leave"), "SystemExit: 3", "tool"),
            (act("refuse"), "not today", "tool"),
            (act("ever", more={"timeoutSeconds": 0.01}), "no answer within 0.01 seconds", "timeout"),
            (act("unspeakable"), "the tool's result is not a JSON value", "tool"),
            (act("countless"), "the tool's result is not a JSON value: ", "tool"),
            (act("bottomless"), "the tool's result is nested deeper than 128 levels", "tool"),
            (act("bomb"), "the tool's result is not a JSON value: ", "tool"),
            (act("garbled"), "OSError: no file \\ud800", "tool"),
            (act("mute"), "Mute", "tool"),
            (act("odd"), "{'why': 'not today'}", "tool"),
            (act("exhausted"), "StopIteration: nothing more", "tool"),
            (act("breaks"), "KeyboardInterrupt: ^C", "tool"),
            (act("panics"), "Panic: index out of bounds", "tool"),
            (act("panics_in_thread"), "Panic: index out of bounds", "tool"),
            (act("closes"), "GeneratorExit: from inside", "tool"),
            (act("closes_in_thread"), "GeneratorExit: from inside", "tool"),
            (act("large"), "the tool's result has 3002 bytes: at most 2000", "tool"),
            (act("typed", count="{{ 'x' }}"), "`params.count`", "tool"),
        ],
    )
    async def test_failures(self, node: dict[str, Any], message: str, reason: str) -> None:
        """Each fails its node with a clear message; beside it a branch works on to its end."""
        settings = Settings(max_output_bytes=2000)
        async with opened("sqlite://", tools=TOOLS, settings=settings) as bench:
            run = await bench.ran(one(node))
            assert why(run)[0].startswith(message)
            assert why(run)[1] == reason
            beside = graph("s>a s>b a:error>c", a=node, b=act("thread"), c=act("core.transform", value="caught"))
            caught = await bench.ran(beside)
            assert caught.output == {"b": True, "c": "caught"}

    @pytest.mark.parametrize(("given", "message"), [(3, None), ("x", "`params.number`: must be integer")])
    async def test_each_call_of_a_segment_is_checked(self, given: Any, message: str | None) -> None:
        """Also that of a function which this process has called before."""
        structure = graph("s>a a>b", a=act("doubled", number=2), b=act("doubled", number=f"{{{{ {given!r} }}}}"))
        async with opened("sqlite://", tools=[doubled]) as bench:
            run = await bench.ran(structure)
            assert run.output == 6 if message is None else why(run) == (message, "tool")

    async def test_any_exception_fails_the_attempt(self) -> None:
        """Also one that is no Exception, in a segment: `retry` repeats the call, and the edge `error` goes on."""
        retry = {"retry": {"maxAttempts": 2, "initialIntervalSeconds": 0}}
        halves = act("halved", number="{{ int(nodes.a.output) }}", more=retry)
        structure = graph("s>a a>b b:error>c", a=act("halved", number=2), b=halves, c=act("core.transform", value="c"))
        async with opened("sqlite://", tools=[halved]) as bench:
            for _ in range(2):  # the second run has both calls in one segment
                run = await bench.ran(structure)
                assert run.output == "c"
                assert kinds(await bench.events(run.id)).count("node_retrying") == 1

    async def test_a_model_as_result(self) -> None:
        """A model of pydantic is stored in its JSON form."""
        async with opened("sqlite://", tools=TOOLS) as bench:
            assert (await bench.ran(one(act("receipt")))).output == {"paid": "7.50", "on": "2026-01-02"}

    @pytest.mark.parametrize("name", ["unspeakable", "bottomless", "large", "bomb", "fuse"])
    async def test_an_unusable_result_says_that_the_call_happened(self, name: str) -> None:
        """And it is not repeated, whatever `maxAttempts`."""
        settings = Settings(max_output_bytes=2000)
        async with opened("sqlite://", tools=TOOLS, settings=settings) as bench:
            run = await bench.ran(one(act(name, more={"retry": {"maxAttempts": 5}})))
            assert why(run)[0].endswith("; what the tool did has happened")
            assert kinds(await bench.events(run.id)).count("node_retrying") == 0

    async def test_what_cannot_be_helped_is_not_retried(self) -> None:
        """A failure that says so ends the node at once, whatever `maxAttempts`."""
        async with opened("sqlite://", tools=TOOLS) as bench:
            run = await bench.ran(one(act("refuse", more={"retry": {"maxAttempts": 5}})))
            assert kinds(await bench.events(run.id)).count("node_retrying") == 0

    async def test_parallel_branches_are_called_once_each(self, bench: Bench) -> None:
        """Twenty branches that end in any order: every tool once, every outcome kept."""
        names = [f"n{number}" for number in range(20)]
        structure = graph(" ".join(f"s>{name}" for name in names), **{name: act("hold", name=name) for name in names})
        run = await bench.started(structure)
        for name in names:
            await bench.until(name)
        for name in reversed(names):
            bench.tools.free[name].set()
            await asyncio.sleep(0)
        assert (await bench.ended(run)).output == {name: name for name in names}
        assert bench.tools.count("hold") == 20

    async def test_a_step_ends_when_its_tool_does(self, bench: Bench) -> None:
        """`at` of `node_finished` is the time of the answer, not that of the call."""
        run = await bench.started(one(act("hold")))
        await bench.until("it")
        bench.clock.advance(5)
        bench.tools.free["it"].set()
        times = {event.kind: event.at for event in await bench.events(run.id)}
        assert times["node_finished"] - times["run_started"] == 5_000

    async def test_a_failure_cancels_its_siblings(self, bench: Bench) -> None:
        """The run ends in `error` after the effects in flight were stopped, however long that takes them."""
        number = await bench.deployed(graph("s>a s>b", a=act("hold"), b=act("flaky", fails=9)))
        async for event in bench.core.runs.start(bench.me, workflow=number, input={}):
            assert bench.tools.broken_off == (["it"] if event.kind in ("node_failed", "error") else [])
        assert event.data["error"]["message"] == "RuntimeError: attempt 1 fails"


class Speaking:
    """A model that says three words, remembers its requests, and fails at first if it must."""

    def __init__(self, fails: int = 0, reason: str = "stop", *, counts: bool = False) -> None:
        self.requests: list[ModelRequest] = []
        self._fails, self._reason, self._counts = fails, reason, counts

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        self.requests.append(request)
        for word in ("one ", "two ", "three"):
            yield TextDelta(word)
        if len(self.requests) <= self._fails:
            if self._counts:
                yield TokenUsage(7, 3)
            raise ModelError("broke off")
        yield TokenUsage(7, 3)
        yield Finished(self._reason)


class Boastful:
    """A model that says these words, and that it took so many tokens."""

    def __init__(self, tokens: Any, *words: str) -> None:
        self._usage = TokenUsage(tokens, tokens)
        self._words = words or ("done",)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        for word in self._words:
            yield TextDelta(word)
        yield self._usage
        yield Finished()


class Panicking:
    """A model whose tokenizer panics."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        raise Panic("bad token")
        yield


class Pausing:
    """A model that says two words and then nothing for long."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        yield TextDelta("one ")
        yield TextDelta("two ")
        await self.go_on.wait()
        yield Finished()


class Hasty:
    """A model that says many words and never waits, and knows how many it has said."""

    def __init__(self, words: int) -> None:
        self.words, self.said = words, 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        for _ in range(self.words):
            self.said += 1
            yield TextDelta("word ")
        yield Finished()


async def two_of(said: Callable[[], Awaitable[list[str]]]) -> list[str]:
    pieces = await said()
    return pieces if len(pieces) > 1 else []


class TestAgents:
    """Agent nodes ask a model."""

    async def test_deltas_are_in_order_and_durable(self, database: str) -> None:
        """Together the deltas are the message; read again from the journal they are the same; usage is counted."""
        async with opened(database, models={"default": Speaking()}) as bench:
            run = await bench.ran(one(agent(message="hi")))
            live = await bench.events(run.id)
            deltas = [event.data["delta"] for event in live if event.kind == "message_delta"]
            message = next(event for event in live if event.kind == "message")
            assert ("".join(deltas), message.data["content"], run.output) == ("one two three",) * 3
            assert {event.data["messageId"] for event in live if event.kind == "message_delta"} == {
                message.data["messageId"]
            }
            assert live == await bench.core.runs.events(bench.me, run.id)
            assert run.to_wire()["usage"] == {"calls": 1, "inputTokens": 7, "outputTokens": 3, "durationMs": 0}

    async def test_a_model_that_panics(self, database: str) -> None:
        """Its call has failed, whatever it raised."""
        async with opened(database, models={"default": Panicking()}) as bench:
            assert why(await bench.ran(one(agent(message="hi")))) == ("Panic: bad token", "failed")

    async def test_what_a_failed_attempt_cost_is_counted(self, database: str) -> None:
        """As far as the model reported it: of two attempts, of which the first broke off, the run's usage has both."""
        model = Speaking(fails=1, counts=True)
        retry = {"maxAttempts": 2, "initialIntervalSeconds": 0}
        async with opened(database, models={"default": model}) as bench:
            run = await bench.ran(one(agent(message="hi", retry=retry)))
            assert run.to_wire()["usage"] == {"calls": 2, "inputTokens": 14, "outputTokens": 6, "durationMs": 0}
            assert kinds(await bench.events(run.id)).count("usage") == 2

    @pytest.mark.parametrize(
        ("reported", "counted"),
        [(10**23, MOST_TOKENS), (float("inf"), MOST_TOKENS), (-5, 0), (float("nan"), 0), ("many", 0), (2.0, 2)],
    )
    async def test_no_count_of_tokens_stops_a_run(self, database: str, reported: Any, counted: int) -> None:
        """What a provider says of its tokens is counted as far as any store can keep it."""
        async with opened(database, models={"default": Boastful(reported)}) as bench:
            run = await bench.ran(one(agent(message="hi")))
            usage = {"calls": 1, "inputTokens": counted, "outputTokens": counted, "durationMs": 0}
            assert (run.status, run.to_wire()["usage"]) == ("done", usage)

    async def test_halves_of_characters(self, database: str) -> None:
        """A model that splits a surrogate pair, as JSON can, loses that character and not its run."""
        async with opened(database, models={"default": Boastful(1, "so \ud83d", "\ude00!")}) as bench:
            run = await bench.ran(one(agent(message="hi")))
            deltas = [event.data["delta"] for event in await bench.events(run.id) if event.kind == "message_delta"]
            assert (run.output, "".join(deltas)) == ("so ??!", "so ??!")

    async def test_a_piece_waits_no_longer_than_the_interval(self) -> None:
        """The first at once, the next when the interval is over, though the model says nothing more for now."""
        model = Pausing()
        async with opened("sqlite://", models={"default": model}) as bench:
            run = await bench.started(one(agent(message="hi")))

            async def said() -> list[str]:
                events = await bench.core.runs.events(bench.me, run.id)
                return [event.data["delta"] for event in events if event.kind == "message_delta"]

            assert await eventually(said) == ["one "]
            interval = bench.core.ports.settings.delta_interval
            await eventually(lambda: bench.clock.next_timer == interval)
            bench.clock.advance(interval)
            assert await eventually(lambda: two_of(said)) == ["one ", "two "]
            model.go_on.set()
            assert (await bench.ended(run)).output == "one two "

    async def test_a_model_that_never_waits_starves_nobody(self) -> None:
        """Its first words are with who follows the run long before its last one is said."""
        model = Hasty(20_000)
        async with opened("sqlite://", models={"default": model}) as bench:
            run = await bench.started(one(agent(message="talk")))
            assert (await bench.seen(run, "message_delta")).data["delta"] == "word "
            assert model.said < 1_000
            events = await bench.events(run.id)
            text = "".join(event.data["delta"] for event in events if event.kind == "message_delta")
            assert text == "word " * 20_000

    async def test_skill_instructions_come_first(self, database: str) -> None:
        """The skill's instructions and expected output, then the node's; its model unless the node names one."""
        model = Speaking()
        async with opened(database, models={"default": model, "m": model, "n": model}) as bench:
            skill = await bench.core.skills.create(
                bench.me, name="s", instructions=["be kind"], model="m", expected_output="a poem"
            )
            await bench.core.skills.deploy(bench.me, skill.id)
            await bench.ran(
                one(agent(agent_id=skill.id, message="hi {{ input.n }}", instructions="be brief")), {"n": 1}
            )
            await bench.ran(one(agent(agent_id=skill.id, message="hi", model="n")))
            system, human = model.requests[0].messages
            assert system == {"type": "system", "content": "be kind\nExpected output: a poem\nbe brief"}
            assert human == {"type": "human", "content": "hi 1"}
            assert [request.model for request in model.requests] == ["m", "n"]

    @pytest.mark.parametrize(
        ("data", "models", "message"),
        [
            ({"model": "other"}, {"default": Speaking()}, "the model `other` is not configured"),
            ({"retry": {"maxAttempts": 1}}, {"default": Speaking(fails=9)}, "broke off"),
            ({}, {"default": Speaking(reason="length")}, "the model ended with `length`"),
            ({"outputSchema": {"type": "object"}}, {"default": Speaking()}, "the answer does not fit `outputSchema`"),
        ],
    )
    async def test_failures(self, data: dict[str, Any], models: Any, message: str) -> None:
        """A model that is missing, breaks off, stops early or says what does not fit fails the node."""
        async with opened("sqlite://", models=models) as bench:
            assert why(await bench.ran(one(agent(message="hi", **data))))[0].startswith(message)

    @pytest.mark.parametrize("fails", [2, 3])
    @pytest.mark.parametrize("target", ["node", "skill", "assistant"])
    async def test_an_answer_that_breaks_off_is_requested_again(self, target: str, fails: int) -> None:
        """Up to twice without a `maxAttempts`, in graphs, skills and chats; what had arrived is not part of it."""
        model = Speaking(fails=fails)
        async with opened("sqlite://", models={"default": model}) as bench:
            if target == "node":
                run = await bench.started(one(agent(message="hi")))
            elif target == "skill":
                run = await bench.core.runs.start(bench.me, skill=await deployed_skill(bench), message="hi")
            else:
                run = await bench.core.runs.chat(bench.me, message="hi")

            async def retried(number: int) -> bool:
                events = await bench.core.runs.events(bench.me, run.id)
                errors = [event.data["error"] for event in events if event.kind == "node_retrying"]
                return [error["info"]["cause"] for error in errors] == ["incomplete"] * number

            for number in (1, 2):
                await eventually(partial(retried, number))
                bench.clock.advance(2)
            ended = await bench.ended(run)
            assert len(model.requests) == 3
            assert await retried(2)
            if fails == 2:
                assert (ended.status, ended.output) == ("done", "one two three")
            else:
                assert why(ended) == ("broke off", "model")

    async def test_an_answer_that_does_not_fit_leads_to_another_call(self) -> None:
        """Within `maxAttempts`, and then it is the object."""
        model = ScriptedModel(["no JSON", '{"n": "x"}', '{"n": 1}'])
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        retry = {"maxAttempts": 3, "initialIntervalSeconds": 0}
        async with opened("sqlite://", models={"default": model}) as bench:
            run = await bench.ran(one(agent(message="hi", outputSchema=schema, retry=retry)))
            assert run.output == {"n": 1}
            retries = [event for event in await bench.events(run.id) if event.kind == "node_retrying"]
            assert [event.data["error"]["info"]["cause"] for event in retries] == ["output_schema"] * 2

    async def test_a_skill_deleted_meanwhile(self, bench: Bench) -> None:
        """Without a member row nobody is judged at the start; the node fails and says which skill."""
        skill = await bench.core.skills.create(bench.me, name="s")
        await bench.core.skills.deploy(bench.me, skill.id)
        number = await bench.deployed(one(agent(agent_id=skill.id, message="hi")))
        await bench.core.skills.delete(bench.me, skill.id)
        run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        assert why(run) == (f"skill `{skill.id}` is deleted: restore it, then retry the run", "skill_missing")
        await bench.core.skills.restore(bench.me, skill.id)
        again = await bench.ended(await bench.core.runs.retry(bench.me, run.id))
        assert again.status == "done"
