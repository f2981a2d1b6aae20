"""Interfaces of a workflow: their wire form and the checks of their `config`."""

from datetime import UTC, datetime
from typing import Any

import pytest

from wfcore.domain.channels.interfaces import (
    MAX_ANCESTORS,
    Interface,
    InterfaceKind,
    chat_input,
    config_issues,
    entry_issues,
    entry_of,
    frame_ancestors,
    takes_message,
)
from wfcore.domain.channels.team_chat_config import MAX_URL


def test_the_wire_form() -> None:
    """The URL has the kind and the id; the sealed secret is not on the wire."""
    interface = Interface("i1", 7, InterfaceKind.MCP, {"own": 1}, datetime(2026, 1, 1, tzinfo=UTC), "sealed")
    assert interface.to_wire("/root") == {
        "id": "i1",
        "kind": "mcp",
        "config": {"own": 1},
        "createdAt": "2026-01-01T00:00:00.000Z",
        "url": "/root/interfaces/mcp/i1",
    }
    assert "sealed=" not in repr(interface)


@pytest.mark.parametrize(
    ("kind", "config", "found"),
    [
        ("chatapp", {}, []),
        ("chatapp", {"postUrl": 1, "own": 1}, []),
        ("chatapp", {"frameAncestors": ["https://app.example.org", "http://x:80"]}, []),
        ("chatapp", {"frameAncestors": "https://x"}, [("config.frameAncestors", "type")]),
        ("chatapp", {"frameAncestors": [1]}, [("config.frameAncestors", "type")]),
        ("chatapp", {"frameAncestors": ["https://x"] * (MAX_ANCESTORS + 1)}, [("config.frameAncestors", "maxItems")]),
        ("chatapp", {"frameAncestors": ["https://x", "https://x/a"]}, [("config.frameAncestors[1]", "pattern")]),
        ("teamchat", {}, []),
        ("teamchat", {"postUrl": "https://x.org/hook"}, []),
        (
            "teamchat",
            {"postURL": "https://x.org/hook", "postUrl": 1},
            [("config.postUrl", "type"), ("config.postURL", "unknown")],
        ),
        ("teamchat", {"postUrl": 1}, [("config.postUrl", "type")]),
        ("teamchat", {"postUrl": "ftp://x"}, [("config.postUrl", "url")]),
        ("teamchat", {"postUrl": "https://x.org/" + "a" * MAX_URL}, [("config.postUrl", "maxLength")]),
        ("mcp", {"postUrl": 1, "frameAncestors": 1}, []),
    ],
)
def test_config(kind: str, config: dict[str, Any], found: list[tuple[str, str]]) -> None:
    """The keys that the endpoint of the kind uses are checked; a team chat has no others."""
    assert [(issue.path, issue.rule) for issue in config_issues(InterfaceKind(kind), config)] == found


def test_frame_ancestors() -> None:
    """By default no site may show the page in a frame."""
    assert frame_ancestors({}) == frame_ancestors({"frameAncestors": []}) == ["'none'"]
    assert frame_ancestors({"frameAncestors": ["https://x"]}) == ["https://x"]


@pytest.mark.parametrize(
    ("schema", "takes"),
    [({}, True), ({"properties": {"message": {}}}, True), ({"properties": {"order": {}}}, False)],
)
def test_the_input_of_a_chat(schema: dict[str, Any], takes: bool) -> None:
    """The message is in the input unless the schema has other properties only."""
    assert takes_message(schema) is takes
    assert chat_input(schema, "hi") == ({"message": "hi"} if takes else {})


@pytest.mark.parametrize(
    ("config", "paths"),
    [
        ({}, []),
        ({"title": "Desk", "description": "Pays", "own": 1}, []),
        ({"title": 1, "description": None}, ["config.title", "config.description"]),
        ({"description": "x" * 10_001}, ["config.description"]),
    ],
    ids=str,
)
def test_the_texts_of_a_tool_are_checked(config: dict[str, Any], paths: list[str]) -> None:
    """Title and description are strings of at most 10,000 characters; other keys belong to the client."""
    assert [issue.path for issue in config_issues(InterfaceKind.MCP, config)] == paths


def test_entries_of_a_skill_are_one_of_a_kind() -> None:
    """A second entry of a kind is an issue, and so is an invalid `config`, with its place."""
    entries: list[dict[str, Any]] = [{"kind": "mcp"}, {"kind": "mcp", "config": {"title": 1}}, {"kind": "chatapp"}]
    assert [issue.path for issue in entry_issues(entries)] == ["interfaces[1].kind", "interfaces[1].config.title"]
    assert entry_of(entries, InterfaceKind.MCP) == {"kind": "mcp"}
    assert entry_of(entries[:2], InterfaceKind.CHATAPP) is None
