"""A process that has imported everything and forks the processes of the crash tests: it spares them that.

It runs as a program of its own, without threads and event loop, so that a fork is safe. A line of JSON on standard
input asks for a life and is answered with its process number; `{"wait": pid}` with how it ended (negative: by which
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

from scenes import spec


class Zygote:
    """The tests' end of it."""

    def __init__(self, *urls: str) -> None:
        """`urls`: empty databases to warm up on, beside a file."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, *urls], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, spec: dict[str, Any]) -> int:
        """The process number of a new life."""
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
        self._process.wait(10)

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def _serve() -> None:
    import lives
    import storm  # noqa: F401  (it has lives of its own)

    _warm_up(lives.run)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if not answer:
                _live(lives.run, request)
        print(answer, flush=True)


def _warm_up(run: Any) -> None:
    """Live once, so that all that is imported, compiled and kept on the way is there for every child."""
    with tempfile.TemporaryDirectory() as place:
        for url in (f"sqlite:///{place}/wfcore.db", *sys.argv[1:]):
            run(spec(Path(place), url, "seed", "zygote"))
            for scene in ("demo", "talk", "webhook"):
                run(spec(Path(place), url, "play", "zygote", scene=scene, key=scene))
    gc.collect()
    deadline = time.monotonic() + 30
    while threading.active_count() > 1:  # a fork is safe when no other thread holds anything
        assert time.monotonic() < deadline, f"threads that do not end: {threading.enumerate()}"
        time.sleep(0.001)  # threads that end by themselves give no sign to wait for
    gc.freeze()


def _live(run: Any, request: dict[str, Any]) -> None:
    """In the child: it never returns to the loop that answers."""
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
