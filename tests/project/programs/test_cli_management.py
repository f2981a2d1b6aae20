"""The commands that manage an organization, on a server and on its database beside it."""

import json
from pathlib import Path

import httpx
from commands import answered, serving, wfcore
from waiting import HANG

from wfcore.testing.histories import sketch

ASK = sketch("s -> w", w={"type": "humanApproval", "message": "Refund?"})


def test_a_server_and_its_database_are_managed_alike(tmp_path: Path) -> None:
    """Each command has the same result with `--server` and on the database; a server drives its own runs."""
    with serving(tmp_path) as (_, url):
        whose = {"WFCORE_ORG": "11111111-1111-4111-8111-111111111111", "WFCORE_USER_ID": "ada"}
        assert wfcore(tmp_path, "org", "create", "Acme", "--id", whose["WFCORE_ORG"]).returncode == 0
        assert wfcore(tmp_path, "member", "add", "--email", "a@x.org", "--role", "owner", **whose).returncode == 0
        token = wfcore(tmp_path, "token", "create", "--all-scopes", **whose).stdout.strip()
        remote = {"WFCORE_SERVER": url, "WFCORE_TOKEN": token}
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=HANG) as client:
            body = {"name": "Refund", "type": "workflow", "workflowStructure": ASK}
            assert client.post("/api/v1/workflows", json=body).status_code == 201
        assert wfcore(tmp_path, "workflow", "deploy", "refund", **remote).returncode == 0
        lists = [wfcore(tmp_path, "workflow", "list", "--json", **where).stdout for where in (remote, whose)]
        assert lists[0] == lists[1]

        waiting = wfcore(tmp_path, "run", "start", "refund", "--key", "r", "--follow", **remote)
        assert (waiting.returncode, waiting.stdout) == (4, "r\n")
        ended = wfcore(tmp_path, "answer", "r", "approve", "--follow", **remote)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout.splitlines()[1])["decision"] == "approve"
        refused = wfcore(tmp_path, "workflow", "list", "--server", url, "--token", token + "x")
        assert (refused.returncode, refused.stdout) == (1, "")
    assert answered(tmp_path, "run", "show", "r", "--org", whose["WFCORE_ORG"], "--user-id", "ada")["runId"] == "r"
