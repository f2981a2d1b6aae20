"""Regenerate the generated parts of the documentation."""

import asyncio
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # as the `pythonpath` of pytest
sys.path.append(str(Path(__file__).with_name("documentation")))

from test_docs import ROOT, _with_generated, machine_diagrams, routes_table

from wfcore.domain.resources.lifecycle import diagram

if __name__ == "__main__":
    pages = {
        "docs/explanation/concepts.md": diagram(),
        "docs/reference/http.md": asyncio.run(routes_table()),
        "docs/explanation/machine.md": machine_diagrams(),
    }
    for page, table in pages.items():
        (ROOT / page).write_text(_with_generated(page, table)[1])
