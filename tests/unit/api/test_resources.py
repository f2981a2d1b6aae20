"""Every rule of the interface that a shape states, as a table: field, bad value, rule, path."""

import time
from collections.abc import Callable
from typing import Annotated, Any, TypedDict, is_typeddict

import jsonschema_rs
import pytest
from msgspec import Meta

from wfcore.api import resources as shapes
from wfcore.api import runs as run_shapes
from wfcore.domain.json.codec import check, page_of, read, schema_ref
from wfcore.domain.json.parsing import MAX_ISSUES
from wfcore.domain.json.values import is_value
from wfcore.domain.kernel.errors import Invalid, Malformed

WORKFLOW: dict[str, Any] = {"name": "Refunds", "type": "workflow"}
SKILL: dict[str, Any] = {"name": "Clerk"}
TOKEN: dict[str, Any] = {"name": "ci", "scopes": ["workflows:read"]}
DECIDED: dict[str, Any] = {"interruptId": "i", "decision": "approve"}


def found(shape: type, data: Any) -> set[tuple[str, str]]:
    return {(issue.path, issue.rule) for issue in check(shape, data)}


def one(path: str, rule: str) -> set[tuple[str, str]]:
    return {(path, rule)}


BAD = [
    # Create a workflow
    (shapes.CreateWorkflow, {"type": "workflow"}, "name", "required"),
    (shapes.CreateWorkflow, {"name": "x"}, "type", "required"),
    (shapes.CreateWorkflow, WORKFLOW | {"name": "x" * 201}, "name", "maxLength"),
    (shapes.CreateWorkflow, WORKFLOW | {"name": ""}, "name", "minLength"),
    (shapes.CreateWorkflow, WORKFLOW | {"name": None}, "name", "type"),
    (shapes.CreateWorkflow, WORKFLOW | {"name": 5}, "name", "type"),
    (shapes.CreateWorkflow, WORKFLOW | {"type": "agent"}, "type", "enum"),
    (shapes.CreateWorkflow, WORKFLOW | {"type": 1}, "type", "type"),
    (shapes.CreateWorkflow, WORKFLOW | {"type": None}, "type", "type"),
    (shapes.CreateWorkflow, WORKFLOW | {"trigger": []}, "trigger", "type"),
    (shapes.CreateWorkflow, WORKFLOW | {"agentSelection": "x"}, "agentSelection", "type"),
    (shapes.CreateWorkflow, WORKFLOW | {"workflowStructure": 1}, "workflowStructure", "type"),
    (shapes.CreateWorkflow, WORKFLOW | {"accessConfig": True}, "accessConfig", "type"),
    (shapes.CreateWorkflow, WORKFLOW | {"id": 1}, "id", "unknown"),
    (shapes.CreateWorkflow, WORKFLOW | {"ownerUserId": "u"}, "ownerUserId", "unknown"),
    (shapes.CreateWorkflow, WORKFLOW | {"a.b[0]": 1}, "a.b[0]", "unknown"),
    (shapes.CreateWorkflow, [], "", "type"),
    (shapes.CreateWorkflow, None, "", "type"),
    # Change, toggle, validate
    (shapes.PatchWorkflow, {"type": "workflow"}, "type", "unknown"),
    (shapes.PatchWorkflow, {"name": None}, "name", "type"),
    (shapes.PatchWorkflow, {"description": 4}, "description", "type"),
    (shapes.PatchWorkflow, {"trigger": 4}, "trigger", "type"),
    (shapes.PatchWorkflow, {"accessConfig": None}, "accessConfig", "type"),
    (shapes.PatchWorkflow, {"status": "active"}, "status", "unknown"),
    (shapes.ToggleBody, {"isEnabled": 1}, "isEnabled", "type"),
    (shapes.ToggleBody, {"isEnabled": None}, "isEnabled", "type"),
    (shapes.ToggleBody, {"enabled": True}, "enabled", "unknown"),
    (shapes.ValidateBody, {"type": "x"}, "type", "enum"),
    # Scopes
    (shapes.CreateSkill, {}, "name", "required"),
    (shapes.CreateSkill, SKILL | {"type": "workflow"}, "type", "unknown"),
    (shapes.CreateSkill, SKILL | {"instructions": "be kind"}, "instructions", "type"),
    (shapes.CreateSkill, SKILL | {"instructions": ["a", 1]}, "instructions[1]", "type"),
    (shapes.CreateSkill, SKILL | {"toolset": {"core.http": {}}}, "toolset.core.http.enabled", "required"),
    (shapes.CreateSkill, SKILL | {"toolset": {"t": {"enabled": 1}}}, "toolset.t.enabled", "type"),
    (shapes.CreateSkill, SKILL | {"toolset": {"t": {"enabled": True, "x": 1}}}, "toolset.t.x", "unknown"),
    (shapes.CreateSkill, SKILL | {"connectionSet": [{}, 1]}, "connectionSet[1]", "type"),
    (shapes.PatchSkill, {"supervisionSubordinateIds": [1]}, "supervisionSubordinateIds[0]", "type"),
    (shapes.PatchSkill, {"toolset": {"0": {"enabled": 1}}}, "toolset.0.enabled", "type"),
    (shapes.PatchSkill, {"toolset": {"01": {"enabled": 1}}}, "toolset.01.enabled", "type"),
    (shapes.PatchSkill, {"toolset": {"": {"enabled": 1}}}, "toolset..enabled", "type"),
    (shapes.PatchSkill, {"toolset": {"a/~1%2f é": {}}}, "toolset.a/~1%2f é.enabled", "required"),
    (shapes.PatchSkill, {"a/~1%2f é": {}}, "a/~1%2f é", "unknown"),
    (
        shapes.Supervision,
        {"supervisionSubordinateDescriptions": {"7": 5}},
        "supervisionSubordinateDescriptions.7",
        "type",
    ),
    (shapes.Supervision, {"instructions": []}, "instructions", "unknown"),
    # Resume a run
    (run_shapes.ResumeRun, {"message": 1}, "message", "type"),
    (run_shapes.ResumeRun, {"message": 7}, "message", "type"),
    (run_shapes.ResumeRun, {"sessionId": ""}, "sessionId", "minLength"),
    (run_shapes.ResumeRun, {"fileThreadId": "x" * 256}, "fileThreadId", "maxLength"),
    (run_shapes.ResumeRun, {"runId": "x" * 256}, "runId", "maxLength"),
    (run_shapes.ResumeRun, {"runId": "a b"}, "runId", "pattern"),
    (run_shapes.ResumeRun, {"runId": "a\n"}, "runId", "pattern"),
    (run_shapes.ResumeRun, {"runId": "é"}, "runId", "pattern"),
    (run_shapes.ResumeRun, {"streamProtocolVersion": 1}, "streamProtocolVersion", "enum"),
    (run_shapes.ResumeRun, {"streamProtocolVersion": 2.5}, "streamProtocolVersion", "enum"),
    (run_shapes.ResumeRun, {"streamProtocolVersion": "2"}, "streamProtocolVersion", "type"),
    (run_shapes.ResumeRun, {"streamProtocolVersion": True}, "streamProtocolVersion", "type"),
    (run_shapes.ResumeRun, {"experimentalFeatures": 0}, "experimentalFeatures", "type"),
    (run_shapes.ResumeRun, {"debug": "true"}, "debug", "type"),
    (run_shapes.ResumeRun, {"decision": "approved"}, "decision", "enum"),
    (run_shapes.ResumeRun, {"version": "active"}, "version", "enum"),
    (run_shapes.ResumeRun, {"origin": "web"}, "origin", "enum"),
    (run_shapes.ResumeRun, {"interruptId": 1}, "interruptId", "type"),
    (run_shapes.ResumeRun, {"decisions": []}, "decisions", "minItems"),
    (run_shapes.ResumeRun, {"decisions": {}}, "decisions", "type"),
    (run_shapes.ResumeRun, {"decisions": [{"decision": "deny"}]}, "decisions[0].interruptId", "required"),
    (run_shapes.ResumeRun, {"decisions": [DECIDED, {"interruptId": "i"}]}, "decisions[1].decision", "required"),
    (run_shapes.ResumeRun, {"decisions": [DECIDED | {"decision": "no"}]}, "decisions[0].decision", "enum"),
    (run_shapes.ResumeRun, {"decisions": [DECIDED | {"by": "me"}]}, "decisions[0].by", "unknown"),
    (run_shapes.ResumeRun, {"workflowId": 1}, "workflowId", "unknown"),
    (run_shapes.ResumeRun, {"userContext": {"id": "x"}}, "userContext.id", "unknown"),
    (run_shapes.ResumeRun, {"userContext": {"email": 7}}, "userContext.email", "type"),
    (run_shapes.ResumeRun, {"config": {"temperature": 1}}, "config.temperature", "unknown"),
    (run_shapes.ResumeRun, {"config": {"contextSelections": [1]}}, "config.contextSelections[0]", "type"),
    (run_shapes.ResumeRun, {"config": {"connectionAllModeIds": [1]}}, "config.connectionAllModeIds[0]", "type"),
    (run_shapes.ResumeRun, {"config": {"guardrails": [{}]}}, "config.guardrails[0]", "type"),
    (run_shapes.ResumeRun, {"config": {"toolset": []}}, "config.toolset", "type"),
    (run_shapes.ResumeRun, {"config": {"composerFileOffload": 1}}, "config.composerFileOffload", "type"),
    (run_shapes.ResumeRun, {"attachments": []}, "attachments", "type"),
    (run_shapes.ResumeRun, {"attachments": {"videos": []}}, "attachments.videos", "unknown"),
    (run_shapes.ResumeRun, {"attachments": {"images": [{"url": "x"}]}}, "attachments.images[0].url", "unknown"),
    (run_shapes.ResumeRun, {"attachments": {"images": [{"data": 1}]}}, "attachments.images[0].data", "type"),
    (
        run_shapes.ResumeRun,
        {"attachments": {"documents": [{}, {"sizeBytes": "1"}]}},
        "attachments.documents[1].sizeBytes",
        "type",
    ),
    # Create a run
    (run_shapes.CreateRun, {"workflowId": 0}, "workflowId", "minimum"),
    (run_shapes.CreateRun, {"workflowId": 1.5}, "workflowId", "integer"),
    (run_shapes.CreateRun, {"workflowId": 1e300}, "workflowId", "maximum"),
    (run_shapes.CreateRun, {"workflowId": "1"}, "workflowId", "type"),
    (run_shapes.CreateRun, {"workflowId": True}, "workflowId", "type"),
    (run_shapes.CreateRun, {"workflowId": "7"}, "workflowId", "type"),
    (run_shapes.CreateRun, {"skillId": -1}, "skillId", "minimum"),
    (run_shapes.CreateRun, {"assistant": False}, "assistant", "const"),
    (run_shapes.CreateRun, {"assistant": 1}, "assistant", "type"),
    (run_shapes.CreateRun, {"input": []}, "input", "type"),
    (run_shapes.CreateRun, {"input": 7}, "input", "type"),
    # Tokens
    (shapes.CreateToken, {"name": "ci"}, "scopes", "required"),
    (shapes.CreateToken, {"scopes": []}, "name", "required"),
    (shapes.CreateToken, TOKEN | {"scopes": ["workflows:delete"]}, "scopes[0]", "enum"),
    (shapes.CreateToken, TOKEN | {"scopes": ["tokens:write", 1]}, "scopes[1]", "type"),
    (shapes.CreateToken, TOKEN | {"scopes": "workflows:read"}, "scopes", "type"),
    (shapes.CreateToken, TOKEN | {"expiresInSeconds": 0}, "expiresInSeconds", "minimum"),
    (shapes.CreateToken, TOKEN | {"expiresInSeconds": 0.5 + 60}, "expiresInSeconds", "integer"),
    (shapes.CreateToken, TOKEN | {"expiresInSeconds": 10**12}, "expiresInSeconds", "maximum"),
    (shapes.CreateToken, TOKEN | {"token": "x"}, "token", "unknown"),
]


