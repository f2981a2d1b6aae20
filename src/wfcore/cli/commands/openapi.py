"""`wfcore openapi`: the OpenAPI document of both APIs."""

from wfcore.cli.common import IN_MEMORY, Config, UnusedDatabase, open_core, print_result


async def openapi(*, database: UnusedDatabase = IN_MEMORY, config: Config = None) -> None:
    """Print the OpenAPI 3.1 document, which a server also serves at /openapi.json."""
    from wfcore.adapters.http.openapi.document import document
    from wfcore.adapters.http.route_table import route_table

    async with open_core(IN_MEMORY, config) as core:
        print_result(document(route_table(core)))
