"""`wfcore dev` as a real process: a demo organization, and a link that signs in."""

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from commands import WFCORE, ended_by, environment
from waiting import HANG

POLL = {"Accept": "application/json", "Sec-Fetch-Site": "same-origin"}


@contextmanager
def developing(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process, its address and the link that it prints."""
    with subprocess.Popen(
        [*WFCORE, "dev", "--port", "0"],
        cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout is not None
            found = re.fullmatch(r"listening on (http://127\.0\.0\.1:[0-9]+)\n", server.stdout.readline(), re.ASCII)
            assert found, server.communicate()[1]
            link = re.fullmatch(r"studio, signed in as `demo`: (http://\S+)\n", server.stdout.readline(), re.ASCII)
            assert link
            yield server, found[1], link[1]
        finally:
            server.kill()


def test_two_starts(tmp_path: Path) -> None:
    """The first one makes the demo, the second one finds it as it is; only the link of the process signs in."""
    with developing(tmp_path) as (server, url, link), httpx.Client(base_url=url, headers=POLL, timeout=HANG) as client:
        assert link.startswith(f"{url}/dev/")
        assert client.get("/api/v1/me").status_code == 401
        assert client.get(f"{link}x").status_code == 404
        assert client.get("/dev/").status_code == 404
        entered = client.get(link)
        assert (entered.status_code, entered.headers["Location"]) == (303, "/studio/")
        cookie = entered.headers["Set-Cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        me = client.get("/api/v1/me").json()
        assert (me["userId"], me["role"]) == ("demo", "owner")
        runs = client.get("/agent/v1/runs", params={"pageSize": "100"}).json()["runs"]
        assert Counter(run["status"] for run in runs) == {"done": 5, "interrupted": 2, "error": 1}
        assert client.get("/api/v1/me/inbox/count").json() == {"count": 2}
        home = client.get("/", headers={"Accept": "text/html"})
        assert (home.status_code, home.headers["Location"]) == (307, "/studio/")
        assert client.post("/api/v1/workflows/1/deploy", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert client.get("/api/v1/me", headers={"Host": "evil.example"}).status_code == 400
        assert client.patch("/api/v1/workflows/1", json={"name": "Mine"}).status_code == 200
        ended_by(server, signal.SIGTERM)
    with developing(tmp_path) as (server, url, again), httpx.Client(base_url=url, headers=POLL, timeout=HANG) as client:
        assert again.rpartition("/")[2] != link.rpartition("/")[2]
        assert client.get(f"{url}/dev/{link.rpartition('/')[2]}").status_code == 404
        client.get(again)
        assert len(client.get("/agent/v1/runs", params={"pageSize": "100"}).json()["runs"]) == 8
        assert [one["name"] for one in client.get("/api/v1/workflows").json()["workflows"]] == [
            "Mine", "Refunds", "Stock",
        ]  # fmt: skip
        ended_by(server, signal.SIGTERM)
