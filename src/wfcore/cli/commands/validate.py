"""`wfcore validate`: every issue of a workflow file."""

from typing import TYPE_CHECKING

from wfcore.cli.common import (
    IN_MEMORY,
    Config,
    Tools,
    UnusedDatabase,
    local_principal,
    open_core,
    print_message,
    print_result,
)
from wfcore.cli.files import load_tools, located, read_workflow, tool_hints

if TYPE_CHECKING:
    from wfcore.domain.kernel.json_type import JSON


async def validate(
    file: str,
    /,
    *,
    tools: Tools = [],  # noqa: B006  (never changed)
    database: UnusedDatabase = IN_MEMORY,
    config: Config = None,
) -> int:
    """Check a workflow file; prints its issues with their lines as JSON, and fails when one of them is an error.

    Parameters
    ----------
    file
        YAML or JSON with the fields of the create body.
    """
    issues = located(file, await _issues(file, tools, config))
    print_result({"issues": issues})
    for line in tool_hints(str(issue["message"]) for issue in issues):
        print_message(line)
    return int(any(issue["severity"] == "error" for issue in issues))


async def _issues(file: str, tools: list[str], config: str | None) -> "list[dict[str, JSON]]":
    from wfcore.domain.kernel.errors import Malformed
    from wfcore.domain.kernel.json_readers import as_objects

    try:
        body = read_workflow(file)
    except Malformed as error:
        return [{**issue, "severity": "error"} for issue in as_objects(error.info["errors"])]
    async with open_core(IN_MEMORY, config, tools=load_tools(tools)) as core:
        found = await core.workflows.validate(await local_principal(core), body)
    return [{**issue.to_wire(), "severity": issue.severity} for issue in found]
