"""Requests of Slack, and messages to it, against the formats that its documentation shows."""

import json
import time
from typing import Any

import pytest
from slack_requests import MESSAGE, PRESS, USER, VERIFICATION, form, message
from waiting import cpu_limit

from wfcore.domain.channels.slack import (
    FORM,
    MOST_SHOWN,
    MOST_TEXT,
    Challenge,
    SlackDecision,
    SlackMessage,
    person_of,
    post_of,
    read_request,
    read_signature,
    sign,
)
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.triggers.webhooks import BadSignature

JSON_TYPE = "application/json"
SECRET, AT = "8f742231b10e8888abcd99yyyzzz85a5", 1_531_420_618
SIGNED = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack"
    b".com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0b"
    b"c887a14d10d2c447fce8b6703c"
)
SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
HEADERS = {"X-Slack-Request-Timestamp": str(AT), "X-Slack-Signature": SIGNATURE}


def request(body: Any) -> Any:
    return read_request(JSON_TYPE, json.dumps(body).encode())


class TestSignatures:
    """The headers of a request, and its signature."""

    def test_the_example_of_the_documentation(self) -> None:
        """Its secret, time, body and signature; another body or secret is not genuine."""
        assert sign(SECRET, str(AT), SIGNED) == SIGNATURE
        found = read_signature([*HEADERS.items(), ("accept", "*/*")], AT * 1000)
        assert found.is_genuine(SECRET, SIGNED)
        assert not found.is_genuine(SECRET, SIGNED + b"x")
        assert not found.is_genuine("other", SIGNED)

    @pytest.mark.parametrize(
        "headers",
        [
            {}, {"X-Slack-Signature": SIGNATURE}, {**HEADERS, "X-Slack-Signature": "v1=00"},
            {**HEADERS, "X-Slack-Signature": SIGNATURE.upper()}, {**HEADERS, "X-Slack-Request-Timestamp": "1e9"},
            {**HEADERS, "X-Slack-Request-Timestamp": str(AT + 301)},
            {**HEADERS, "X-Slack-Request-Timestamp": str(AT - 301)}, {**HEADERS, "x-slack-signature": SIGNATURE},
        ],
    )  # fmt: skip
    def test_unusable_headers(self, headers: dict[str, str]) -> None:
        """Missing, repeated, of another version, or more than five minutes off."""
        with pytest.raises(BadSignature):
            read_signature(headers.items(), AT * 1000)


class TestRequests:
    """What a request is about."""

    def test_a_verification(self) -> None:
        """The challenge is repeated."""
        assert request(VERIFICATION) == Challenge(VERIFICATION["challenge"])

    def test_a_message(self) -> None:
        """Its id is its channel and time, its thread begins with it, and its text is not escaped any more."""
        assert request(MESSAGE) == SlackMessage(
            "T123ABC456:C123ABC456:1355517523.000005", "T123ABC456",
            {"type": "message", "channel": "C123ABC456", "user": "U123ABC456", "text": "Where is order 7 & 8?",
             "thread": "1355517523.000005"},
        )  # fmt: skip

    def test_a_mention_is_the_same_message(self) -> None:
        """Slack sends both events of a message that names the app; the name is left out of the text."""
        said = {"text": "<@U061F7AUR> Pay &lt;7&gt; to <@U2>", "channel_type": None}
        mention = message(**said, type="app_mention")
        assert request(mention) == request(message(**said))
        assert request(mention).message["text"] == "Pay <7> to <@U2>"

    def test_mentions_that_are_not_closed(self) -> None:
        """One ends before the next begins, so that a text with many of them takes little time."""
        assert request(message(text="<@U1|<@U2|ann> Pay")).message["text"] == "<@U1|Pay"
        started, text = time.process_time(), "<@U|" * 50_000
        assert request(message(text=text)).message["text"] == text
        assert time.process_time() - started < cpu_limit(1)

    def test_threads(self) -> None:
        """A reply belongs to its thread; a direct message to the conversation with the app."""
        assert request(message(thread_ts="1.5")).message["thread"] == "1.5"
        assert "thread" not in request(message(channel="D1", channel_type="im")).message
        assert request(message(team=None)).team == "T123ABC456"

    @pytest.mark.parametrize(
        "body",
        [
            message(bot_id="B1"), message(subtype="message_changed"), message(text="<@U061F7AUR> "), message(text=7),
            message(user=None), message(type="reaction_added"), {**MESSAGE, "type": "app_rate_limited"},
            {**MESSAGE, "event": None}, [], 7,
        ],
    )  # fmt: skip
    def test_what_is_not_for_wfcore(self, body: Any) -> None:
        """Messages of bots, changed and empty ones, and other events."""
        assert request(body) is None

    @pytest.mark.parametrize(
        "body", [message(channel=7), message(ts=""), {**MESSAGE, "team_id": None}, {**VERIFICATION, "challenge": 7}]
    )
    def test_another_shape(self, body: Any) -> None:
        """It is malformed, as no JSON is."""
        with pytest.raises(Malformed):
            request(body)
        with pytest.raises(Malformed):
            read_request(JSON_TYPE, b"{")

    def test_a_press(self) -> None:
        """Which approval of the run of which message, and by whom."""
        expected = SlackDecision(
            "U123ABC456:1355517525.123456", "T123ABC456", "U123ABC456", "C123ABC456", "1355517523.000005",
            "T123ABC456:C123ABC456:1355517523.000005", "int_1", "approve",
        )  # fmt: skip
        assert read_request(f"{FORM}; charset=utf-8", form(PRESS)) == expected
        user = {"id": "U123ABC456"}
        assert read_request(FORM, form({**PRESS, "user": user, "message": None})).thread is None  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        "payload",
        [{**PRESS, "type": "view_submission"}, {**PRESS, "actions": []}, {**PRESS, "actions": [{"action_id": "own"}]}],
    )
    def test_other_interactions(self, payload: Any) -> None:
        """Buttons of others, and other interactions."""
        assert read_request(FORM, form(payload)) is None

    @pytest.mark.parametrize("body", [b"", b"payload=%7B", b"\xff", form({**PRESS, "user": {}}), b"a=1&" * 20])
    def test_a_form_of_another_shape(self, body: bytes) -> None:
        with pytest.raises(Malformed):
            read_request(FORM, body)


