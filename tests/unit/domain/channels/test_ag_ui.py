"""What a request of an AG-UI client becomes: a start, or a resume with decisions."""

from typing import Any

import pytest

from wfcore.domain.channels.ag_ui import PAUSED, read_agent_input, resume_of, start_of
from wfcore.domain.kernel.errors import Invalid, Issue, Malformed, WfcoreError, refuse
from wfcore.domain.kernel.json_readers import as_objects

Json = dict[str, Any]
NO_SCHEMA: Json = {}
CLOSED: Json = {"properties": {"amount": {"type": "number"}}}
IMAGE: Json = {"type": "image", "source": {"type": "data", "value": "aW1n", "mimeType": "image/png"}}


def request(content: Any = "hi", **more: Any) -> Json:
    return {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": content}], **more}


def started(body: Json, schema: Json | None = None) -> Json:
    return start_of(read_agent_input(body), schema).fields


def document(value: str, kind: str = "data") -> Json:
    return {"type": "document", "source": {"type": kind, "value": value, "mimeType": "text/plain"}}


class TestReading:
    """The input, its known keys, and what is refused."""

    def test_other_keys_and_nulls_are_ignored(self) -> None:
        """Clients of any version send more; null is absent, and empty tools and state are fine."""
        body = request(protocolVersion="2", tools=[], state={}, resume=None, metadata={"a": 1})
        assert read_agent_input(body) == {
            "threadId": "t", "runId": "r", "tools": [], "state": {}, "messages": [{"role": "user", "content": "hi"}],
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("change", "paths"),
        [
            ({"tools": [{}], "state": [1]}, ["tools", "state"]),
            ({"forwardedProps": "x"}, ["forwardedProps"]),
            ({"messages": [1]}, ["messages[0]"]),
            ({"messages": {}}, ["messages"]),
            ({"threadId": "", "runId": "."}, ["threadId", "runId"]),
        ],
    )
    def test_every_fault_is_named(self, change: Json, paths: list[str]) -> None:
        with pytest.raises(WfcoreError) as caught:
            read_agent_input(request() | change)
        assert [issue["path"] for issue in caught.value.info["errors"]] == paths  # type: ignore[union-attr, index, call-overload]


class TestErrorsOfTheBody:
    """Errors about the body that was made of a request."""

    def test_they_name_the_fields_of_the_request(self) -> None:
        made = start_of(read_agent_input(request()), NO_SCHEMA)
        path = next(iter(made.places))
        with pytest.raises(Invalid) as caught, made.sent():
            refuse([Issue(path, "is too long", "length")], as_invalid=True)
        assert as_objects(caught.value.info["errors"])[0]["path"] == made.places[path]

    def test_one_without_fields_stays_itself(self) -> None:
        error = Malformed("the run has too much input")
        with pytest.raises(Malformed) as caught, start_of(read_agent_input(request()), None).sent():
            raise error
        assert caught.value is error


class TestStart:
    """The body of a start."""

    def test_the_last_message_is_sent(self) -> None:
        """A skill has no input without `forwardedProps`; a workflow has the message where its schema allows it."""
        body = request()
        body["messages"] = [{"role": "user", "content": "before"}, {"role": "assistant"}, *body["messages"]]
        assert started(body) == {"message": "hi", "fileThreadId": "t"}
        assert started(body, NO_SCHEMA) == {"message": "hi", "fileThreadId": "t", "input": {"message": "hi"}}
        assert started(body, CLOSED)["input"] == {}
        assert started(body | {"forwardedProps": {"amount": 4}}, CLOSED)["input"] == {"amount": 4}
        assert started(body | {"forwardedProps": {"amount": 4}})["input"] == {"amount": 4}

    def test_parts_become_text_and_attachments(self) -> None:
        content = [{"type": "text", "text": "a"}, IMAGE, document("cGxhbg=="), {"type": "text", "text": "b"}]
        found = started(
            request(content, context=[{"description": "c", "value": "d"}, {"description": "e", "value": ""}])
        )
        assert found["message"] == "a\nb"
        assert found["attachments"] == {
            "images": [{"data": "aW1n", "mimeType": "image/png"}],
            "documents": [
                {"parsedContent": "plan", "mimeType": "text/plain"},
                {"fileName": "c", "parsedContent": "d"},
            ],
        }

    @pytest.mark.parametrize(
        "part",
        [
            "text",
            {"type": "text"},
            {"type": "audio", "source": IMAGE["source"]},
            {"type": "image", "source": {"type": "url", "value": "https://x.org/a.png"}},
            {"type": "image", "source": {"type": "data", "value": "aW1n"}},
            document("//", "data"),
            document("x"),
        ],
        ids=str,
    )
    def test_other_parts_are_refused(self, part: Any) -> None:
        with pytest.raises(Invalid) as caught:
            started(request([{"type": "text", "text": "a"}, part]))
        assert caught.value.info["errors"][0]["path"] == "messages[0].content[1]"  # type: ignore[index, call-overload]

    def test_a_message_of_the_user_is_required(self) -> None:
        with pytest.raises(Malformed, match="must end with a message of the role `user`"):
            started(request() | {"messages": [{"role": "assistant", "content": "x"}]})
        with pytest.raises(Malformed, match="must end"):
            started(request() | {"messages": []})
        for content in ("", " ", None, [IMAGE]):
            with pytest.raises(Invalid, match="must contain text"):
                started(request(content))


class TestResume:
    """The decisions of a resume."""

    def test_every_entry_is_a_decision(self) -> None:
        entries = [
            {"interruptId": "a", "status": "resolved", "payload": {"decision": "deny", "data": {"n": 1}, "more": 1}},
            {"interruptId": "b", "status": "cancelled", "payload": {"decision": "approve"}},
            {"interruptId": "c", "status": "resolved"},
            {"interruptId": "d", "status": "cancelled"},
        ]
        made = resume_of(entries, {"a": "approval", "b": "approval", "c": "connect", "d": "connect"})
        assert made.fields == {
            "decisions": [
                {"interruptId": "a", "decision": "deny", "data": {"n": 1}},
                {"interruptId": "b", "decision": "deny"},
                {"interruptId": "c", "decision": "connected"},
                {"interruptId": "d", "decision": "cancelled"},
            ]
        }

    def test_a_run_that_was_parked_on_request_needs_no_decision(self) -> None:
        assert resume_of([{"interruptId": PAUSED, "status": "resolved"}], {}).fields == {}

    @pytest.mark.parametrize("payload", [None, True, {}, {"decision": "yes"}, {"approved": True}])
    def test_a_payload_is_a_decision(self, payload: Any) -> None:
        entry = {"interruptId": "a", "status": "resolved", "payload": payload}
        with pytest.raises(Invalid, match=r"resume\[0\].payload"):
            resume_of([entry], {"a": "approval"})
