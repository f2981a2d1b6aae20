"""What the rows of a database need beside it: attachments, and the keys with which secrets were encrypted."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import sqlalchemy as sa

from wfcore.adapters.sql.schema.statement import own_name
from wfcore.adapters.sql.schema.tables import executions, journal, metadata, organizations
from wfcore.adapters.sql.transfer.databases import TABLES, Address, CopySource, Row, opened
from wfcore.domain.kernel.errors import Unavailable

_SEALED: Final = [table for table in TABLES if "sealed" in table.columns]
"""The tables with secrets."""
_KEY_ID: Final = re.compile(r"\b1\.([0-9a-f]{16})\.", re.ASCII)
"""The key id in a sealed text (`wfcore.adapters.sealing`)."""

_PARENTS: Final[Mapping[sa.Table, tuple[str, sa.Table, str]]] = {
    journal: ("execution", executions, "id"),
    metadata.tables["wfcore_messages"]: ("conversation", metadata.tables["wfcore_conversations"], "key"),
}
"""Tables whose rows belong to the organization of a row elsewhere: the column that names it, its table and key."""
READING_ORDER: Final[Sequence[sa.Table]] = sorted(TABLES, key=lambda table: table not in _PARENTS)
"""Every table, the parents of others after these."""
_ATTACHMENT: Final = re.compile(r'torageKey\\*": ?\\*"([0-9a-f]{64}\.[a-z]+)', re.ASCII)
"""The key of an attachment in JSON, and in JSON that is a text of other JSON (`wfcore.domain.agents.attachments`)."""


@attrs.frozen
class StoredSecret:
    """A secret in a row, and the id of the key that encrypted it. `name` says whose it is."""

    name: str
    key_id: str


@attrs.frozen(order=True)
class AttachmentName:
    """The key of an attachment, and the organization that has it."""

    org: str
    key: str

    def __str__(self) -> str:
        return f"attachment `{self.key}` of organization `{self.org}`"


class Contents:
    """Collects what rows need. The rows must be given by table, in `READING_ORDER`."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._attachments = set[tuple[int, str]]()
        self._of_children: dict[tuple[sa.Table, int], set[str]] = defaultdict(set)
        self._secrets: dict[tuple[int, str, str], None] = {}

    def attachments(self) -> list[AttachmentName]:
        """Those that rows name, of organizations whose rows can be read."""
        return sorted(AttachmentName(self._names[org], key) for org, key in self._attachments if org in self._names)

    def secrets(self) -> list[StoredSecret]:
        return [
            StoredSecret(f"{name} of organization `{self._name(org)}`", key_id) for org, name, key_id in self._secrets
        ]

    def reader(self, table: sa.Table) -> Callable[[Row], None]:
        """A function that takes each row of this table."""
        names = table.columns.keys()
        texts = [index for index, column in enumerate(table.columns) if isinstance(column.type, sa.Text)]

        def read(row: Row) -> None:
            values = dict(zip(names, row, strict=True))
            if table is organizations:
                self._names[values["key"]] = values["uuid"]
            if table in _SEALED:
                self._read_secrets(table, values)
            self._read_attachments(table, values, {key for index in texts for key in _keys(row[index])})

        return read

    def _read_secrets(self, table: sa.Table, values: Mapping[str, Any]) -> None:
        kind = own_name(table).removesuffix("s").replace("_", " ")
        number = values["id"] if "id" in values else values["workflow_id"]
        texts = [values["sealed"], values.get("client")]
        if values.get("former_until", 0) > time.time() * 1_000:  # else the earlier secrets of the hook sign no more
            texts.append(values["former"])
        for key_id in _KEY_ID.findall(" ".join(map(str, texts))):
            self._secrets[values["org"], f"{kind} `{number}`", key_id] = None

    def _read_attachments(self, table: sa.Table, values: Mapping[str, Any], keys: set[str]) -> None:
        for child, (column, parent, key) in _PARENTS.items():
            if table is child and keys:
                self._of_children[parent, values[column]] |= keys
                return
            if table is parent:
                keys |= self._of_children.pop((parent, values[key]), set())
        if "org" in values:
            self._attachments.update((values["org"], key) for key in keys)

    def _name(self, org: int) -> str:
        return self._names.get(org, str(org))


def _keys(text: Any) -> Iterable[str]:
    """The keys in a text; SQLite can have other values in its place."""
    return _ATTACHMENT.findall(text) if isinstance(text, str) and "torageKey" in text else ()


def contents_of(source: CopySource) -> Contents:
    """What all rows need."""
    found = Contents()
    for table in READING_ORDER:
        read = found.reader(table)
        for row in source.rows(table):
            read(row)
    return found


def read_all(address: Address, on_progress: Callable[[int, int], None]) -> tuple[Contents, list[str]]:
    """Read every row of every table. What the rows need, and a line for each table that cannot be read wholly.

    `on_progress` is called with how many tables were read, and how many there are.
    """
    found, faults = Contents(), list[str]()
    for done, table in enumerate(READING_ORDER, 1):
        try:
            with opened(address, begin="DEFERRED") as source:
                read = found.reader(table)
                for row in source.rows(table):
                    read(row)
        except Unavailable as error:
            faults.append(f"table `{own_name(table)}` cannot be read: {error.message}")
        on_progress(done, len(READING_ORDER))
    return found, [*_file_faults(address), *faults]


def _file_faults(address: Address) -> list[str]:
    """What SQLite finds wrong with the structure of its file; nothing for a server."""
    if address.file is None:
        return []
    try:
        with opened(address, begin="DEFERRED") as source:
            driver: Any = source.connection.connection.driver_connection
            rows = driver.execute("PRAGMA integrity_check").fetchall()
    except Unavailable as error:
        return [error.message]
    return [f"the database file is damaged: {line}" for (text,) in rows if text != "ok" for line in text.splitlines()]
