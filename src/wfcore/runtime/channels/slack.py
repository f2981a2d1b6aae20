"""Calls of Slack's Web API with the token of a connection, which goes only to a host that the connection names."""

from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import quote

from wfcore.domain.agents.connections import ConnectionKind, goes_to
from wfcore.domain.channels.slack import TOKEN_REFUSED
from wfcore.domain.channels.team_chat_config import SLACK_API
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.json_readers import as_text, optional_text, optional_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.outbound import Undelivered
from wfcore.ports.providers import ConnectionRequired, ToolFailed
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.connection_use import ConnectionUse, ConnectionUser, OpenedConnection

KINDS = (ConnectionKind.API_KEY, ConnectionKind.OAUTH2)
"""The kinds of connections that have a token for Slack."""


class Slack:
    """Slack, for the interfaces of one installation."""

    def __init__(self, ports: Ports) -> None:
        self._outbound = ports.outbound
        self._use = ConnectionUse(ports)

    async def post(
        self, org: str, config: Mapping[str, JSON], method: str, body: Mapping[str, JSON]
    ) -> Mapping[str, JSON]:
        """The response of a method that writes, such as `chat.postMessage`. `ToolFailed` when Slack refuses it."""
        return await self._call(org, config, "POST", method, dumps(body).encode())

    async def user(self, org: str, config: Mapping[str, JSON], user: str) -> Mapping[str, JSON]:
        """A user of the workspace, by `users.info`. `ToolFailed` when Slack refuses it."""
        found = await self._call(org, config, "GET", f"users.info?user={quote(user, safe='')}", None)
        person = found.get("user")
        return person if isinstance(person, dict) else {}

    async def _call(
        self, org: str, config: Mapping[str, JSON], verb: str, method: str, body: bytes | None
    ) -> Mapping[str, JSON]:
        user = ConnectionUser(org, "")
        url = f"{(optional_text(config.get('apiUrl')) or SLACK_API).rstrip('/')}/{method}"

        async def call(opened: OpenedConnection) -> Mapping[str, JSON]:
            return await self._send(opened, verb, url, body)

        opened = await self._use.of_id(user, as_text(config["connectionId"]), *KINDS)
        return await self._use.used(user, opened, call)

    async def _send(self, opened: OpenedConnection, verb: str, url: str, body: bytes | None) -> Mapping[str, JSON]:
        settings = opened.tool_connection.config
        if not goes_to(optional_texts(settings.get("hosts")) or (), url):
            raise ToolFailed("the host of Slack is not one of the `hosts` of the connection", retryable=False)
        token = opened.token or as_text(settings["apiKey"])
        kind = {} if body is None else {"content-type": "application/json; charset=utf-8"}
        try:
            response = await self._outbound.request(verb, url, {"authorization": f"Bearer {token}", **kind}, body)
            found = parse_json(response.body)
        except (Undelivered, Malformed) as error:
            raise ToolFailed(str(error)) from None
        if not isinstance(found, dict):
            raise ToolFailed("the response is not one of Slack")
        why = str(found.get("error") or f"HTTP {response.status}")
        if response.status == HTTPStatus.UNAUTHORIZED or why in TOKEN_REFUSED:
            raise ConnectionRequired
        if found.get("ok") is not True:
            raise ToolFailed(f"Slack refused the call: {why[:100]}")
        return found
