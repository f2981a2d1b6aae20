"""Rows on imports: the cost of `import wfcore`."""

import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from benchmarks.scale import Scale
from benchmarks.table import Figure

CLOCK = "import time; t = time.process_time(); import {module}; print(time.process_time() - t)"


def imports(scale: Scale) -> Iterator[Figure]:
    """CPU time of an import statement in a new interpreter, in seconds."""
    wfcore, starlette, opened = (
        _median(name, scale) for name in ("wfcore", "starlette.applications", "wfcore.bootstrap")
    )
    yield Figure("import wfcore", "time to Starlette's", wfcore / starlette, "",
                 f"{starlette * 1e3:.0f} ms", f"{wfcore * 1e3:.0f} ms", at_most=1.0)  # fmt: skip
    yield Figure("", "with wfcore.open looked up", opened * 1e3, "ms")


def _median(module: str, scale: Scale) -> float:
    return median(_seconds(module) for _ in range(scale.rounds))


def _seconds(module: str) -> float:
    code = CLOCK.format(module=module)
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
