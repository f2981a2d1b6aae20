"""`wfcore serve` as an operator runs it: metrics, limits and logs, by its options and its environment."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from waiting import HANG

import wfcore


async def token_in(database: str) -> str:
    async with wfcore.open(database, worker=False) as core:
        org = await core.directory.create_organization("Acme")
        await core.directory.add_member(org.uuid, "u1", "a@x.org")
        return await core.directory.create_token(org.uuid, "u1", scopes=["workflows:read"])


def test_a_server_that_is_watched(tmp_path: Path) -> None:
    """Metrics require their token; the environment sets the limit of requests; stderr has one JSON object per line,
    including one for each request; stdout has none of it."""
    configured = {"WFCORE_LIMITS_REQUESTS_PER_MINUTE": "2", "WFCORE_TELEMETRY_METRICS_TOKEN": "scrape"}
    env = {name: value for name, value in os.environ.items() if not name.startswith("WFCORE_")} | configured
    token = asyncio.run(token_in(f"sqlite:///{tmp_path}/wfcore.db"))
    command = [sys.executable, "-m", "wfcore", "serve", "--port", "0", "--log-format", "json", "--log-level", "info"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().removeprefix("listening on ").strip()
            with httpx.Client(base_url=url, trust_env=False, timeout=HANG) as client:
                mine = {"Authorization": f"Bearer {token}", "X-Request-Id": "req-1"}
                statuses = [client.get("/api/v1/me", headers=mine).status_code for _ in range(3)]
                refused = client.get("/metrics")
                scraped = client.get("/metrics", headers={"Authorization": "Bearer scrape"})
            server.send_signal(signal.SIGTERM)
            out, err = server.communicate(timeout=HANG)
        finally:
            server.kill()
    assert (statuses, refused.status_code, scraped.status_code) == ([200, 200, 429], 401, 200)
    assert 'wfcore_http_requests_total{method="GET",route="/api/v1/me",status="429"} 1.0' in scraped.text
    assert (server.returncode, out) == (0, "")
    lines = [json.loads(line) for line in err.splitlines()]
    own_lines = [line for line in lines if line["logger"] == "wfcore.access" and line["request_id"] == "req-1"]
    assert [(line["status"], line["user_id"]) for line in own_lines] == [(200, "u1"), (200, "u1"), (429, "u1")]
    assert token not in err
