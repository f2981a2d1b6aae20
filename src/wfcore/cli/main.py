"""The commands, and what their ends mean: results on stdout, everything else on stderr, exit status 0, 1 or 2.

0: done. 1: it failed. 2: wrong usage, of the command line, the environment or the configuration file.
"""

import sys
from collections.abc import Sequence
from functools import partial

from cyclopts import App, CycloptsError

from wfcore.cli.options import fill


def _version() -> str:
    from importlib.metadata import version

    return version("wfcore")


app = App(
    name="wfcore",
    help="Workflows and agents. Every option can also stand in the environment, as WFCORE_..., and in a --config file.",
    version=_version,
)
app.config = (partial(fill, app),)
_areas = {
    "org": "Organizations.",
    "member": "Members of an organization.",
    "group": "Groups of members.",
    "token": "Personal access tokens.",
    "db": "The database's schema.",
}
_commands = {
    "serve": "wfcore.cli.serve:serve",
    "validate": "wfcore.cli.validate:validate",
    "run": "wfcore.cli.run:run",
    "openapi": "wfcore.cli.openapi:openapi",
    "org create": "wfcore.cli.directory:create_organization",
    "member add": "wfcore.cli.directory:add_member",
    "group create": "wfcore.cli.directory:create_group",
    "token create": "wfcore.cli.directory:create_token",
    "db upgrade": "wfcore.cli.database:upgrade",
    "db check": "wfcore.cli.database:check",
}
"""Where each command is. Its module is imported when it is called."""

for _area, _help in _areas.items():
    app.command(App(name=_area, help=_help))
for _command, _place in _commands.items():
    _parent, _, _name = _command.rpartition(" ")
    (app[_parent] if _parent else app).command(_place, name=_name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    try:
        status = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _fail(2, str(error).strip(), "see `wfcore --help`")
    except KeyboardInterrupt:
        return _fail(1, "interrupted")
    except Exception as error:
        return _explain(error)
    return status if isinstance(status, int) else 0


def _explain(error: Exception) -> int:
    """Say what a user can have caused; anything else is a fault of ours and keeps its traceback."""
    from wfcore.domain.errors import Invalid, Malformed, WfcoreError
    from wfcore.settings import BadSettings

    if isinstance(error, BadSettings):
        return _fail(2, str(error))
    if isinstance(error, WfcoreError):
        issues = error.info.get("errors") or []
        more = [f"`{issue['path']}`: {issue['message']}" for issue in issues[1:]]
        return _fail(2 if isinstance(error, (Invalid, Malformed)) else 1, error.message, *more)
    if isinstance(error, OSError):
        return _fail(1, f"{error.strerror or error}" + (f": `{error.filename}`" if error.filename else ""))
    raise error


def _fail(status: int, *lines: str) -> int:
    print("error:", "\n  ".join(lines), file=sys.stderr)  # noqa: T201
    return status
