"""Offered tools: their wire form, their digests and their names for the model."""

from typing import Any

from wfcore.domain.agents.context_tools import MESSAGE_SCHEMA, OfferedTool, skill_id, wire_names, workflow_id


def offer(tool_id: str, **more: Any) -> OfferedTool:
    return OfferedTool(tool_id, more.pop("hint", tool_id), "Does it", {"type": "object"}, why="enabled", **more)


class TestWire:
    """A tool in a context."""

    def test_a_tool_of_the_catalog(self) -> None:
        """It has its definition and the digest of it; other keys only if they are set."""
        wire, size = offer("core.http").wire_and_tokens("core_http")
        assert wire == {
            "name": "core_http",
            "toolId": "core.http",
            "kind": "tool",
            "description": "Does it",
            "parameters": {"type": "object"},
            "requiresApproval": False,
            "digest": offer("core.http").digest(),
        }
        assert size > 0

    def test_a_skill_and_a_connection(self) -> None:
        """A skill has its id, a tool with a connection its provider."""
        wire, _ = offer(skill_id(3), kind="skill", resource_id=3, connection="bank").wire_and_tokens("s")
        assert (wire["toolId"], wire["resourceId"], wire["connection"]) == ("skill:3", 3, "bank")
        assert workflow_id(3) == "workflow:3"

    def test_a_readable_name(self) -> None:
        """A tool with a name of its own has it as its title; a skill has none."""
        assert offer("mcp.c.t", hint="Pay an invoice").wire_and_tokens("t")[0]["title"] == "Pay an invoice"
        assert "title" not in offer(skill_id(3), kind="skill", hint="Expert").wire_and_tokens("s")[0]

    def test_digests(self) -> None:
        """The digest changes with the definition, not with the name."""
        assert offer("a").digest() == offer("a", hint="b").digest()
        assert offer("a").digest() != offer("b").digest()


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


def test_a_subordinate_has_one_argument() -> None:
    """The only argument is the message."""
    assert MESSAGE_SCHEMA["required"] == ["message"]
    assert MESSAGE_SCHEMA["additionalProperties"] is False
