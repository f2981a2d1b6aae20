"""The command line as real processes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from waiting import HANG

WFCORE = [sys.executable, "-m", "wfcore"]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WFCORE_")}


def wfcore(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [*WFCORE, *arguments],
        cwd=folder,
        env={**environment(), **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended


def answered(folder: Path, *arguments: str) -> Any:
    ended = wfcore(folder, *arguments)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def workflow(folder: Path, *nodes: Mapping[str, Any], name: str = "refunds.json") -> str:
    """A file with a chain of nodes after a start that requires a number `n`."""
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    chain = [{"id": "start", "type": "start", "data": {"inputSchema": schema}}, *nodes]
    edges = [
        {"id": f"e{number}", "source": a["id"], "target": b["id"]}
        | ({"sourceHandle": "approved"} if a["type"] == "humanApproval" else {})
        for number, (a, b) in enumerate(pairwise(chain))
    ]
    (folder / name).write_text(json.dumps({"workflowStructure": {"nodes": chain, "edges": edges}}))
    return name


def action(tool: str, **params: Any) -> dict[str, Any]:
    return {"id": "act", "type": "action", "data": {"toolId": tool, "params": params}}


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on a free port, and its address."""
    command = [*WFCORE, "serve", "--port", "0", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.fullmatch(r"listening on (http://127\.0\.0\.1:[0-9]+)\n", line, re.ASCII)
            assert found is not None, line
            yield server, found[1]
        finally:
            server.kill()


@contextmanager
def working(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A worker that is ready."""
    command = [*WFCORE, "worker", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "working\n"
            yield worker
        finally:
            worker.kill()


def ended_by(server: subprocess.Popen[str], sent: signal.Signals) -> str:
    """Send the signal; return stderr of the server. It must end by itself, with status 0 and no further output."""
    server.send_signal(sent)
    out, err = server.communicate(timeout=HANG)
    assert server.returncode == 0, err
    assert out == ""
    assert "Traceback" not in err
    return err
