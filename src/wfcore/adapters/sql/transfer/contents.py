"""What the rows of a database need beside it: the keys with which secrets were encrypted."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import sqlalchemy as sa

from wfcore.adapters.sql.schema.statement import own_name
from wfcore.adapters.sql.schema.tables import organizations
from wfcore.adapters.sql.transfer.databases import TABLES, CopySource

_SEALED: Final = [table for table in TABLES if "sealed" in table.columns]
"""The tables with secrets."""
_KEY_ID: Final = re.compile(r"\b1\.([0-9a-f]{16})\.", re.ASCII)
"""The key id in a sealed text (`wfcore.adapters.sealing`)."""


@attrs.frozen
class StoredSecret:
    """A secret in a row, and the id of the key that encrypted it. `name` says whose it is."""

    name: str
    key_id: str


def stored_secrets(source: CopySource) -> Iterator[StoredSecret]:
    """Every encrypted secret."""
    names = organization_names(source)
    for table in _SEALED:
        for row in source.rows(table):
            values = dict(zip(table.columns.keys(), row, strict=True))
            name = f"{_kind_of(table)} `{_id_of(values)}` of organization `{names.get(values['org'])}`"
            for key_id in _KEY_ID.findall(f"{values['sealed']} {values.get('client')}"):
                yield StoredSecret(name, key_id)


def organization_names(source: CopySource) -> Mapping[int, str]:
    """The ids of organizations by the keys that rows have."""
    key, uuid = (list(organizations.columns).index(column) for column in (organizations.c.key, organizations.c.uuid))
    return {row[key]: row[uuid] for row in source.rows(organizations)}


def _kind_of(table: sa.Table) -> str:
    return own_name(table).removesuffix("s").replace("_", " ")


def _id_of(values: Mapping[str, Any]) -> Any:
    """The id of a row; a webhook has that of its workflow."""
    return values["id"] if "id" in values else values["workflow_id"]
