"""A process that has imported all modules and forks the processes of the crash tests, which start faster that way.

It runs as a separate program, without threads and event loop, so that a fork is safe. A line of JSON on standard input
starts a process; the response is its process number. The response to `{"wait": pid}` is its exit status (negative: the
signal).
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from scenarios import spec
from waiting import HANG


class ForkServer:
    """The client of the fork server."""

    def __init__(self, *urls: str) -> None:
        """`urls`: empty databases for the warm-up, beside a file."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, *urls],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, spec: dict[str, Any]) -> int:
        """Start a process; returns its process number."""
        return self._ask(spec)

    def wait(self, pid: int) -> int:
        return self._ask({"wait": pid})

    def run(self, spec: dict[str, Any]) -> int:
        return self.wait(self.start(spec))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(HANG)

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def _serve() -> None:
    import histories  # noqa: F401  (it adds a role)
    import process_roles
    import random_kills  # noqa: F401  (it adds roles)
    import repair_roles  # noqa: F401  (it adds roles)

    import wfcore.adapters.dispatch.temporal.dispatcher  # noqa: F401  (that takes long)

    _warm_up(process_roles.run)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if not answer:
                _run_child(process_roles.run, request)
        print(answer, flush=True)


def _warm_up(run: Any) -> None:
    """Run every role once, so that all imports, compiled code and caches exist in every child."""
    with tempfile.TemporaryDirectory() as place:
        for url in (f"sqlite:///{place}/wfcore.db", *sys.argv[1:]):
            run(spec(Path(place), url, "seed", "fork_server"))
            for scenario in ("demo", "talk", "webhook"):
                run(spec(Path(place), url, "play", "fork_server", scenario=scenario, key=scenario))
    gc.collect()
    deadline = time.monotonic() + HANG
    while threading.active_count() > 1:  # a fork is safe when no other thread holds anything
        assert time.monotonic() < deadline, f"threads that do not end: {threading.enumerate()}"
        time.sleep(0.001)  # threads that end by themselves give no sign to wait for
    gc.freeze()


def _run_child(run: Any, request: dict[str, Any]) -> None:
    """Run a role in the child process, and exit. This function does not return."""
    status = 1
    try:
        output = os.open(request["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        run(request)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
