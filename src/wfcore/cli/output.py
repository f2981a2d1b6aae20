"""Lists and records on stdout: tables for people, JSON for programs."""

import sys
from collections.abc import Mapping, Sequence

from wfcore.cli.common import print_result
from wfcore.cli.plain import plain
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_type import JSON


def print_rows(rows: Sequence[Mapping[str, JSON]], columns: Mapping[str, str], *, as_json: bool) -> None:
    """Print a list. `columns` names the heading of each key; a key with dots names a nested value.

    JSON is one array of the whole rows. A table is as wide as the terminal, and is not cut when stdout is a file.
    """
    if as_json:
        print_result(list(rows))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in columns.values():
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row, key) for key in columns))
    Console(width=None if sys.stdout.isatty() else 10_000, highlight=False, markup=False, emoji=False).print(table)


def _cell(row: Mapping[str, JSON], key: str) -> str:
    value: JSON = row
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return plain(shown(value))


def shown(value: JSON) -> str:
    """The value as people read it: text as it is, nothing for null, other values as JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case list() if all(isinstance(each, str) for each in value):
            return ", ".join(map(str, value))
    return dumps(value)
