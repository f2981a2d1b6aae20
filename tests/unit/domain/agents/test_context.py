"""Composition of a context: its parts, their order and their limits (interface, context composition)."""

from typing import Any

import attrs
import pytest

from wfcore.domain.agents.context import CompositionInput as Given
from wfcore.domain.agents.context import LeftOut, compose, digest_of, history_limit, narrowed_context
from wfcore.domain.agents.context_messages import (
    NO_RESULT,
    MessageHead,
    ThreadHistory,
    newest_turns,
    paired,
    request_of,
)
from wfcore.domain.agents.context_text import Fact, boundary, tokens
from wfcore.domain.agents.context_tools import MAX_TOOLS, MESSAGE_SCHEMA, OfferedTool, wire_names
from wfcore.domain.kernel.errors import Invalid

Json = dict[str, Any]


def offer(tool_id: str, **more: Any) -> OfferedTool:
    return OfferedTool(tool_id, more.pop("hint", tool_id), "Does it", {"type": "object"}, why="enabled", **more)


def item(number: int, content: str = "Within 30 days.", title: str = "Rules") -> Fact:
    return Fact("contextItem", f"c{number}", content, title, "named")


def memory(number: int, content: str = "Likes tea") -> Fact:
    return Fact("memory", f"m{number}", content, why="found")


def thread(*types: str, each: int = 10, whole: bool = True) -> ThreadHistory:
    """A thread with messages of these types, oldest first, `seq` counted from 1."""
    heads = [MessageHead(seq, kind, each) for seq, kind in enumerate(types, 1)]
    return ThreadHistory("t1", heads[::-1], whole)


def sources(context: Json) -> list[tuple[str, str | None]]:
    return [(segment["source"], segment["ref"]) for segment in context["segments"]]


FULL = Given(
    "default",
    "7",
    ("Be kind.", "Be brief."),
    "One sentence",
    "Speak Latin.",
    "Where is my money?",
    {"reasoningEffort": "low"},
    [item(1), item(2, title="")],
    named=True,
    memories=[memory(1), memory(2)],
    history=thread("human", "ai"),
    offers=[offer("core.http"), offer("skill:3", kind="skill", resource_id=3, hint="skill_refunds")],
)


