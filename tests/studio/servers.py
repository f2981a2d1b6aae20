"""Real servers for the browser: `wfcore serve` in a process of its own, which tests can kill and start again."""

import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import attrs
import httpx
from waiting import HANG, PATIENCE

ORG = "01941f29-7c00-7000-8000-000000000001"


def wfcore(*arguments: str) -> str:
    """The output of a command. Raises CalledProcessError."""
    command = [sys.executable, "-m", "wfcore", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@attrs.define
class Server:
    """One `wfcore serve` on a SQLite file, with one organization."""

    folder: Path
    port: int = 0
    process: "subprocess.Popen[str] | None" = None
    token: str = ""
    tools: str | None = None
    """Python tools, as MODULE:NAME or FILE.py:NAME."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> str:
        return f"sqlite:///{self.folder}/wfcore.db"

    def create(self, *, user: str = "ada", name: str = "Ada Lovelace") -> None:
        wfcore("org", "create", "Acme", "--id", ORG, "--database", self.database)
        member = ("--user-id", user, "--email", f"{user}@acme.test", "--name", name, "--role", "owner")
        wfcore("member", "add", "--org", ORG, *member, "--database", self.database)
        self.token = wfcore(
            "token", "create", "--org", ORG, "--user-id", user, "--all-scopes", "--database", self.database
        )

    def start(self) -> None:
        """Start on the port of before, if there was one; returns when it accepts requests."""
        command = [sys.executable, "-m", "wfcore", "serve", "--port", str(self.port), "--database", self.database]
        command += ["--tools", self.tools] if self.tools else []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
        assert self.process.stdout is not None
        line = first_line(self.process.stdout)
        assert "listening on" in line, line
        self.port = int(line.rsplit(":", 1)[1])

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=HANG, trust_env=False)


def first_line(stream: IO[str]) -> str:
    """The first line that a process prints."""
    found: queue.Queue[str] = queue.Queue()
    threading.Thread(target=lambda: found.put(stream.readline()), daemon=True).start()
    try:
        return found.get(timeout=HANG)
    except queue.Empty:
        return "nothing within the time"


def eventually(check: "object", seconds: float = PATIENCE) -> None:
    """Call until it returns a true value.

    It also waits for a condition of a page: `page.wait_for_function` evaluates its text in the page, and the policy of
    the page refuses that unless the condition holds at once.
    """
    until = time.monotonic() + seconds
    while not check():  # type: ignore[operator]
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)  # the server and the browser are other processes, on the real clock