@pytest.mark.parametrize(("shape", "data", "path", "rule"), BAD)
def test_each_rule_gives_one_issue_at_its_place(shape: type, data: Any, path: str, rule: str) -> None:
    """A body that breaks one rule gets that rule's issue, at the wire path of the value, and no other."""
    assert found(shape, data) == one(path, rule)


@pytest.mark.parametrize("value", [0, 0.5, "5", True])
def test_a_context_window_is_a_whole_number_of_tokens(value: Any) -> None:
    """`modelSettings.contextWindow` is at least one token and whole (interface, Limits)."""
    issues = found(run_shapes.ResumeRun, {"config": {"modelSettings": {"contextWindow": value}}})
    assert {path for path, _ in issues} == {"config.modelSettings.contextWindow"}


CASE = {"id": "a", "input": {"message": "x"}, "checks": [{"kind": "judge", "criteria": "c"}]}

GOOD = [
    (shapes.CreateWorkflow, WORKFLOW),
    (shapes.CreateWorkflow, {"name": "x", "type": "task"}),
    (shapes.CreateWorkflow, WORKFLOW | {"name": "\N{GRINNING FACE}" * 200, "organizationId": "other"}),
    (shapes.CreateWorkflow, WORKFLOW | {"description": "", "trigger": {"x": 1}, "workflowStructure": {}}),
    (shapes.PatchWorkflow, {}),
    (shapes.PatchWorkflow, dict.fromkeys(["description", "trigger", "agentSelection", "workflowStructure"])),
    (shapes.ToggleBody, {}),
    (shapes.ToggleBody, {"isEnabled": False, "organizationId": "o"}),
    (shapes.ToggleBody, {"isEnabled": False, "organizationId": 1}),
    (shapes.ValidateBody, {"workflowStructure": {"nodes": []}}),
    (shapes.ValidateBody, WORKFLOW),
    (
        shapes.CreateSkill,
        SKILL | {"instructions": [], "toolset": {"t": {"enabled": True, "requiresApproval": False}}},
    ),
    (
        shapes.PatchSkill,
        {
            "description": None,
            "model": "m",
            "evaluations": [CASE],
        },
    ),
    (run_shapes.ResumeRun, {}),
    (run_shapes.ResumeRun, {"streamProtocolVersion": 2.0, "decision": "cancelled", "origin": "chatapp_dm"}),
    (run_shapes.ResumeRun, {"decisions": [DECIDED, DECIDED | {"data": None}], "data": [1, {"free": True}]}),
    (run_shapes.ResumeRun, {"attachments": {"images": [{}], "documents": [{"sizeBytes": 1.5}]}}),
    (run_shapes.CreateRun, {"workflowId": 7.0, "input": {"free": None}, "runId": "!~" * 127}),
    (run_shapes.CreateRun, {"workflowId": 7, "input": None, "message": None, "userContext": {"email": None}}),
    (run_shapes.CreateRun, {"assistant": True, "config": {"modelSettings": {"contextWindow": 1}}}),
    (shapes.CreateToken, TOKEN | {"expiresInSeconds": 3600, "scopes": []}),
]


