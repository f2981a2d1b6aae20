"""Release notes of this repository: a workflow with tools, an agent and an approval, which survives a kill -9.

    make demo                     (or: python examples/release_notes/demo.py)

This process starts a run and follows it. A second process, the worker, drives the run. They share one SQLite file and
nothing else, so the demo can kill the worker midway and start another one.
"""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.markdown import Markdown
from rich.prompt import Confirm
from ruamel.yaml import YAML
from tools import TOOLS

from wfcore import Core, bootstrap
from wfcore.cli.progress import Progress
from wfcore.ports.providers import ModelRequest
from wfcore.settings import load
from wfcore.testing import ScriptedModel

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
DEMO = REPOSITORY / ".demo"
DATABASE = DEMO / "wfcore.db"
NOTES = DEMO / "RELEASE_NOTES.md"
LOG = DEMO / "demo.log"

console = Console()


# Both processes open the same database, tools and models.


@asynccontextmanager
async def opened(*, worker: bool) -> AsyncIterator[Core]:
    settings = load()
    models = settings.providers() or {"default": ScriptedModel(write_notes, delay=0.002)}
    url = f"sqlite:///{DATABASE}"
    async with bootstrap.open(url, tools=TOOLS, models=models, settings=settings.settings(), worker=worker) as core:
        yield core


def write_notes(request: ModelRequest) -> str:
    """Replaces a model: sorts the changes in the prompt by their first word."""
    version, _, rest = str(request.messages[-1]["content"]).partition("\n")
    groups: dict[str, list[str]] = {"Added": [], "Changed": [], "Fixed": []}
    for change in re.findall(r"^- (.*)$", rest, re.MULTILINE):
        words = change.lower()
        fixes = words.startswith(("fix", "correct", "repair", "bug"))
        adds = words.startswith(("add", "new", "introduce", "support", "first", "initial")) or "first" in words
        groups["Fixed" if fixes else "Added" if adds else "Changed"].append(f"- {change}")
    parts = [f"# {version}", *(f"## {name}\n\n" + "\n".join(lines) for name, lines in groups.items() if lines)]
    return "\n\n".join(parts)


# The worker: drives due runs until the other process ends.


async def work() -> None:
    async with opened(worker=True):
        await asyncio.to_thread(sys.stdin.read)


@contextmanager
def worker_process() -> Iterator[subprocess.Popen[bytes]]:
    with LOG.open("ab") as log:
        worker = subprocess.Popen([sys.executable, __file__, "--worker"], stdin=subprocess.PIPE, stderr=log)
    console.print(f"worker [bold]{worker.pid}[/] started")
    with worker:
        yield worker


# The main process: deploys the workflow, starts a run, follows it, answers the approval.


async def main() -> None:
    forget_earlier_demo()
    logging.basicConfig(filename=LOG)
    workflow = YAML(typ="safe", pure=True).load(HERE / "workflow.yaml")
    async with opened(worker=False) as core:
        org = await core.directory.create_organization("Demo")
        me = core.principal(org.uuid, user="maintainer")
        flow = await core.workflows.create(me, workflow)
        await core.workflows.deploy(me, flow.id)
        run = await core.runs.start(me, workflow=flow.id, input={
            "repository": str(REPOSITORY), "version": version(), "output": str(NOTES),
        })  # fmt: skip

        with Progress("Release notes", workflow["workflowStructure"], console) as progress:

            async def follow(run_id: str) -> Any:
                """Show all events of the run, and return its record."""
                async for event in await core.runs.follow(me, run_id):
                    progress.show(event)
                return await core.runs.get(me, run_id)

            with worker_process() as worker:
                turn = await follow(run.id)
                worker.kill()

            turns = [turn]
            if turn.interrupts:
                with progress.paused():
                    console.print(
                        f"worker [bold]{worker.pid}[/] killed (SIGKILL); the run is parked in {shown(DATABASE)}"
                    )
                    decision = decided(turn.interrupts[0].message)
                with worker_process():
                    turn = await core.runs.resume(me, turn.id, decision=decision)
                    turns.append(await follow(turn.id))
        events = sum([len(await core.runs.events(me, turn.id)) for turn in turns])
    report(turns[-1], events)


def decided(message: str) -> Literal["approve", "deny"]:
    """Prompt for the decision at the terminal."""
    console.rule("approval")
    console.print(Markdown(message))
    console.rule()
    if os.environ.get("DEMO_APPROVE") == "1":
        console.print("approved, since DEMO_APPROVE=1")
        return "approve"
    if not sys.stdin.isatty():
        console.print("approved, since there is no terminal for a prompt")
        return "approve"
    return "approve" if Confirm.ask("publish?", console=console, default=True) else "deny"


def report(turn: Any, events: int) -> None:
    """Print the result, and commands to try next."""
    console.print(f"\n[bold]{turn.status}[/], {events} events; output:")
    console.print_json(data=turn.output if turn.status == "done" else turn.to_wire()["error"])
    if load().providers() is None:
        console.print("The model was the built-in `scripted` provider: no model is configured.")
    console.print(f"The database is {shown(DATABASE)}. Try next:")
    wfcore, example = shown(Path(sys.executable).parent / "wfcore"), shown(HERE)
    tools = f"--tools {example}/tools.py:TOOLS"
    given = json.dumps({"repository": ".", "version": "next", "output": shown(NOTES)})
    for command in (
        f"{wfcore} run {example}/workflow.yaml {tools} --input '{given}'",
        f"{wfcore} serve --database sqlite:///{shown(DATABASE)} {tools}",
    ):
        console.print("  " + command, soft_wrap=True, highlight=False, markup=False)
    if turn.status != "done":
        sys.exit(1)


def forget_earlier_demo() -> None:
    DEMO.mkdir(exist_ok=True)
    for file in DEMO.iterdir():
        if file.is_file():
            file.unlink()


def version() -> str:
    found = re.findall(r'^version = "(.*)"$', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)
    return f"v{found[0]}"


def shown(path: Path) -> str:
    return os.path.relpath(path)


if __name__ == "__main__":
    asyncio.run(work() if "--worker" in sys.argv else main())
