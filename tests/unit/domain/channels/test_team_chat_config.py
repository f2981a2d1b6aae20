"""The settings of a team chat."""

from typing import Any

import pytest

from wfcore.domain.channels.team_chat_config import SECRET_KEPT, is_slack, takes_decisions, team_chat_issues

SLACK = {"format": "slack", "connectionId": "c", "signingSecret": "a" * 32}


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"approvals": True}, []),
        ({"approvals": 1}, [("config.approvals", "type")]),
        (SLACK, []),
        ({**SLACK, "approvals": True, "apiUrl": "https://slack-gov.com/api", "signingSecret": SECRET_KEPT}, []),
        ({"format": "slack"}, [("config.connectionId", "required_if"), ("config.signingSecret", "required_if")]),
        ({**SLACK, "format": "irc"}, [("config.format", "enum")]),
        ({**SLACK, "connectionId": 1}, [("config.connectionId", "type")]),
        ({**SLACK, "signingSecret": 1}, [("config.signingSecret", "type")]),
        ({**SLACK, "signingSecret": "short"}, [("config.signingSecret", "pattern")]),
        ({**SLACK, "signingSecret": "a" * 31 + "\n"}, [("config.signingSecret", "pattern")]),
        ({**SLACK, "apiUrl": "ftp://x"}, [("config.apiUrl", "url")]),
        ({**SLACK, "postUrl": "https://x.org"}, [("config.postUrl", "unknown")]),
        ({"connectionId": "c"}, [("config.connectionId", "unknown")]),
    ],
)
def test_issues(config: dict[str, Any], found: list[tuple[str, str]]) -> None:
    """Each names its key; those of the other format are unknown."""
    assert [(issue.path, issue.rule) for issue in team_chat_issues(config)] == found


def test_what_a_config_is() -> None:
    assert (is_slack(SLACK), is_slack({})) == (True, False)
    assert [takes_decisions({"approvals": given}) for given in (True, False)] == [True, False]