@pytest.mark.parametrize(("shape", "data"), GOOD)
def test_what_the_interface_allows_passes(shape: type, data: Any) -> None:
    """Good bodies have no issue, and reading one gives the very tree that was sent."""
    assert check(shape, data) == []
    assert read(shape, data) is data


class Short(TypedDict, total=False):
    text: Annotated[str, Meta(max_length=3)] | None
    user: run_shapes.UserContext | None


@pytest.mark.parametrize(
    ("data", "issues"),
    [
        ({"text": None, "user": None}, set()),
        ({"text": "long"}, one("text", "maxLength")),
        ({"text": 1}, one("text", "type")),
        ({"user": {"id": 1}}, one("user.id", "unknown")),
        ({"user": {"email": 1}}, one("user.email", "type")),
        ({"user": []}, one("user", "type")),
    ],
)
def test_what_may_be_null_keeps_its_own_rules(data: Any, issues: set[tuple[str, str]]) -> None:
    """A field that may be null gives the issue of its value, never that it is not null."""
    assert found(Short, data) == issues


class TestIssues:
    def test_all_faults_are_told_at_once(self) -> None:
        """One answer names every fault; paths go below the given one."""
        data = {"type": "x", "zz": 1, "name": "", "trigger": 3}
        paths = {(issue.path, issue.rule) for issue in check(shapes.CreateWorkflow, data, "body[0]")}
        assert paths == {
            ("body[0].type", "enum"),
            ("body[0].zz", "unknown"),
            ("body[0].name", "minLength"),
            ("body[0].trigger", "type"),
        }

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (WORKFLOW | {"type": "agent"}, "`agent` is not one of `task`, `workflow`"),
            (WORKFLOW | {"name": ["secret"]}, "must be of type string, not array"),
            (WORKFLOW | {"name": "x" * 201}, "must have at most 200 characters"),
            (
                WORKFLOW | {"x": "secret"},
                (
                    "is not a known key: use `accessConfig`, `agentSelection`, `description`, `name`, "
                    "`organizationId`, `slug`, `trigger`, `type`, `workflowStructure`"
                ),
            ),
            ({"name": "x"}, "is required"),
        ],
    )
    def test_messages_are_short_and_say_what_to_do(self, data: Any, message: str) -> None:
        """Messages name the rule; a value is shown only where a choice was missed."""
        assert [issue.message for issue in check(shapes.CreateWorkflow, data)] == [message]

    def test_no_rule_is_without_words(self) -> None:
        """A bound that is left out of the range says so."""
        [issue] = check(shapes.BudgetDto, {"maxCost": 0})
        assert (issue.rule, issue.message) == ("exclusiveMinimum", "must be more than 0")

    def test_long_values_are_cut(self) -> None:
        """A megabyte in place of an enum does not come back."""
        [issue] = check(shapes.CreateWorkflow, WORKFLOW | {"type": "x" * 1_000_000})
        assert len(issue.message) < 200

    def test_the_list_ends(self) -> None:
        """More than a thousand faults are not listed; a last issue says so."""
        issues = check(shapes.ToggleBody, {f"k{i}": i for i in range(5_000)})
        assert len(issues) == MAX_ISSUES + 1
        assert issues[-1].message == "more than 1000 faults; the others are not listed"

    @pytest.mark.parametrize(
        ("shape", "body"),
        [
            (shapes.PatchSkill, lambda count: {"instructions": [1] * count}),
            (shapes.PatchSkill, lambda count: {"toolset": {f"0{i}": 5 for i in range(count)}}),
            (shapes.PatchSkill, lambda count: {f"k{i}": 5 for i in range(count)}),
            (shapes.CreateToken, lambda count: TOKEN | {"scopes": ["x"] * count}),
        ],
    )
    def test_many_faults_cost_little(self, shape: type, body: Callable[[int], Any]) -> None:
        """As many faults as a body can hold cost about ten times as much as a tenth of them, not a hundred times."""

        def cost(count: int) -> float:
            data, started = body(count), time.process_time()
            assert len(check(shape, data)) == MAX_ISSUES + 1
            return time.process_time() - started

        few, many = (min(cost(count) for _ in range(3)) for count in (15_000, 150_000))
        assert many < 40 * few

    def test_reading_raises_by_kind(self) -> None:
        """A wrong type makes a request malformed (400); a broken rule alone makes it invalid (422)."""
        with pytest.raises(Malformed):
            read(shapes.CreateWorkflow, {"name": "", "type": 1})
        with pytest.raises(Invalid):
            read(shapes.CreateWorkflow, {"name": "", "type": "task"})


