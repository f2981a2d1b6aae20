"""The entry point of the command."""

import subprocess
import sys

from waiting import HANG

INTERRUPTED = """
import sys
from wfcore.cli.launch import main

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "cyclopts":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Slow())
sys.exit(main(["--version"]))
"""


def test_an_interruption_while_it_starts() -> None:
    """Ctrl-C during the imports ends the command as later: a line on stderr, and the exit status 130."""
    ended = started(INTERRUPTED)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "error: interrupted\n")


IN_A_CALLBACK = """
import asyncio, signal, sys, weakref
import wfcore.cli.main
from wfcore.cli.launch import main

class Freed: ...

async def work() -> None:
    freed = Freed()
    handle = weakref.ref(freed, lambda _: signal.default_int_handler(signal.SIGINT, None))
    del freed
    print("goes on")
    await asyncio.Event().wait()

def command(arguments: object, **options: object) -> None:
    if arguments == ["before the loop"]:
        freed = Freed()
        handle = weakref.ref(freed, lambda _: signal.default_int_handler(signal.SIGINT, None))
        del freed
    else:
        asyncio.run(work())

wfcore.cli.main.app = command
sys.exit(main(sys.argv[1:]))
"""


def test_an_interruption_in_a_callback_that_cannot_raise() -> None:
    """Python drops the exception of such a callback; the loop raises it again, and the command ends."""
    ended = started(IN_A_CALLBACK)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "goes on\n", "error: interrupted\n")


def test_an_exception_in_a_callback_without_a_loop_is_shown() -> None:
    """As Python does, which is all that can be done."""
    ended = started(IN_A_CALLBACK, "before the loop")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.startswith("Exception ignored in: ")
    assert ended.stderr.endswith("KeyboardInterrupt: \n")


def started(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The end of the program."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)
