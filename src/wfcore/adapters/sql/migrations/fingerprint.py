"""What a schema looks like in a live database, and how it differs from that of this release.

The revision says which steps ran; the fingerprint says what is there. It is read in the same way from every database:
`schemas` holds what was read from one that the steps have made, a file a dialect. A test writes them anew.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA, PREFIX

Table = Mapping[str, Mapping[str, str]]
"""Of a table, its `columns`, `indexes` and `constraints`: the definition of each by its name, or by itself."""

Schema = Mapping[str, Table]
"""The tables by name."""

_PARTS: Final = {"columns": "column", "indexes": "index", "constraints": "constraint"}

_DESCENDING: Final = """
SELECT i.name, x.name FROM sqlite_master i JOIN pragma_index_xinfo(i.name) x
WHERE i.type = 'index' AND x.key AND x.desc"""


def released(dialect: str) -> Schema:
    """The schema of this release in a database of this kind: `sqlite` or `postgresql`."""
    found: Schema = json.loads((Path(__file__).with_name("schemas") / f"{dialect}.json").read_text())
    return found


def differences(connection: "sa.Connection", schema: str = DEFAULT_SCHEMA) -> list[str]:
    """How the database's schema differs from that of this release, one difference in words each; the tables of others
    are left aside. `schema` is that of the tables on PostgreSQL.
    """
    expected = released(connection.dialect.name)
    return list(_differences(expected, fingerprint(connection, expected, schema)))


def fingerprint(
    connection: "sa.Connection", tables: Collection[str], schema: str = DEFAULT_SCHEMA
) -> dict[str, dict[str, dict[str, str]]]:
    """Those of the tables that the database has, as they are there, by their names there: on PostgreSQL, those of the
    schema, without the prefix.
    """
    place = schema if connection.dialect.name == "postgresql" else None
    wanted = tables if place is None else {name.removeprefix(PREFIX) for name in tables}
    inspector = sa.inspect(connection)
    descending = _descending(connection)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for name in sorted(set(inspector.get_table_names(place)) & set(wanted)):
        indexes = (index for index in inspector.get_indexes(name, place) if not index.get("duplicates_constraint"))
        found[name] = {
            "columns": {
                column["name"]: _column(column, connection.dialect, place)
                for column in inspector.get_columns(name, place)
            },
            "indexes": {str(index["name"]): _index(index, descending) for index in indexes},
            "constraints": dict.fromkeys(sorted(_constraints(inspector, name, place)), ""),
        }
    return found


def _column(column: Mapping[str, Any], dialect: "sa.Dialect", schema: str | None) -> str:
    """The definition of a column. The server names a sequence with its schema, which can be any."""
    unknown = isinstance(column["type"], sa.types.NullType)
    kind = "of an unknown type" if unknown else column["type"].compile(dialect=dialect)
    default = "" if column["default"] is None else f" DEFAULT {column['default']}"
    default = default.replace(f'\'"{schema}".', "'").replace(f"'{schema}.", "'")
    return f"{kind}{'' if column['nullable'] else ' NOT NULL'}{default}"


def _index(index: Mapping[str, Any], descending: Collection[tuple[str, str]]) -> str:
    sorting, options = index.get("column_sorting", {}), index.get("dialect_options", {})
    names = index.get("expressions") or index["column_names"]
    columns = [f"{name} DESC" if "desc" in sorting.get(name, ()) or (index["name"], name) in descending else name
               for name in names]  # fmt: skip
    where = next((f" WHERE {text}" for key, text in options.items() if key.endswith("_where")), "")
    return f"{'UNIQUE ' if index['unique'] else ''}({', '.join(columns)}){where}"


def _descending(connection: "sa.Connection") -> Collection[tuple[str, str]]:
    """Index and column of what SQLite sorts downward: SQLAlchemy reads that of PostgreSQL only."""
    if connection.dialect.name != "sqlite":
        return ()
    return {(index, column) for index, column in connection.exec_driver_sql(_DESCENDING)}


def _constraints(inspector: "sa.Inspector", table: str, schema: str | None) -> Iterator[str]:
    """Without their names, which the server gives."""
    if key := inspector.get_pk_constraint(table, schema)["constrained_columns"]:
        yield f"PRIMARY KEY ({', '.join(key)})"
    for unique in inspector.get_unique_constraints(table, schema):
        yield f"UNIQUE ({', '.join(unique['column_names'])})"
    for foreign in inspector.get_foreign_keys(table, schema):
        other = f"{foreign['referred_table']} ({', '.join(foreign['referred_columns'])})"
        yield f"FOREIGN KEY ({', '.join(foreign['constrained_columns'])}) REFERENCES {other}"
    for check in inspector.get_check_constraints(table, schema):
        yield f"CHECK ({check['sqltext']})"


def _differences(expected: Schema, found: Schema) -> Iterator[str]:
    for table, parts in expected.items():
        if table not in found:
            yield f"missing table `{table}`"
            continue
        for part, singular in _PARTS.items():
            yield from _changes(f"{singular} `{{}}` of `{table}`", parts[part], found[table][part])


def _changes(place: str, expected: Mapping[str, str], found: Mapping[str, str]) -> Iterable[str]:
    for name in {**expected, **found}:
        if name not in found:
            yield f"missing {place.format(name)}"
        elif name not in expected:
            yield f"extra {place.format(name)}"
        elif found[name] != expected[name]:
            yield f"{place.format(name)} is `{found[name]}` instead of `{expected[name]}`"
