"""Write the generated parts of the documentation anew."""

import asyncio

from test_docs import ROOT, _with_generated, routes_in_words

from wfcore.domain.resources.lifecycle import diagram

if __name__ == "__main__":
    for page, table in (("docs/concepts.md", diagram()), ("docs/http.md", asyncio.run(routes_in_words()))):
        (ROOT / page).write_text(_with_generated(page, table)[1])
