"""The commands of the command line as Markdown: what they do, an example, and their options."""

import shlex
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from wfcore.cli.main import app

ORG = "$ORG"
HERE = f"--org {ORG} --user-id ann"
EXAMPLES = {
    "answer": f'order-4711 approve --data \'{{"note": "sorry"}}\' {HERE}',
    "audit": f"--action workflow.deploy --limit 10 {HERE}",
    "chat": f"--skill 3 {HERE}",
    "db check": "--deep --database sqlite:///app.db",
    "db upgrade": "--database postgresql://wfcore@db.example.com/wfcore",
    "dev": "--open",
    "eval": "support.yaml --junit report.xml",
    "graph": "refund.yaml --svg",
    "group create": f"--org {ORG} Managers",
    "inbox": f"--workflow refunds {HERE}",
    "member add": f"--org {ORG} --user-id ann --email ann@acme.example --role owner",
    "org limit": f"{ORG} 20",
    "org create": "Acme",
    "policy apply": f"approvals.yaml {HERE}",
    "run": "refund.yaml --input '{\"order\": 7}'",
    "run fork": f"order-4711 --before review --input '{{\"order\": 8}}' {HERE}",
    "run list": f"--status error --since 2026-01-01T00:00:00Z {HERE}",
    "run retry": f"order-4711 --version published --skip notify {HERE}",
    "run retry-all": f"--workflow refunds --since 2026-01-01T00:00:00Z --preview {HERE}",
    "run start": f"refunds --input '{{\"order\": 7}}' --key order-4711 --follow {HERE}",
    "serve": "--port 8080 --database sqlite:///app.db --tools shop.py:TOOLS",
    "simulate": "refund.yaml --rule 'never pay without approved ask'",
    "skill rollback": f"3 01941f29-7c00-7000-8000-000000000001 {HERE}",
    "token create": f"--org {ORG} --user-id ann --scope workflows:read --expires-in 86400",
    "usage": f"--group-by model {HERE}",
    "skill restore": f"3 {HERE}",
    "worker": "--database postgresql://wfcore@db.example.com/wfcore --tools shop.py:TOOLS",
    "workflow restore": f"1 {HERE}",
    "workflow rollback": f"refunds 01941f29-7c00-7000-8000-000000000001 {HERE}",
}
"""What stands behind a command in its example. Others have values for their positional arguments."""
VALUES = {
    "FILE": "refund.yaml",
    "FOLDER": "/backups/2026-01-02",
    "REFERENCE": "refunds",
    "RUN_ID": "order-4711",
    "ID": "01941f29-7c00-7000-8000-000000000002",
    "SOURCE": "sqlite:///wfcore.db",
    "TARGET": "postgresql://wfcore@db.example.com/wfcore",
}


def commands() -> Iterator[tuple[str, Any]]:
    """Each command that does something, by its name, in the order of the help."""
    yield from _below(app, ())


def _below(area: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name in area:
        if not name.startswith("-"):
            found = area[name]
            if found.default_command is not None:
                yield " ".join((*path, name)), found
            yield from _below(found, (*path, name))


def example(name: str, command: Any) -> str:
    """A command line that shows the command."""
    if name in EXAMPLES:
        return f"wfcore {name} {EXAMPLES[name]}".strip()
    found = _arguments(command)
    words = [_value(name, argument) for argument in found if not argument.name.startswith("-")]
    required = [
        f"{argument.name} {_value(name, argument)}"
        for argument in found
        if argument.required and argument.name.startswith("-")
    ]
    needs = HERE if "--org" in {argument.name for argument in found} and not required else ""
    return " ".join(part for part in ("wfcore", name, *words, *required, needs) if part)


def _value(name: str, argument: Any) -> str:
    """A value of an argument: a known one, the first choice, a number, or its name."""
    if name.startswith("skill") and argument.name == "REFERENCE":
        return "support"
    choices = get_args(argument.hint) if get_origin(argument.hint) is Literal else ()
    other = "1" if argument.hint is int else argument.name.strip("-").upper()
    return VALUES.get(argument.name, str(choices[0]) if choices else other)


def _arguments(command: Any) -> list[Any]:
    return [argument for argument in command.assemble_argument_collection(parse_docstring=True) if argument.show]


def markdown() -> str:
    """Every command."""
    return "\n".join(_command(name, found) for name, found in commands())


def _command(name: str, command: Any) -> str:
    rows = [_row(argument) for argument in _arguments(command)]
    table = ["| Argument | | Default |", "|---|---|---|", *rows] if rows else []
    parts = [f"## wfcore {name}", (command.help or "").strip(), "\n".join(table)]
    return "\n\n".join([*(part for part in parts if part), f"```shell\n{example(name, command)}\n```"]) + "\n"


def _row(argument: Any) -> str:
    text = " ".join((argument.parameter.help or "").split()).replace("|", "\\|")
    value = argument.field_info.default
    empty = argument.required or value in (None, False, [], ()) or not isinstance(value, str | int | float)
    shown = "" if empty else f"`{value}`"
    names = ", ".join(f"`{name}`" for name in argument.names)
    return f"| {names} | {'required; ' if argument.required else ''}{text} | {shown} |"


def words(line: str) -> list[str]:
    """The arguments of an example, as a shell passes them."""
    return shlex.split(line)[1:]
