"""The entry point of the command."""

import subprocess
import sys

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
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "error: interrupted\n")
