"""`wfcore openapi`: the OpenAPI document of both APIs."""

from wfcore.cli.common import IN_MEMORY, Config, Flag, UnusedDatabase, open_core, print_result


async def openapi(*, typescript: Flag = False, database: UnusedDatabase = IN_MEMORY, config: Config = None) -> None:
    """Print the OpenAPI 3.1 document, which a server also serves at /openapi.json.

    Parameters
    ----------
    typescript
        Print a client in TypeScript instead: types and methods of all operations, without dependencies.
    """
    from wfcore.adapters.http.openapi.document import document
    from wfcore.adapters.http.route_table import route_table

    async with open_core(IN_MEMORY, config) as core:
        described = document(route_table(core))
    if not typescript:
        print_result(described)
        return
    from wfcore.adapters.http.openapi import typescript as client

    print(client.typescript(described), end="")  # noqa: T201
