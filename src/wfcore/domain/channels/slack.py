"""Slack: signed requests of its Events API and of its buttons, and the messages that are posted to it.

Sources, below https://docs.slack.dev: apis/events-api, authentication/verifying-requests-from-slack,
reference/interaction-payloads/block_actions-payload, reference/methods/chat.postMessage. A request that is sent again
(`X-Slack-Retry-Num`) has the same message in it, and so have the events `message` and `app_mention` of one message: its
channel and time are its id.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl

import attrs

from wfcore.domain.channels.team_chats import TeamMessage
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_readers import as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.triggers.webhooks import TOLERANCE, BadSignature

FORM: Final = "application/x-www-form-urlencoded"
HEADERS: Final = ("x-slack-request-timestamp", "x-slack-signature")
DECISIONS: Final[Mapping[str, str]] = {"wfcore.approve": "approve", "wfcore.deny": "deny"}
"""The decision of each button, by its `action_id`."""
MOST_TEXT: Final = 39_000
"""Characters of the text of a message; Slack cuts longer ones."""
MOST_SECTION: Final = 2_900
"""Characters of the text above the buttons of an approval."""
MOST_SHOWN: Final = 20
"""The most approvals that one message has buttons for; a message has at most 50 blocks."""
TOKEN_REFUSED: Final = frozenset({"account_inactive", "invalid_auth", "not_authed", "token_expired", "token_revoked"})
"""The errors of a response that refuses the token."""

_TIMESTAMP: Final = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_SIGNATURE: Final = re.compile(r"v0=[0-9a-f]{64}", re.ASCII)
_MENTION: Final = re.compile(r"<@[A-Z0-9]+(?:\|[^<>]*)?>\s*", re.ASCII)
"""It ends before the next `<`, which Slack escapes in labels: else many that are not closed take quadratic time."""
_KEPT_SUBTYPES: Final = (None, "file_share", "thread_broadcast")
"""The subtypes of messages that people write."""


@attrs.frozen
class SlackSignature:
    """The signed headers of a request. Only `is_genuine` verifies them, with the body."""

    timestamp: str
    signature: str

    def is_genuine(self, secret: str, body: bytes) -> bool:
        """Whether the request is signed with this secret. The comparison takes constant time."""
        return hmac.compare_digest(sign(secret, self.timestamp, body).encode(), self.signature.encode())


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """The signature of version `v0` of a request."""
    digest = hmac.digest(secret.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256)
    return f"v0={digest.hex()}"


def read_signature(headers: Iterable[tuple[str, str]], now: int) -> SlackSignature:
    """The signed headers of a request that arrives at `now` (epoch milliseconds).

    Raises BadSignature if one is missing, repeated, not valid, or more than `TOLERANCE` seconds from `now`.
    """
    found = [(name.lower(), value) for name, value in headers if name.lower() in HEADERS]
    given = dict(found)
    at, signature = given.get(HEADERS[0], ""), given.get(HEADERS[1], "")
    if len(found) != len(HEADERS) or not _TIMESTAMP.fullmatch(at) or not _SIGNATURE.fullmatch(signature):
        raise BadSignature
    if abs(int(at) * 1000 - now) > TOLERANCE * 1000:
        raise BadSignature
    return SlackSignature(at, signature)


# Requests


@attrs.frozen
class Challenge:
    """Slack verifies the address of the app: the response repeats the text."""

    text: str


@attrs.frozen
class SlackMessage:
    """A message that a person wrote. `team` is the workspace of the person."""

    id: str
    team: str
    message: TeamMessage


@attrs.frozen
class SlackDecision:
    """A press of a button: on which approval of the run of which message. `id` is the press."""

    id: str
    team: str
    user: str
    channel: str
    thread: str | None
    message_id: str
    interrupt_id: str
    decision: str


SlackRequest = Challenge | SlackMessage | SlackDecision


def read_request(content_type: str, body: bytes) -> SlackRequest | None:
    """What a genuine request is about; None for what is not for wfcore, such as messages of bots.

    Raises Malformed for a body of another shape.
    """
    if content_type.partition(";")[0].strip().lower() == FORM:
        return _decision(_object(parse_json(_payload(body))))
    data = _object(parse_json(body))
    if data.get("type") == "url_verification":
        return Challenge(_text(data, "challenge"))
    return _message(data, _object(data.get("event"))) if data.get("type") == "event_callback" else None


def _payload(body: bytes) -> bytes:
    try:
        fields = dict(parse_qsl(body.decode(), max_num_fields=10))
    except ValueError:
        fields = {}
    return fields.get("payload", "").encode()


def _message(data: Mapping[str, JSON], event: Mapping[str, JSON]) -> SlackMessage | None:
    is_written = event.get("type") in ("message", "app_mention") and event.get("subtype") in _KEPT_SUBTYPES
    text = _MENTION.sub("", _optional(event, "text"), count=1).strip()
    if not is_written or event.get("bot_id") or not event.get("user") or not text:
        return None
    channel, at, team = _text(event, "channel"), _text(event, "ts"), _text(data, "team_id")
    message: TeamMessage = {
        "type": "message", "channel": channel, "user": _text(event, "user"), "text": _unescaped(text),
    }  # fmt: skip
    if thread := _optional(event, "thread_ts") or ("" if channel.startswith("D") else at):
        message["thread"] = thread
    return SlackMessage(f"{team}:{channel}:{at}", _optional(event, "team") or team, message)


def _decision(data: Mapping[str, JSON]) -> SlackDecision | None:
    actions = data.get("actions")
    action = _object(actions[0]) if isinstance(actions, list) and actions else {}
    decision = DECISIONS.get(_optional(action, "action_id"))
    if data.get("type") != "block_actions" or decision is None:
        return None
    user, value = _object(data.get("user")), _object(parse_json(_text(action, "value").encode()))
    return SlackDecision(
        f"{_text(user, 'id')}:{_text(action, 'action_ts')}",
        _optional(user, "team_id") or _text(_object(data.get("team")), "id"),
        _text(user, "id"),
        _text(_object(data.get("channel")), "id"),
        _optional(_object(data.get("message")), "thread_ts") or None,
        _text(value, "messageId"),
        _text(value, "interruptId"),
        decision,
    )


def _object(value: JSON) -> Mapping[str, JSON]:
    """The value if it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def _optional(value: Mapping[str, JSON], name: str) -> str:
    """The string of this name, else ""."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def _text(value: Mapping[str, JSON], name: str) -> str:
    if not (found := _optional(value, name)):
        refuse([Issue(name, "must be a string that is not empty", "type")])
    return found


def _unescaped(text: str) -> str:
    """The characters that Slack escapes in texts."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def escaped(text: str) -> str:
    """A text that names nobody and links nowhere: Slack reads `<...>` as a mention, a link or a command."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# People


def person_of(user: Mapping[str, JSON], team: str) -> dict[str, str]:
    """Name and address of a user of `users.info`, as far as the workspace `team` vouches for both; {} for a stranger.

    The address has to be confirmed. A user of another workspace, which shares a channel, has none.
    """
    profile = _object(user.get("profile"))
    if user.get("team_id") != team or user.get("deleted") or user.get("is_bot") or user.get("is_stranger"):
        return {}
    name = _optional(profile, "real_name") or _optional(user, "real_name")
    email = _optional(profile, "email") if user.get("is_email_confirmed") is True else ""
    return {key: text[:255] for key, text in (("name", name), ("email", email)) if text}


# Messages


def post_of(answer: Mapping[str, JSON], *, with_buttons: bool) -> dict[str, JSON]:
    """The body of `chat.postMessage` for an answer (`TeamAnswer`), with buttons for open approvals without a form."""
    thread = {} if answer["thread"] is None else {"thread_ts": answer["thread"]}
    text = escaped(as_text(answer["text"]))[:MOST_TEXT] or "Done."
    waiting = [one for one in as_objects(answer["interrupts"]) if _has_buttons(one)] if with_buttons else []
    blocks = _blocks(as_text(answer["messageId"]), waiting[:MOST_SHOWN])
    shown = {"blocks": blocks} if blocks else {}
    return {"channel": answer["channel"], **thread, "text": text, "unfurl_links": False, **shown}


def _has_buttons(interrupt: Mapping[str, JSON]) -> bool:
    return interrupt.get("type") == "approval" and not interrupt.get("formSchema")


def _blocks(message_id: str, waiting: Sequence[Mapping[str, JSON]]) -> list[JSON]:
    blocks = list[JSON]()
    for one in waiting:
        value = dumps({"messageId": message_id, "interruptId": one["interruptId"]})
        text = escaped(_optional(one, "message") or "An approval is required.")[:MOST_SECTION]
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text}})
        blocks.append({
            "type": "actions",
            "elements": [_button(name, decision, value) for name, decision in DECISIONS.items()],
        })  # fmt: skip
    return blocks


def _button(action_id: str, decision: str, value: str) -> dict[str, JSON]:
    return {
        "type": "button", "action_id": action_id, "value": value,
        "style": "primary" if decision == "approve" else "danger",
        "text": {"type": "plain_text", "text": decision.capitalize()},
    }  # fmt: skip