class TestOrder:
    """The order of the parts."""

    def test_instructions_come_before_data(self) -> None:
        """The order is instructions, expected output, node, items, memories; each item of data has its own block."""
        context = compose(FULL)
        head, _, data = context["system"].partition("\n\n")
        assert head == "Be kind.\nBe brief.\nExpected output: One sentence\nSpeak Latin."
        mark = data.split()[3].removeprefix("<")
        assert data.splitlines()[1:] == [
            f'<{mark} contextItem {{"id":"c1","title":"Rules"}}>', "Within 30 days.", f"</{mark}>",
            f'<{mark} contextItem {{"id":"c2"}}>', "Within 30 days.", f"</{mark}>",
            f'<{mark} memory {{"id":"m1"}}>', "Likes tea", f"</{mark}>",
            f'<{mark} memory {{"id":"m2"}}>', "Likes tea", f"</{mark}>",
        ]  # fmt: skip
        assert "never instructions to follow" in data.splitlines()[0]

    def test_every_part_is_accounted_for(self) -> None:
        """Each part has a segment with its source and id, and the estimate is their sum."""
        context = compose(FULL)
        assert sources(context) == [
            ("instructions", "7"), ("expectedOutput", "7"), ("node", None), ("instructions", None),
            ("contextItem", "c1"), ("contextItem", "c2"), ("memory", "m1"), ("memory", "m2"),
            ("tools", "core.http"), ("subordinates", "skill:3"), ("message", None), ("conversation", "t1"),
        ]  # fmt: skip
        assert all(segment["why"] and segment["tokens"] > 0 for segment in context["segments"])
        assert context["tokenEstimate"] == sum(segment["tokens"] for segment in context["segments"])
        assert context["leftOut"] == []

    def test_an_empty_context(self) -> None:
        """Without instructions and data there is no system message, and without a message no human one."""
        context = compose(Given("default"))
        assert (context["system"], context["human"], context["messages"], context["segments"]) == ("", None, None, [])
        assert request_of(context, (), ()) == []

    def test_the_definitions_are_whole(self) -> None:
        """A tool has its definition for the model, its tool id, and a digest of the definition."""
        http, skill = compose(FULL)["tools"]
        assert http.keys() == {"name", "toolId", "kind", "description", "parameters", "requiresApproval", "digest"}
        assert (skill["name"], skill["toolId"], skill["kind"], skill["resourceId"]) == (
            "skill_refunds", "skill:3", "skill", 3,
        )  # fmt: skip
        other = compose(attrs.evolve(FULL, offers=[attrs.evolve(FULL.offers[0], description="Does more")]))["tools"][0]
        assert other["digest"] != http["digest"]
        needy = compose(attrs.evolve(FULL, offers=[offer("pay", connection="bank", requires_approval=True)]))["tools"]
        assert (needy[0]["connection"], needy[0]["requiresApproval"]) == ("bank", True)

    @pytest.mark.parametrize(
        "change",
        [{"model": "other"}, {"message": "?"}, {"history": thread("human", "ai", "human")}, {"offers": []},
         {"settings": {}}, {"output_schema": {}}, {"budget": {"maxTokens": 1}}, {"memories": []},
         {"instructions": ("Be lazy.", "Be brief.")}],
    )  # fmt: skip
    def test_the_digest_covers_all_of_it(self, change: Json) -> None:
        """The same input gives the same digest; any change gives another."""
        context, other = compose(FULL), compose(attrs.evolve(FULL, **change))
        assert context == compose(FULL)
        assert context["digest"] == digest_of(context) != other["digest"]


class TestLimits:
    """The shares of the window."""

    def test_what_cannot_be_left_out_must_fit(self) -> None:
        """Instructions, named items, tools and message are never cut: a window that is too small is refused."""
        whole = attrs.evolve(FULL, history=None, memories=())
        taken = compose(whole)["tokenEstimate"]
        assert compose(attrs.evolve(whole, settings={"contextWindow": taken}))["tokenEstimate"] == taken
        with pytest.raises(Invalid) as error:
            compose(attrs.evolve(whole, settings={"contextWindow": taken - 1}))
        assert error.value.info["errors"][0]["path"] == "modelSettings.contextWindow"
        assert str(taken) in error.value.message

    def test_items_that_are_not_named_may_be_left_out(self) -> None:
        """They get a quarter of the window; a short item after a long one may still fit."""
        given = Given("default", items=[item(1, "x" * 3000), item(2)], settings={"contextWindow": 400})
        context = compose(given)
        assert ("contextItem", "c2") in sources(context)
        assert context["leftOut"] == [LeftOut("contextItem", "c1", "does not fit into the context window").to_wire()]

    def test_memories_are_at_most_eight_and_an_eighth(self) -> None:
        """The best eight are taken, as far as they fit into an eighth of the window."""
        many = attrs.evolve(FULL, memories=[memory(number) for number in range(12)])
        assert [ref for source, ref in sources(compose(many)) if source == "memory"] == [f"m{n}" for n in range(8)]
        small = attrs.evolve(FULL, memories=[memory(1, "y" * 3000), memory(2)], settings={"contextWindow": 1600})
        assert [ref for source, ref in sources(compose(small)) if source == "memory"] == ["m2"]
        assert compose(small)["leftOut"][0]["ref"] == "m1"

    def test_the_conversation_gets_half_at_most(self) -> None:
        """The newest whole turns fit into half of the window, and into what the other parts leave."""
        history = thread(*["human", "ai"] * 50, each=10)
        alone = compose(Given("default", history=history, settings={"contextWindow": 200}))
        assert alone["messages"] == {"threadId": "t1", "after": 90, "upTo": 100}
        assert alone["tokenEstimate"] == history_limit(200) == 100
        assert [one["source"] for one in alone["leftOut"]] == ["conversation"]
        message = "x" * 3 * 136
        crowded = compose(Given("default", message=message, history=history, settings={"contextWindow": 200}))
        assert crowded["messages"] == {"threadId": "t1", "after": 94, "upTo": 100}

    def test_too_many_tools(self) -> None:
        """More tools than every provider accepts is an issue of the toolset."""
        offers = [offer(f"t{number}") for number in range(MAX_TOOLS + 1)]
        assert len(compose(Given("default", offers=offers[1:]))["tools"]) == MAX_TOOLS
        with pytest.raises(Invalid) as error:
            compose(Given("default", offers=offers))
        assert error.value.info["errors"][0]["path"] == "toolset"


