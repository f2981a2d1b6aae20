"""The `config` of a team chat: where answers are posted, which Slack app it is, and whether it takes decisions.

With `approvals` the chat says who decides, by e-mail address. So only an admin turns it on, and the secret is then new.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from wfcore.domain.json.values import UNSET, Object, UnsetType, creation
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.urls import URL_RULE, is_url

SLACK: Final = "slack"
SLACK_API: Final = "https://slack.com/api"
SECRET_KEPT: Final[JSON] = {"set": True}
"""What is read, and can be written back, in the place of the signing secret."""

MAX_URL: Final = 2_048
"""The most characters of a URL."""

_KEYS: Final = ("approvals", "postUrl")
_SLACK_KEYS: Final = ("apiUrl", "approvals", "connectionId", "format", "signingSecret")
_SECRET: Final = re.compile(r"[!-~]{16,255}", re.ASCII)


@creation
class TeamChatConfig:
    """The keys of the `config`, with either format."""

    approvals: bool | UnsetType = UNSET
    post_url: str | UnsetType = UNSET
    format: str | UnsetType = UNSET
    api_url: str | UnsetType = UNSET
    connection_id: str | UnsetType = UNSET
    signing_secret: str | Object | UnsetType = UNSET


def is_slack(config: Mapping[str, JSON]) -> bool:
    """Whether messages and answers are those of Slack's APIs."""
    return config.get("format") == SLACK


def takes_decisions(config: Mapping[str, JSON]) -> bool:
    """Whether approvals can be answered in the chat."""
    return config.get("approvals") is True


def team_chat_issues(config: Mapping[str, JSON]) -> list[Issue]:
    """Every issue. A key that is not known is one: a misspelled address would lose every answer."""
    names = _SLACK_KEYS if "format" in config else _KEYS
    known = ", ".join(f"`{name}`" for name in names)
    issues = [*_slack_issues(config)] if "format" in config else []
    for name in ("postUrl", "apiUrl"):
        if name in names and name in config:
            issues += _url_issues(name, config[name])
    if not isinstance(config.get("approvals", False), bool):
        issues.append(Issue("config.approvals", "must be true or false", "type"))
    return issues + [
        Issue(f"config.{name[:100]}", f"unknown key: use {known}", "unknown") for name in config if name not in names
    ]


def _slack_issues(config: Mapping[str, JSON]) -> Iterator[Issue]:
    if not is_slack(config):
        yield Issue("config.format", f"must be `{SLACK}`, or absent", "enum")
    for name in ("connectionId", "signingSecret"):
        if name not in config:
            yield Issue(f"config.{name}", f"is required with the format `{SLACK}`", "required_if")
    if not isinstance(config.get("connectionId", ""), str):
        yield Issue("config.connectionId", "must be a string", "type")
    secret = config.get("signingSecret", SECRET_KEPT)
    if secret != SECRET_KEPT and not isinstance(secret, str):
        yield Issue("config.signingSecret", "must be a string", "type")
    if isinstance(secret, str) and not _SECRET.fullmatch(secret):
        yield Issue("config.signingSecret", "must have 16 to 255 visible ASCII characters", "pattern")


def _url_issues(name: str, given: JSON) -> list[Issue]:
    if not isinstance(given, str):
        return [Issue(f"config.{name}", "must be a string", "type")]
    if len(given) > MAX_URL:
        return [Issue(f"config.{name}", f"must have at most {MAX_URL} characters", "maxLength")]
    return [] if is_url(given) else [Issue(f"config.{name}", URL_RULE, "url")]