class TestComponents:
    COMPONENTS = shapes.schema_components(
        *(
            shape
            for name, shape in vars(run_shapes).items()
            if (is_typeddict(shape) or is_value(shape)) and not name.endswith("Fields")
        )
    )

    def valid(self, name: str, data: Any) -> bool:
        schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": self.COMPONENTS}}
        return jsonschema_rs.is_valid(schema, data)

    def test_every_reference_resolves(self) -> None:
        """No schema refers to one that is not among the components."""
        stack: list[Any] = [self.COMPONENTS]
        refs = set()
        while stack:
            match stack.pop():
                case {"$ref": str(ref), **others}:
                    refs.add(ref.removeprefix("#/components/schemas/"))
                    stack.extend(others.values())
                case dict() as schema:
                    stack.extend(schema.values())
                case list() as schemas:
                    stack.extend(schemas)
        assert refs
        assert refs <= self.COMPONENTS.keys()
        assert {"Trigger", "WorkflowStructure", "AgentSelection", "AccessConfigBody"} <= refs

    @pytest.mark.parametrize("name", sorted(COMPONENTS))
    def test_every_component_is_a_schema(self, name: str) -> None:
        """Each component is valid JSON Schema 2020-12 and describes an object."""
        schema = self.COMPONENTS[name]
        jsonschema_rs.meta.validate(schema)
        refs = [one["$ref"].rpartition("/")[2] for one in schema.get("anyOf", [])]
        assert {self.COMPONENTS[one]["type"] for one in refs or [name]} == {"object"}

    @pytest.mark.parametrize(
        ("name", "good", "bad"),
        [
            ("Trigger", {"trigger_type": "api", "free": 1}, {"trigger_type": "cron"}),
            ("Schedule", {"frequency": "hourly", "timezone": "UTC"}, {"frequency": "hourly"}),
            (
                "Schedule",
                {"frequency": "daily", "timezone": "UTC", "time_of_day": "23:59"},
                {"time_of_day": "24:00"},
            ),
            (
                "WorkflowStructure",
                {"nodes": [{"id": "a", "type": "start"}], "free": 1},
                {"nodes": [{"id": "a"}]},
            ),
            (
                "Node",
                {"id": "a", "type": "agent", "position": {"x": 1, "y": 2.5}},
                {"id": "", "type": "agent"},
            ),
            (
                "Edge",
                {"id": "e", "source": "a", "target": "b"},
                {"id": "e", "source": "a", "target": "b", "x": 1},
            ),
            ("AgentSelection", {"agents": [{"agent_id": 1, "priority_order": 1}]}, {"agents": []}),
            ("AccessConfigBody", {"visibility": "private", "ownerEmail": None}, {"visibility": "public"}),
            ("CreateWorkflow", WORKFLOW | {"trigger": {"trigger_type": "api"}}, WORKFLOW | {"trigger": {}}),
            ("PatchWorkflow", {"trigger": None}, {"trigger": {"trigger_type": "schedule", "schedule": {}}}),
            ("RunAccepted", {"runId": "r", "status": "queued"}, {"runId": "r", "status": "started"}),
        ],
    )
    def test_the_document_shows_the_full_rules(self, name: str, good: Any, bad: Any) -> None:
        """Parts that other modules check are described in full, so that clients can check them too."""
        assert self.valid(name, good)
        assert not self.valid(name, bad)

    def test_an_error_has_the_envelope(self) -> None:
        """What an error writes is what the document promises (interface, Errors)."""
        assert self.valid("ErrorEnvelope", {"error": Invalid("no", {"errors": []}).to_wire("r1")})
        assert not self.valid("ErrorEnvelope", {"error": {"message": "no"}})

    def test_requests_are_closed_and_responses_open(self) -> None:
        """Clients may not invent keys, and must live with new ones."""
        closed = {name for name, schema in self.COMPONENTS.items() if schema.get("additionalProperties") is False}
        assert {
            "CreateWorkflow",
            "CreateRun",
            "Node",
            "Edge",
            "Schedule",
            "Image",
            "AccessConfigBody",
        } <= closed
        assert not closed & {"Workflow", "Scope", "Event", "ErrorBody", "Trigger", "WorkflowStructure"}

    def test_pages_hold_rows_and_a_token(self) -> None:
        """Every list answers its rows and `nextPageToken`, null on the last page."""
        schema = page_of("runs", run_shapes.RunAccepted) | {"components": {"schemas": self.COMPONENTS}}
        assert schema_ref(run_shapes.RunAccepted) == {"$ref": "#/components/schemas/RunAccepted"}
        assert jsonschema_rs.is_valid(schema, {"runs": [], "nextPageToken": None})
        assert not jsonschema_rs.is_valid(schema, {"runs": []})
