"""Requests of Slack as its documentation and its servers show them, with shorter ids (https://docs.slack.dev)."""

import json
from typing import Any
from urllib.parse import urlencode

VERIFICATION: dict[str, Any] = {
    "token": "Jhj5dZrVaK7ZwHHjRyZWjbDl", "type": "url_verification",
    "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",
}  # fmt: skip

MESSAGE: dict[str, Any] = {
    "token": "Jhj5dZrVaK7ZwHHjRyZWjbDl", "team_id": "T123ABC456", "context_team_id": "T123ABC456",
    "context_enterprise_id": None, "api_app_id": "A123ABC456",
    "event": {
        "user": "U123ABC456", "type": "message", "ts": "1355517523.000005", "client_msg_id": "28b1e0a2-0a1c-4d0e",
        "text": "Where is order 7 &amp; 8?", "team": "T123ABC456", "channel": "C123ABC456",
        "event_ts": "1355517523.000005", "channel_type": "channel",
        "blocks": [{"type": "rich_text", "block_id": "HVDGq", "elements": []}],
    },
    "type": "event_callback", "event_id": "Ev123ABC456", "event_time": 1355517523,
    "authorizations": [
        {"enterprise_id": None, "team_id": "T123ABC456", "user_id": "U061F7AUR", "is_bot": True,
         "is_enterprise_install": False}
    ],
    "is_ext_shared_channel": False, "event_context": "4-eyJldCI6Im1lc3NhZ2UifQ",
}  # fmt: skip

PRESS: dict[str, Any] = {
    "type": "block_actions",
    "user": {"id": "U123ABC456", "username": "grace", "name": "grace", "team_id": "T123ABC456"},
    "api_app_id": "A123ABC456", "token": "Jhj5dZrVaK7ZwHHjRyZWjbDl",
    "container": {"type": "message", "message_ts": "1355517524.000006", "channel_id": "C123ABC456",
                  "is_ephemeral": False, "thread_ts": "1355517523.000005"},
    "trigger_id": "12466734323.1395872398", "team": {"id": "T123ABC456", "domain": "workspace"}, "enterprise": None,
    "is_enterprise_install": False, "channel": {"id": "C123ABC456", "name": "general"},
    "message": {"user": "U061F7AUR", "type": "message", "ts": "1355517524.000006", "bot_id": "B123ABC456",
                "text": "Pay?", "team": "T123ABC456", "thread_ts": "1355517523.000005", "blocks": []},
    "state": {"values": {}}, "response_url": "https://hooks.slack.com/actions/T123ABC456/1/x",
    "actions": [
        {"action_id": "wfcore.approve", "block_id": "kQ7", "type": "button", "style": "primary",
         "text": {"type": "plain_text", "text": "Approve", "emoji": True},
         "value": '{"messageId":"T123ABC456:C123ABC456:1355517523.000005","interruptId":"int_1"}',
         "action_ts": "1355517525.123456"}
    ],
}  # fmt: skip

USER: dict[str, Any] = {
    "id": "U123ABC456", "team_id": "T123ABC456", "name": "grace", "deleted": False, "color": "9f69e7",
    "real_name": "Grace Hopper", "tz": "America/New_York", "is_admin": False, "is_bot": False, "is_app_user": False,
    "is_restricted": False, "is_ultra_restricted": False, "is_email_confirmed": True, "updated": 1502138686,
    "profile": {"avatar_hash": "ge3b51ca72de", "real_name": "Grace Hopper", "display_name": "grace",
                "email": "grace@x.org", "team": "T123ABC456"},
}  # fmt: skip


def message(**event: Any) -> dict[str, Any]:
    """The event of a message with other fields."""
    return {**MESSAGE, "event": {**MESSAGE["event"], **event}}


def press(message_id: str, interrupt_id: str, action_id: str = "wfcore.approve", at: str = "1.1") -> dict[str, Any]:
    """The press of a button of an answer."""
    value = json.dumps({"messageId": message_id, "interruptId": interrupt_id})
    return {**PRESS, "actions": [{**PRESS["actions"][0], "action_id": action_id, "value": value, "action_ts": at}]}


def form(payload: Any) -> bytes:
    """The body of an interaction."""
    return urlencode({"payload": json.dumps(payload)}).encode()
