"""The key of stored secrets is replaced while servers run, and the command that encrypts them anew is killed."""

import asyncio
import json
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import httpx
import pytest
from commands import action, answered, ended_by, environment, serving
from commands import wfcore as run_wfcore
from postgres_server import new_database
from slices import slice_of
from waiting import HANG, PATIENCE

import wfcore
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.domain.triggers.webhooks import sign

OLD, NEW = (secrets.token_urlsafe(32) for _ in range(2))
CONNECTIONS = 7

TOOLS = """
import wfcore

@wfcore.tool(provider="crm", id="crm.token", idempotent=True)
async def token(call: wfcore.ToolCall):
    return call.connection.config["accessToken"][::-1]

@wfcore.tool(provider="mail", id="mail.key", idempotent=True)
async def key(call: wfcore.ToolCall):
    return call.connection.config["apiKey"][::-1]
"""

"""They return secrets backwards, because wfcore masks them."""

KILLED = """
import os, signal, sys
from wfcore.cli.main import main
from wfcore.runtime.data import stored_secrets

audit, calls = stored_secrets.audit, []

async def killed(*args):
    await audit(*args)
    calls.append(1)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

stored_secrets.BATCH, stored_secrets.audit = 2, killed
main(sys.argv[1:])
"""
"""The command, in transactions of two rows; it is killed before the third one is committed."""