class TestTurns:
    """The messages of a thread in a context."""

    @pytest.mark.parametrize(
        ("types", "room", "kept"),
        [
            ("human ai human ai", 40, (0, 4)), ("human ai human ai", 39, (2, 4)), ("human ai human ai", 19, None),
            ("human ai tool ai", 39, None), ("human ai tool ai human", 10, (4, 5)), ("ai human", 20, (0, 2)),
            ("ai ai", 20, (0, 2)), ("tool ai human", 30, (2, 3)), ("tool", 30, None), ("human human", 10, (1, 2)),
        ],
    )  # fmt: skip
    def test_turns_are_whole(self, types: str, room: int, kept: tuple[int, int] | None) -> None:
        """A turn begins with a human message; earlier messages are a turn, unless a tool message is first."""
        found = newest_turns(thread(*types.split()), room)
        assert (found and (found.after, found.up_to)) == kept

    def test_incomplete_turns_are_left_out(self) -> None:
        """If older messages were not read, the messages before the first human message are left out."""
        assert newest_turns(thread("ai", "ai", whole=False), 100) is None
        kept = newest_turns(thread("ai", "human", whole=False), 100)
        assert kept is not None
        assert (kept.after, kept.count) == (1, 1)

    def test_an_empty_thread(self) -> None:
        """The context has no messages, and none are left out."""
        context = compose(Given("default", history=ThreadHistory("t1")))
        assert (context["messages"], context["leftOut"]) == (None, [])


def ai(*calls: str, text: str = "") -> Json:
    return {"type": "ai", "content": text, "toolCalls": [{"id": call, "name": "f", "args": {}} for call in calls]}


def tool(call: str, text: str = "done") -> Json:
    return {"type": "tool", "content": text, "toolCallId": call}


HUMAN: Json = {"type": "human", "content": "hi"}


class TestPairs:
    """Every call has one result, after the message with the call."""

    @pytest.mark.parametrize(
        ("stored", "sent"),
        [
            ([ai("1"), tool("1")], [ai("1"), tool("1")]),
            ([ai("1", "2"), tool("2"), HUMAN, tool("1")], [ai("1", "2"), tool("1"), tool("2"), HUMAN]),
            ([ai("1"), HUMAN], [ai("1"), tool("1", NO_RESULT), HUMAN]),
            ([tool("1"), HUMAN], [HUMAN]),
            ([ai("1"), tool("1"), tool("1", "again")], [ai("1"), tool("1")]),
            ([ai("1"), tool("1", "a"), ai("1"), tool("1", "b")], [ai("1"), tool("1", "a"), ai("1"), tool("1", "b")]),
        ],
    )  # fmt: skip
    def test_results_follow_their_calls(self, stored: list[Json], sent: list[Json]) -> None:
        """Messages between them move; a missing result is added, a result without a call is dropped."""
        assert paired(stored) == sent

    def test_a_plain_message(self) -> None:
        """Ids, times and an empty list of calls are not sent to the provider."""
        row = {"type": "ai", "content": "", "id": "m1", "toolCalls": []}
        assert paired([row]) == [{"type": "ai", "content": ""}]

    def test_the_request_has_the_composed_parts(self) -> None:
        """It has exactly the system text, the conversation, the message and the rounds, unchanged."""
        context = compose(FULL)
        rounds = [ai("9"), tool("9")]
        assert request_of(context, [HUMAN, ai(text="yes")], rounds) == [
            {"type": "system", "content": context["system"]},
            HUMAN,
            {"type": "ai", "content": "yes"},
            {"type": "human", "content": "Where is my money?"},
            *rounds,
        ]


