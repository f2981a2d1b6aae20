"""Freeze a journal of each scenario, through the real runtime: a file that is there already is never written again.

Usage: python tests/replays/record.py [--into FOLDER] [NAME...]

Clock and ids count, so that the same scenario of the same release gives the same file. The files of a release that was
tagged are never removed: what fails on them is fixed in the program, or lifted (`wfcore.domain.run.versions`). Before
that, a change of what clients are shown is frozen anew: remove the file, and record it.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1]
    sys.path += [str(tests / "unit" / "runtime" / "support"), str(tests)]  # where the tests keep their modules
    from recorder import main

    sys.exit(main())
