"""Runs the tests again and again beside busy processes. A test that fails there rests on how fast the machine is."""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

SPIN = "while True: pass"


@contextmanager
def load(processes: int) -> Iterator[None]:
    """So many processes that never wait, while the block runs."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
        for each in spinning:
            each.wait()


def run(tests: Sequence[str], workers: int) -> tuple[int, str]:
    """The exit status of pytest, and its output."""
    command = [sys.executable, "-m", "pytest", "-n", str(workers), "--dist", "loadfile", *tests]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--load", type=int, default=16, help="busy processes beside those of the tests")
    parser.add_argument("tests", nargs="*", help="all tests without")
    given = parser.parse_args()
    failed = 0
    for number in range(1, given.runs + 1):
        started = time.monotonic()
        with load(given.load):
            status, output = run(given.tests, 2 * (os.cpu_count() or 1))
        failed += status != 0
        print(f"run {number}: {output.strip().splitlines()[-1]}, {time.monotonic() - started:.0f} s", flush=True)
        for test in re.findall(r"^(?:FAILED|ERROR) .*$", output, re.MULTILINE):
            print(f"  {test}", flush=True)
    print(f"{given.runs - failed} of {given.runs} runs passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