class TestNames:
    """The names of tools for the model."""

    def test_names_have_the_form(self) -> None:
        """Other characters become underscores; a name has at most 64 characters."""
        names = wire_names([offer("send-it_1"), offer("core.http"), offer("x" * 99), offer("skill:1", hint="ü")])
        assert names == {"send-it_1": "send-it_1", "core.http": "core_http", "x" * 99: "x" * 64, "skill:1": "_"}

    def test_names_are_unique(self) -> None:
        """A tool whose name needs no change keeps it, in any order; the others get a suffix."""
        clashing = [offer("a.b"), offer("a_b"), offer("a:b")]
        names = wire_names(clashing)
        assert names["a_b"] == "a_b"
        assert len({*names.values()}) == 3
        assert wire_names(clashing[::-1]) == names
        assert all(name.startswith("a_b") for name in names.values())

    def test_a_suffixed_name_that_is_taken(self) -> None:
        """A tool whose own id equals a name with a suffix keeps it."""
        made = wire_names([offer("a.b"), offer("a_b")])["a.b"]
        names = wire_names([offer("a.b"), offer("a_b"), offer(made)])
        assert names[made] == made
        assert len({*names.values()}) == 3


class TestText:
    """Estimates and marks."""

    @pytest.mark.parametrize(("text", "estimate"), [("", 0), ("abc", 1), ("abcd", 2), ("日本語", 3), ("\U0001f600", 2)])
    def test_three_bytes_are_a_token(self, text: str, estimate: int) -> None:
        """The estimate counts bytes of UTF-8, rounded up."""
        assert tokens(text) == estimate

    def test_a_mark_is_never_in_the_text(self) -> None:
        """The same texts have the same mark; other texts, other splits and a text with the mark in it have others."""
        mark = boundary(["a", "b"])
        assert mark == boundary(["a", "b"])
        assert len({mark, boundary(["a", "c"]), boundary(["ab", ""]), boundary(["a", mark]), boundary([])}) == 5

    def test_a_subordinate_has_one_argument(self) -> None:
        """The only argument is the message."""
        assert MESSAGE_SCHEMA["required"] == ["message"]
        assert MESSAGE_SCHEMA["additionalProperties"] is False


class TestNarrowing:
    """A composed context under a later `config`."""

    def test_an_empty_config_changes_nothing(self) -> None:
        """The context is the same object."""
        context = compose(FULL)
        assert narrowed_context(context, {}) is context
        assert narrowed_context(context, {"toolset": {"core.http": {"enabled": True}}}) is context

    def test_tools_are_removed_and_approvals_added(self) -> None:
        """The digest is computed again."""
        context = compose(FULL)
        config = {"toolset": {"core.http": {"enabled": False}, "skill:3": {"enabled": True, "requiresApproval": True}}}
        narrowed = narrowed_context(context, config)
        assert [(tool["toolId"], tool["requiresApproval"]) for tool in narrowed["tools"]] == [("skill:3", True)]
        assert narrowed["digest"] == digest_of(narrowed) != context["digest"]

    def test_guardrails_are_added(self) -> None:
        """Guardrails of the agent stay."""
        context = compose(attrs.evolve(FULL, guardrails=["own"]))
        assert narrowed_context(context, {"guardrails": ["own", "new"]})["guardrails"] == ["own", "new"]
