"""The studio fits the API that it calls and the page that documents it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import wfcore
from wfcore.adapters.http.openapi.document import document
from wfcore.adapters.http.route_table import route_table

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "studio/src"
PAGE = (ROOT / "docs/guides/studio.md").read_text()

SHAPES = {
    "RunRecord": ("RunRecord", set()),
    "Interrupt": ("Interrupt", set()),
    "InboxItem": ("InboxItem", {"target"}),
    "Workflow": ("Workflow", set()),
    "Erasure": ("Erasure", set()),
    "AuditEntry": ("ListedAuditEntry", set()),
    "Caller": ("Caller", set()),
    "ErrorBody": ("ErrorBody", set()),
    "NodeType": ("NodeType", set()),
    "Issue": ("FoundIssue", set()),
    "GraphDiff": ("VariationDifference", set()),
    "NodeTrial": ("NodeTestResult", set()),
    "Impact": ("DeployImpact", set()),
    "Evaluated": ("Evaluated", set()),
    "Step": ("Step", set()),
    "SimulatedPath": ("Path", set()),
    "Verdict": ("Verdict", set()),
    "Proposal": ("Proposal", set()),
    "Simulation": ("Simulation", set()),
    "Tool": ("Tool", set()),
    "CatalogTool": ("Tool", set()),
    "SkillRecord": ("Scope", set()),
    "SkillContent": ("SkillBody", set()),
    **{
        name: (name, set())
        for name in (
            "Connection", "ToolServer", "Member", "Group", "Delegation", "Token", "Hook", "Delivery", "Attempt",
            "Policy", "Memory", "ContextSegment", "ContextTool", "ComposedContext", "EvaluationCase",
            "EvaluationResult", "EvaluationResults", "CaseComparison", "CheckResult", "ChatAppRow",
            "Conversation", "ConversationMessage", "MessageCall", "Upload",
            "UsageReport", "UsageTotals", "NextRun", "MissedSlot", "ScheduleState",
        )
    },
}  # fmt: skip
"""The interfaces of the studio: the shape of the document that they read, and fields that it may not have yet."""


@pytest.fixture(scope="module")
async def described(anyio_backend: str) -> dict[str, Any]:
    async with wfcore.open("sqlite://") as core:
        found: dict[str, Any] = json.loads(json.dumps(document(route_table(core))))
        return found


def called() -> set[str]:
    """The paths in the sources, with `{}` for each variable part."""
    names = ("api.ts", "changes.ts", "chats.ts", "editing.ts", "people.ts", "records.ts", "skills.ts")
    text = "".join((SOURCES / "api" / name).read_text() for name in names)
    found = re.findall(r"[\"`](/(?:api|agent)/v1/[^\"`?]*)[\"`]", text)
    return {re.sub(r"\$\{[^}]*\}|\{[a-zA-Z]+\}", "{}", path) for path in found}


@pytest.mark.anyio
async def test_paths(described: dict[str, Any]) -> None:
    known = {re.sub(r"\{[^}]*\}", "{}", path) for path in described["paths"]}
    assert len(called()) > 10
    assert called() - known == set()


@pytest.mark.anyio
@pytest.mark.parametrize("name", SHAPES)
async def test_fields(described: dict[str, Any], name: str) -> None:
    """Every field that the studio reads is one of the document's shape."""
    shape, pending = SHAPES[name]
    known = set(properties(described, described["components"]["schemas"][shape]))
    text = "".join(
        (SOURCES / "api" / each).read_text()
        for each in ("chats.ts", "people.ts", "records.ts", "skills.ts", "types.ts")
    )
    (body,) = re.findall(rf"interface {name}(?: extends \w+)? \{{\n(.*?)\n\}}", text, re.DOTALL)
    read = set(re.findall(r"^  (\w+)\??:", body, re.MULTILINE))
    assert read
    assert read - known - pending == set()


