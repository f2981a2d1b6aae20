"""`wfcore graph`: a picture of a workflow file."""

from cyclopts import CycloptsError

from wfcore.cli.common import IN_MEMORY, Config, Flag, UnusedDatabase, print_message
from wfcore.cli.files import read_workflow, shown_issues


def graph(
    file: str,
    /,
    *,
    mermaid: Flag = False,
    svg: Flag = False,
    database: UnusedDatabase = IN_MEMORY,
    config: Config = None,
) -> int:
    """Draw a workflow file. Prints a flow chart in Mermaid, or with `--svg` a drawing in SVG.

    Fails when the graph cannot be stored; one that cannot be deployed yet is drawn.

    Parameters
    ----------
    file
        YAML or JSON with the fields of the create body, or a `Flow` at FILE.py:NAME.
    mermaid
        Print Mermaid, as by default.
    svg
        Print SVG.
    """
    from wfcore.domain.graph.flowchart import mermaid as as_mermaid
    from wfcore.domain.graph.rules import write_issues
    from wfcore.domain.graph.structure import parse_graph, selection_issues, structure_of_body
    from wfcore.flows.labels import label_of
    from wfcore.flows.svg import svg as as_svg
    from wfcore.settings.installation import load

    if svg and mermaid:
        raise CycloptsError(msg="use either --svg or --mermaid, not both")
    body = read_workflow(file)
    structure, limits = body.get("workflowStructure"), load(config).settings().graph
    issues = write_issues(structure, limits=limits) if structure is not None else []
    issues += selection_issues(body["agentSelection"]) if body.get("agentSelection") is not None else []
    for line in shown_issues(file, issues):
        print_message(line)
    if issues:
        return 1
    drawn = parse_graph(structure_of_body(body))
    print(as_svg(drawn) if svg else as_mermaid(drawn, label_of), end="")  # noqa: T201
    return 0
