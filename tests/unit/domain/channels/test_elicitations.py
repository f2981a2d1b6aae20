"""Approvals as flat forms, and the decisions in their answers."""

from typing import Any

import pytest

from wfcore.domain.channels.elicitations import decision_of, form_of, question_of

Json = dict[str, Any]


def waiting(**more: Any) -> Json:
    return {"interruptId": "ask", "type": "approval", "message": "Go on?", **more}


def fields_of(interrupt: Json) -> Json:
    form: Any = form_of(interrupt)
    assert (form["type"], form["required"]) == ("object", ["decision"])
    fields: Json = form["properties"]
    return fields


class TestForm:
    """The schema of the form."""

    def test_without_a_form_there_is_a_decision(self) -> None:
        for interrupt in (waiting(), waiting(formSchema={"type": "object"}), waiting(formSchema={})):
            fields = fields_of(interrupt)
            assert list(fields) == ["decision"]
            assert fields["decision"]["enum"] == ["approve", "deny"]

    def test_fields_have_a_prefix_and_no_key_that_clients_do_not_know(self) -> None:
        fields = {
            "why": {"type": "string", "title": "Reason", "pattern": "a", "maxLength": 3},
            "fast": {"type": "boolean", "default": True},
        }
        found = fields_of(waiting(formSchema={"properties": fields, "required": ["why"]}))
        assert {name: field for name, field in found.items() if name != "decision"} == {
            "data.why": {"type": "string", "title": "Reason", "maxLength": 3},
            "data.fast": {"type": "boolean", "title": "fast", "default": True},
        }

    @pytest.mark.parametrize(
        "interrupt",
        [
            waiting(type="connect"),
            waiting(formSchema={"properties": {"a": {"type": "array"}}}),
            waiting(formSchema={"properties": {"a": {"type": ["string", "null"]}}}),
            waiting(formSchema={"properties": {"a": True}}),
            waiting(formSchema={"properties": {}, "required": ["a"]}),
        ],
        ids=str,
    )
    def test_what_is_not_flat_has_no_form(self, interrupt: Json) -> None:
        assert form_of(interrupt) is None


class TestQuestion:
    """The text above the form."""

    def test_it_shows_the_call(self) -> None:
        call = {"toolId": "pay", "toolName": "Pay out", "arguments": {"n": 1}}
        assert question_of(waiting()) == "Go on?"
        assert question_of(waiting(message=None)) == "Approve?"
        assert question_of(waiting(**call), "wrong") == 'wrong\nGo on?\nTool: Pay out\nArguments: {"n":1}'


class TestDecision:
    """What an answer decides."""

    @pytest.mark.parametrize(
        ("action", "content", "decision"),
        [
            ("decline", None, {"decision": "deny"}),
            ("decline", {"decision": "approve"}, {"decision": "deny"}),
            ("cancel", {"decision": "approve"}, None),
            ("accept", None, None),
            ("accept", {"decision": "maybe"}, None),
            ("accept", {"decision": "deny"}, {"decision": "deny"}),
            ("accept", {"decision": "approve", "data.a": 1, "data.b": None, "c": 2},
             {"decision": "approve", "data": {"a": 1}}),
            ("accept", {"decision": "approve", "data": {"a": 1}}, {"decision": "approve", "data": {"a": 1}}),
            ("accept", {"decision": "approve", "data": "x"}, {"decision": "approve"}),
        ],
    )  # fmt: skip
    def test_only_an_accepted_decision_counts(self, action: str, content: Json | None, decision: Json | None) -> None:
        assert decision_of(action, content) == decision
