"""`wfcore serve` on PostgreSQL, as real processes."""

import asyncio
import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import httpx
import psycopg
import pytest
from commands import action, ended_by, serving, workflow, working
from postgres_server import WAITS, without_schema
from waiting import HANG, PATIENCE

import wfcore
from wfcore.domain.resources.access import TOKEN_SCOPES

API_KEY = {"name": "Shop", "provider": "shop", "kind": "api_key", "config": {"apiKey": "k", "header": "X-Key"}}


async def token_in(database: str) -> str:
    async with wfcore.open(database, worker=False, migrate=False) as core:
        org = await core.directory.create_organization("Acme")
        await core.directory.add_member(org.uuid, "u1", "a@x.org", role="owner")
        return await core.directory.create_token(org.uuid, "u1", scopes=TOKEN_SCOPES)


def test_two_servers_share_a_database(tmp_path: Path) -> None:
    """From an empty database: each server sees what the other one creates, and a server without a worker accepts a run
    that the other one drives. They share nothing else."""
    url = without_schema()
    file = json.loads((tmp_path / workflow(tmp_path, action("core.wait", seconds=0))).read_text())
    with serving(tmp_path, "--database", url) as (one, first):
        token = asyncio.run(token_in(url))
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        with (
            serving(tmp_path, "--no-worker", "--database", url) as (other, second),
            httpx.Client(headers=headers, timeout=HANG) as client,
        ):
            made = client.post(f"{first}/api/v1/workflows", json={"name": "Wait", "type": "workflow", **file}).json()
            assert client.post(f"{second}/api/v1/workflows/{made['id']}/deploy").status_code == 200
            body = {"workflowId": made["id"], "input": {"n": 1}, "runId": "r-1"}
            assert client.post(f"{second}/agent/v1/runs", json=body).status_code in (200, 202)
            ends = monotonic() + PATIENCE
            while (run := client.get(f"{second}/agent/v1/runs/r-1").json())["status"] != "done":
                assert monotonic() < ends, run
            ended_by(other, signal.SIGTERM)
        ended_by(one, signal.SIGTERM)
    assert [each.name for each in tmp_path.iterdir()] == ["refunds.json"]


def test_a_server_has_no_place_for_attachments_and_keys(tmp_path: Path) -> None:
    """Beside no file there is no default for `blobs` and `secret_key`: the server warns at its start, and refuses what
    needs them, without `Retry-After`.
    """
    url = without_schema()
    with serving(tmp_path, "--database", url) as (server, address):
        headers = {"Authorization": f"Bearer {asyncio.run(token_in(url))}"}
        refused = httpx.post(f"{address}/agent/v1/uploads", content=b"text", headers=headers, timeout=HANG)
        assert (refused.status_code, refused.json()["error"]["info"]["errors"][0]["rule"]) == (422, "unsupported")
        unsealed = httpx.post(f"{address}/api/v1/connections", json=API_KEY, headers=headers, timeout=HANG)
        assert (unsealed.status_code, "`secret_key`" in unsealed.text) == (503, True)
        assert "Retry-After" not in unsealed.headers
        printed = ended_by(server, signal.SIGTERM)
        assert "warning: there is no directory for attachments" in printed
        assert "warning: there is no secret key" in printed
    (tmp_path / "wfcore.toml").write_text(f'blobs = "attachments"\nsecret_key = "{"A" * 43}"\n')
    with serving(tmp_path, "--database", url, "--config", "wfcore.toml") as (server, address):
        stored = httpx.post(f"{address}/agent/v1/uploads", content=b"text", headers=headers, timeout=HANG)
        assert stored.status_code == 201
        sealed = httpx.post(f"{address}/api/v1/connections", json=API_KEY, headers=headers, timeout=HANG)
        assert sealed.status_code == 201
        assert ended_by(server, signal.SIGTERM) == ""


def test_a_worker_has_no_place_for_attachments_and_keys(tmp_path: Path) -> None:
    """It warns as a server does: runs whose calls need a secret would wait for it."""
    url = without_schema()
    with working(tmp_path, "--database", url) as worker:
        printed = ended_by(worker, signal.SIGTERM)
    assert "warning: there is no directory for attachments" in printed
    assert "warning: there is no secret key" in printed
    (tmp_path / "wfcore.toml").write_text(f'blobs = "attachments"\nsecret_key = "{"A" * 43}"\n')
    with working(tmp_path, "--database", url, "--config", "wfcore.toml") as worker:
        assert ended_by(worker, signal.SIGTERM) == ""


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_request_that_waits_longer_than_the_shutdown_gets_an_error(tmp_path: Path, method: str) -> None:
    """It waits for a lock of the database: it gets a 503 in the error envelope, on a connection that ends, and stderr
    has no traceback of it."""
    url = without_schema()
    with serving(tmp_path, "--database", url) as (server, address), ThreadPoolExecutor() as pool:
        headers = {"Authorization": f"Bearer {asyncio.run(token_in(url))}"}
        with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as watch:
            holder.execute("LOCK TABLE wfcore.tokens")  # only requests read it
            sent = pool.submit(httpx.request, method, f"{address}/api/v1/workflows", headers=headers, timeout=HANG)
            while watch.execute(WAITS).fetchone() is None:
                time.sleep(0.01)
            ending = pool.submit(ended_by, server, signal.SIGTERM)
            response = sent.result()
        printed = ending.result()
    assert (response.status_code, response.headers["Connection"], response.headers["Retry-After"]) == (
        503,
        "close",
        "1",
    )
    assert ("the server is shutting down: send the request again" in response.text) is (method == "GET")
    assert "Exception in ASGI application" not in printed