def properties(described: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        yield from properties(described, described["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    yield from schema.get("properties", {})
    for part in [*schema.get("allOf", []), *schema.get("anyOf", []), *schema.get("oneOf", [])]:
        yield from properties(described, part)


OWN = {
    "attachments", "budget", "connectionSet[]", "contextSelections[]", "error", "organizationId", "tools",
    "toolCalls[]", "trigger", "variation", "workflowStructure",
}  # fmt: skip
"""Fields whose shape the document leaves open, but whose numbers are wfcore's own, or that the studio does not read."""


def fields(described: dict[str, Any], schema: dict[str, Any], name: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    """The names of the fields below the schema, and what they hold: `number`, or `any`."""
    if "$ref" in schema:
        part = schema["$ref"].rsplit("/", 1)[1]
        if f"{part} {name}" not in seen:
            seen.add(f"{part} {name}")
            yield from fields(described, described["components"]["schemas"][part], name, seen)
        return
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    more = schema.get("additionalProperties", True)
    if {"number", "integer"} & set(types):
        yield name, "number"
    if not {"type", "anyOf", "oneOf", "allOf", "enum", "const"} & set(schema) or (
        "object" in types and not schema.get("properties") and more in (True, {})
    ):
        yield name, "any"
    for part in [*schema.get("allOf", []), *schema.get("anyOf", []), *schema.get("oneOf", [])]:
        yield from fields(described, part, name, seen)
    for key, part in schema.get("properties", {}).items():
        yield from fields(described, part, key, seen)
    if isinstance(more, dict) and more:
        yield from fields(described, more, name, seen)
    if "items" in schema:
        yield from fields(described, schema["items"], f"{name}[]", seen)


@pytest.mark.anyio
async def test_numbers_of_own_fields_are_plain(described: dict[str, Any]) -> None:
    """Only below keys with values of users, the studio reads numbers as objects that keep their text."""
    (text,) = re.findall(r"const OF_USERS = new Set\(\[(.*?)\]\)", (SOURCES / "kit/json.ts").read_text(), re.DOTALL)
    of_users = set(re.findall(r"\"(\w+)\"", text))
    seen: set[str] = set()
    found = {
        field
        for path in described["paths"].values()
        for operation in path.values()
        for response in operation.get("responses", {}).values()
        for content in response.get("content", {}).values()
        for field in fields(described, content.get("schema", {}), "", seen)
        if field[0]
    }
    assert {name for name, holds in found if holds == "any"} - {
        f"{name}{end}" for name in of_users for end in ("", "[]")
    } == OWN
    assert {name for name, holds in found if holds == "number"} & of_users == set()


def sources(pattern: str) -> str:
    return "".join(path.read_text() for path in sorted(SOURCES.rglob(pattern)) if ".test." not in path.name)


def documented(pattern: str) -> set[str]:
    return set(re.findall(pattern, PAGE))


def test_attributes_are_documented() -> None:
    text = sources("*.ts*")
    shared, *own = re.findall(r"(?:SHARED|own)(?:: string\[\])? = \[([^\]]+)\]", text)
    names = {name for group in (shared, *own) for name in re.findall(r"\"([a-z-]+)\"", group)}
    assert {"base-url", "run-id", "skin"} <= names
    assert {name for name in names if f"`{name}`" not in PAGE} == set()


def test_elements_are_documented() -> None:
    names = re.findall(r"^  ([a-z]+): \w+Element,$", sources("elements.ts"), re.MULTILINE)
    assert {f"wfcore-{name}" for name in names} == documented(r"`<(wfcore-[a-z]+)>` \|")


def test_events_are_documented() -> None:
    names = set(re.findall(r"emit\(\"([a-z-]+)\"", sources("*.ts*")))
    assert {f"wfcore-{name}" for name in names} == documented(r"^\| `(wfcore-[a-z-]+)`") | documented(
        r"\n\| `(wfcore-[a-z-]+)`"
    )


def test_css_properties_are_documented() -> None:
    assert set(re.findall(r"var\((--wf-[a-z-]+)", sources("*.css"))) == documented(r"`(--wf-[a-z-]+)`")


def test_features_are_documented() -> None:
    names = set(re.findall(r"(?:wants|may)\(\"([a-z]+)\"\)", sources("*.ts*")))
    (row,) = re.findall(r"\| `features` \| (.*) \|", PAGE)
    assert names == set(re.findall(r"`([a-z]+)`", row))


def test_documented_sizes_are_those_of_the_build() -> None:
    """Within a tenth, so that a small change needs no new table."""
    built = json.loads((ROOT / "src/wfcore/adapters/http/studio/static/manifest.json").read_text())["sizes"]
    rows = re.findall(r"^\| `(\w+)`.*\| (\d+) kB \| \d+ kB \|$", PAGE, re.MULTILINE)
    assert {name for name, _ in rows} == set(built)
    far = {name: built[name] for name, size in rows if abs(int(size) * 1_000 - built[name]) > built[name] / 10}
    assert far == {}
