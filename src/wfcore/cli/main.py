"""The command line `wfcore`: results on stdout, everything else on stderr.

Exit status 0: success. 1: failure. 2: wrong usage of the command line, the environment or the configuration file.
130: ended by Ctrl-C.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from cyclopts import App, CycloptsError, UnusedCliTokensError

from wfcore.cli.options import fill


def _version() -> str:
    from importlib.metadata import version

    return version("wfcore")


app = App(
    name="wfcore",
    help="Workflows and agents. Every option can also be set in the environment, as WFCORE_..., or in a --config file.",
    version=_version,
    help_format="plaintext",  # the default, Markdown, imports a parser of it and a highlighter: half as much CPU again
    suppress_keyboard_interrupt=False,
)
app.config = (partial(fill, app),)
_areas = {
    "org": "Organizations.",
    "config": "The configuration.",
    "db": "The database: its schema, copies, backups.",
    "shard": "The databases of an installation with several of them.",
}
_commands = {
    "serve": ("serve:serve", "Serve both APIs on one port."),
    "dev": ("dev:dev", "Serve a demo organization on this machine, signed in."),
    "worker": ("worker:worker", "Drive runs beside servers and other workers."),
    "validate": ("validate:validate", "Check a workflow file."),
    "simulate": ("simulate:simulate", "Try every outcome of every node of a workflow file."),
    "replay": ("simulate:replay", "Replay a recorded run with this release, or with a changed workflow."),
    "eval": ("evaluate:evaluate", "Run the evaluations of a skill file without a server."),
    "graph": ("graph:graph", "Draw a workflow file."),
    "run": ("runs:app", "Run a workflow file without a server, or manage the runs of an organization."),
    "inbox": ("runs:inbox", "List what waits for a member's decision."),
    "answer": ("runs:answer", "Decide an interrupt of a run."),
    "workflow": ("resources:workflow", "The workflows of an organization."),
    "skill": ("resources:skill", "The skills of an organization."),
    "apply": (
        "resources:apply",
        "Make the workflows and skills of an organization those of a folder.",
    ),
    "diff": ("resources:diff", "Show how a folder differs from an organization."),
    "export": ("resources:export", "Write the workflows and skills of an organization to a folder."),
    "schedule": ("records:schedule", "Schedules of workflows."),
    "connection": ("records:connection", "Connections to other services."),
    "hook": ("records:hook", "Hooks: addresses that events are sent to."),
    "policy": ("records:policy", "Policies: what workflows must keep to be deployed."),
    "member": ("records:member", "Members of an organization."),
    "group": ("records:group", "Groups of members."),
    "token": ("records:token", "Personal access tokens."),
    "audit": ("records:audit", "List the audit trail of an organization."),
    "usage": ("records:usage", "Report the usage of models."),
    "config check": ("wfcore.cli.setup.configuration:check", "Check the configuration file and the environment."),
    "completion": ("wfcore.cli.setup.completion:completion", "Print a script that completes commands in a shell."),
    "login": (
        "wfcore.cli.setup.login:login",
        "Sign in to a server: its address and token are kept for other commands.",
    ),
    "logout": ("wfcore.cli.setup.login:logout", "Remove the token of a server."),
    "chat": ("chat:chat", "Talk with a skill or with the assistant."),
    "openapi": ("openapi:openapi", "Print the OpenAPI document."),
    "org create": ("directory:create_organization", "Create an organization."),
    "org export": ("directory:export_organization", "Export the data of an organization."),
    "org delete": ("directory:delete_organization", "Delete an organization with all of its data."),
    "org limit": ("directory:limit_organization", "Limit the concurrent runs of an organization."),
    "org list": ("records:list_organizations", "List the organizations of a database."),
    "org show": ("records:show_organization", "Print an organization of a database as JSON."),
    "db upgrade": ("database:upgrade", "Upgrade the schema to this release."),
    "db check": ("database:check", "Check that the schema is that of this release."),
    "db prune": ("database:prune", "Delete what is older than the settings say."),
    "db reencrypt": (
        "database:reencrypt",
        "Encrypt all stored secrets with the current key, so that earlier ones can be removed.",
    ),
    "db copy": ("database:copy", "Copy a database, and verify every row."),
    "db backup": ("database:backup", "Write a backup: the database, its attachments and its key."),
    "shard add": ("wfcore.cli.setup.shards:add", "Place new organizations on a shard too."),
    "shard list": ("wfcore.cli.setup.shards:list_shards", "List the shards."),
    "shard move": ("wfcore.cli.setup.shards:move", "Move an organization to a shard while its runs go on."),
    "db restore": ("database:restore", "Restore a backup."),
}
"""The function or the area and the help of each command. Its module is imported when it is called."""

for _area, _help in _areas.items():
    app.command(App(name=_area, help=_help))
for _command, (_target, _help) in _commands.items():
    _parent, _, _name = _command.rpartition(" ")
    _function = _target if _target.startswith("wfcore.") else f"wfcore.cli.commands.{_target}"
    (app[_parent] if _parent else app).command(_function, name=_name, help=_help)


_USAGE: Final = (400, 422)
"""The HTTP statuses of errors that mean a wrong use of the command."""

INTERRUPTED: Final = 130
"""The exit status of a command that Ctrl-C has ended, as in shells: 128 and the number of the signal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status."""
    status = _run(arguments)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            status = status or (1 if isinstance(error, BrokenPipeError) else _report(error))
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # else the end of the process writes it again
    return status


def _run(arguments: Sequence[str] | None) -> int:
    try:
        status = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        command = error.command_chain or app.parse_commands(arguments)[0]
        return _fail(2, _usage_text(error), f"see `{' '.join(('wfcore', *command))} --help`")
    except KeyboardInterrupt:
        return _fail(INTERRUPTED, "interrupted")
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed":
            raise
        return _fail(2, "an argument is not UTF-8")  # Python has its bytes as lone surrogates (PEP 383)
    except BrokenPipeError:  # of stdout, as in `wfcore openapi | head -1`
        return 1
    except _user_errors() as error:
        return _report(error)
    return status if isinstance(status, int) else 0


def _usage_text(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        unused = ", ".join(f"`{word}`" for word in error.unused_tokens or ())
        return f"{unused} is more than the command takes"
    return str(error).strip()


def _user_errors() -> tuple[type[Exception], ...]:
    """Errors that a user can cause. Any other error is a bug and keeps its traceback."""
    from wfcore.domain.kernel.errors import WfcoreError
    from wfcore.settings.installation import BadSettings

    return WfcoreError, BadSettings, OSError


def _report(error: Exception) -> int:
    from wfcore.cli.files import tool_hints
    from wfcore.domain.kernel.errors import WfcoreError
    from wfcore.domain.kernel.json_readers import as_objects

    if isinstance(error, WfcoreError):
        issues = as_objects(error.info.get("errors") or ())
        more = [] if "\n" in error.message else [f"`{issue['path']}`: {issue['message']}" for issue in issues[1:]]
        hints = tool_hints([error.message, *more])
        return _fail(2 if getattr(error, "refused_with", error.http) in _USAGE else 1, error.message, *more, *hints)
    if isinstance(error, OSError):
        return _fail(1, f"{error.strerror or error}" + (f": `{error.filename}`" if error.filename else ""))
    return _fail(2, str(error))


def _fail(status: int, *lines: str) -> int:
    with suppress(BrokenPipeError):  # of stderr: the status still says it
        print("error:", "\n  ".join(lines), file=sys.stderr)  # noqa: T201
    return status