class AuthorizationServer(BaseHTTPRequestHandler):
    """Issues an access token that ends at once, for the code or the refresh token that it issued last."""

    issued: list[str]

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        (given,) = form.get("refresh_token") or form["code"]
        is_genuine = given == self.issued[-1]
        self.issued.append(f"refresh-{len(self.issued)}")
        body = {"access_token": f"access-{len(self.issued)}", "refresh_token": self.issued[-1], "expires_in": 0}
        text = json.dumps(body if is_genuine else {"error": "invalid_grant"}).encode()
        self.send_response(200 if is_genuine else 400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """It is silent."""


@pytest.fixture
def authorizations() -> Iterator[str]:
    handler = type("Handler", (AuthorizationServer,), {"issued": ["code"]})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@attrs.frozen
class Client:
    """An owner at one server. `webhook` is that of the first workflow, when it is known."""

    http: httpx.Client
    base: str

    def call(self, method: str, path: str, body: Any = None) -> Any:
        found = self.http.request(method, f"{self.base}{path}", json=body)
        assert found.is_success, found.text
        return found.json() if found.content else None

    def ran(self, workflow: int) -> Any:
        """The output of a run of the workflow."""
        run = self.call("POST", "/agent/v1/runs", {"workflowId": workflow, "input": {"n": 1}})
        ends = monotonic() + PATIENCE
        while (found := self.call("GET", f"/agent/v1/runs/{run['runId']}"))["status"] in ("queued", "running"):
            assert monotonic() < ends, found
            time.sleep(0.01)
        assert found["status"] == "done", found
        return found["output"]


def graph(tool: str) -> dict[str, Any]:
    nodes = [{"id": "start", "type": "start"}, action(tool)]
    return {"nodes": nodes, "edges": [{"id": "e", "source": "start", "target": "act"}]}


def furnish(client: Client, server: str) -> None:
    """An object of each kind that has secrets; workflow 1 uses the API key, workflow 2 the tokens."""
    for tool in ("mail.key", "crm.token"):
        flow = {"name": tool, "type": "workflow", "trigger": {"trigger_type": "webhook"}}
        made = client.call("POST", "/api/v1/workflows", {**flow, "workflowStructure": graph(tool)})
        client.call("POST", f"/api/v1/workflows/{made['id']}/deploy")
    for number in range(CONNECTIONS - 1):
        config = {"apiKey": f"key-{number}", "header": "X-Key"}
        body = {"name": f"Mail {number}", "provider": "mail", "kind": "api_key", "config": config}
        client.call("POST", "/api/v1/connections", body)
    config = {
        "clientId": "c",
        "clientSecret": "s",
        "tokenUrl": f"{server}/token",
        "authorizeUrl": f"{server}/authorize",
    }
    body = {"name": "CRM", "provider": "crm", "kind": "oauth2", "config": config}
    crm = client.call("POST", "/api/v1/connections", body)["id"]
    url = client.call("POST", f"/api/v1/connections/{crm}/authorize")["url"]
    query = parse_qs(urlsplit(url).query)
    ended = client.http.get(query["redirect_uri"][0], params={"state": query["state"][0], "code": "code"})
    assert ended.status_code == 200, ended.text
    client.call("POST", "/api/v1/hooks", {"url": "http://127.0.0.1:9/", "events": ["run.failed"]})
    body = {"kind": "teamchat", "config": {"postUrl": "http://127.0.0.1:9/"}}
    client.call("POST", "/api/v1/workflows/1/interfaces", body)


def works(client: Client) -> dict[str, Any]:
    """Use every secret: of connections in runs, with a refresh of tokens, of the webhook, and of the team chat.

    Returns those of the webhook and of the team chat.
    """
    assert client.ran(1)[::-1] == "key-0"
    assert re.fullmatch("access-[0-9]+", client.ran(2)[::-1])
    webhook = client.call("GET", "/api/v1/workflows/1/webhook")
    number, at, body = secrets.token_hex(4), int(time.time()), b'{"n": 1}'
    headers = {"content-type": "application/json", "webhook-id": number, "webhook-timestamp": str(at)}
    headers["webhook-signature"] = sign(webhook["secret"], number, at, body)
    address = client.base + urlsplit(webhook["url"]).path
    assert client.http.post(address, content=body, headers=headers).is_success
    headers["webhook-signature"] = sign("whsec_" + "A" * 44, number, at, body)
    assert client.http.post(address, content=body, headers=headers).status_code == 401
    (chat,) = client.call("GET", "/api/v1/workflows/1/interfaces")["interfaces"]
    return {
        "webhook": webhook["secret"],
        "chat": client.call("GET", f"/api/v1/workflows/1/interfaces/{chat['id']}/secret")["secret"],
    }


@attrs.frozen
class Installation:
    folder: Path
    database: str
    token: str

    def config(self, *keys: str) -> list[str]:
        """The options of a process that has these keys, the current one first."""
        name = f"keys-{'-'.join('old' if key is OLD else 'new' for key in keys)}.toml"
        lines = [f'database = "{self.database}"', f'secret_key = "{keys[0]}"']
        lines += [f"previous_secret_keys = {json.dumps(keys[1:])}", 'tools = ["tools.py:token", "tools.py:key"]']
        (self.folder / name).write_text("\n".join([*lines, "[http_tool]", 'allow = ["127.0.0.1"]']))
        return ["--config", name]

    @contextmanager
    def server(self, *keys: str) -> Iterator[Client]:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        with serving(self.folder, *self.config(*keys)) as (process, base):
            with httpx.Client(headers=headers, timeout=HANG) as http:
                yield Client(http, base)
            ended_by(process, signal.SIGTERM)


async def token_in(database: str) -> str:
    async with wfcore.open(database, worker=False) as core:
        org = await core.directory.create_organization("Acme")
        await core.directory.add_member(org.uuid, "ann", "ann@x.org", role="owner")
        return await core.directory.create_token(org.uuid, "ann", scopes=TOKEN_SCOPES)


@pytest.fixture(params=slice_of(["postgres", "sqlite"], 2))
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Installation:
    database = f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else new_database()
    (tmp_path / "tools.py").write_text(TOOLS)
    return Installation(tmp_path, database, asyncio.run(token_in(database)))


def test_a_key_is_replaced_while_servers_run(installation: Installation, authorizations: str) -> None:
    """At each step every server uses every secret, and at the end the earlier key is nowhere needed any more.

    A killed command leaves whole transactions, and the next one does the rest.
    """
    folder, command = installation.folder, ["db", "reencrypt", *installation.config(NEW, OLD)]
    with installation.server(OLD, NEW) as former:
        furnish(former, authorizations)
        with installation.server(NEW, OLD) as later:
            shown = works(former)
            assert works(later) == shown
            program = [sys.executable, "-c", KILLED, *command]
            ended = subprocess.run(program, cwd=folder, env=environment(), timeout=HANG, check=False)
            assert ended.returncode == -signal.SIGKILL
            assert works(former) == shown
            assert works(later) == shown
        done = {row["kind"]: row["count"] for row in answered(folder, *command, "--json")}
    assert done["connections"] == CONNECTIONS - 4
    checked = run_wfcore(folder, "db", "check", "--deep", *installation.config(NEW))
    assert (checked.returncode, "nothing that rows need is missing" in checked.stdout) == (0, True), checked.stdout
    with installation.server(NEW) as client:
        assert works(client) == shown
        audit = client.call("GET", "/api/v1/audit?action=organization.reencrypt")["audit"]
        assert sum(sum(row["details"].values()) for row in audit) == 4 + sum(done.values())
