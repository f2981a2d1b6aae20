"""Parts of pages that the build generates from the code: `<!-- generated: NAME ARGUMENTS -->` stands for them."""

import re
from collections.abc import Callable, Mapping
from typing import Any

NOTE = "The site that `make docs` builds has the entries here; they are generated from the code.\n\n"
"""What stands on such a page for readers of the file; the site leaves it out."""
MARK = re.compile(r"^<!-- generated: (\w+)(?: (.*?))? -->$", re.MULTILINE)


def _makers() -> Mapping[str, Callable[..., str]]:
    from sphinx_parts import body_fields, commands, http_api, python_api, settings_tables, stream_events

    return {
        "commands": commands.markdown,
        "body_fields": body_fields.markdown,
        "events": stream_events.markdown,
        "members": python_api.members,
        "core": python_api.core,
        "operations": http_api.markdown,
        "settings": settings_tables.markdown,
    }


def expanded(text: str) -> str:
    """The text with what is generated in the place of each mark. Raises KeyError for an unknown one."""
    if not MARK.search(text):
        return text
    makers = _makers()
    return MARK.sub(lambda found: makers[found[1]](*(found[2] or "").split()), text.replace(NOTE, ""))


def read(app: Any, docname: str, source: list[str]) -> None:
    source[0] = expanded(source[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