class TestPeople:
    """For whom the workspace vouches."""

    def test_a_member_of_the_workspace(self) -> None:
        """With a name and an address; without a confirmed one only with the name."""
        assert person_of(USER, "T123ABC456") == {"name": "Grace Hopper", "email": "grace@x.org"}
        assert person_of({**USER, "is_email_confirmed": False}, "T123ABC456") == {"name": "Grace Hopper"}
        assert person_of({**USER, "profile": None, "is_email_confirmed": None}, "T123ABC456") == {
            "name": "Grace Hopper"
        }

    @pytest.mark.parametrize("more", [{"team_id": "T2"}, {"deleted": True}, {"is_bot": True}, {"is_stranger": True}])
    def test_strangers(self, more: dict[str, Any]) -> None:
        """People of other workspaces in a shared channel, bots, and those who have left."""
        assert person_of({**USER, **more}, "T123ABC456") == {}


ANSWER: dict[str, Any] = {
    "channel": "C1", "thread": "1.5", "messageId": "m", "text": "It costs <7> & <!channel>", "interrupts": [],
}  # fmt: skip
WAITING = {"interruptId": "int_1", "type": "approval", "message": "Pay <!here>?"}


class TestPosts:
    """The body of `chat.postMessage`."""

    def test_an_answer(self) -> None:
        """It names nobody: what Slack would read as a mention is escaped."""
        assert post_of(ANSWER, with_buttons=True) == {
            "channel": "C1", "thread_ts": "1.5", "text": "It costs &lt;7&gt; &amp; &lt;!channel&gt;",
            "unfurl_links": False,
        }  # fmt: skip
        assert "thread_ts" not in post_of({**ANSWER, "thread": None}, with_buttons=True)
        assert post_of({**ANSWER, "text": ""}, with_buttons=False)["text"] == "Done."
        assert len(str(post_of({**ANSWER, "text": "x" * 50_000}, with_buttons=False)["text"])) == MOST_TEXT

    def test_an_approval_has_buttons(self) -> None:
        """Their value names message and interrupt; Slack's limits hold."""
        posted: Any = post_of({**ANSWER, "interrupts": [WAITING]}, with_buttons=True)
        section, actions = posted["blocks"]
        assert section == {"type": "section", "text": {"type": "mrkdwn", "text": "Pay &lt;!here&gt;?"}}
        assert [one["action_id"] for one in actions["elements"]] == ["wfcore.approve", "wfcore.deny"]
        assert {one["value"] for one in actions["elements"]} == {'{"messageId":"m","interruptId":"int_1"}'}
        many: Any = post_of({**ANSWER, "interrupts": [{**WAITING, "message": None}] * 30}, with_buttons=True)
        assert len(many["blocks"]) == 2 * MOST_SHOWN

    @pytest.mark.parametrize("change", [{"type": "connect"}, {"formSchema": {"type": "object"}}])
    def test_what_has_no_buttons(self, change: dict[str, Any]) -> None:
        """Connections and forms; and everything where the chat takes no decisions."""
        answer = {**ANSWER, "interrupts": [{**WAITING, **change}]}
        assert "blocks" not in post_of(answer, with_buttons=True)
        assert "blocks" not in post_of({**ANSWER, "interrupts": [WAITING]}, with_buttons=False)
