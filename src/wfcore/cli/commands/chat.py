"""`wfcore chat`: a conversation with a skill or the assistant, at the terminal or through a pipe."""

import json
import sys
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from cyclopts import CycloptsError

from wfcore.cli.commands.directory import Organization
from wfcore.cli.common import DATABASE, Config, Database, Flag, Schema, Tools, driving, open_core, print_message
from wfcore.cli.files import load_tools
from wfcore.cli.lines import Lines
from wfcore.cli.plain import plain
from wfcore.domain.kernel.json_readers import as_object, as_text

if TYPE_CHECKING:
    from wfcore.core import Core
    from wfcore.domain.kernel.json_type import JSON
    from wfcore.domain.resources.access import Principal
    from wfcore.domain.run.events import Event
    from wfcore.domain.run.state import Interrupt
    from wfcore.runtime.common.run_views import RunView


SHOWN: Final = 200
"""Characters shown of a tool's arguments or result; a call that needs an approval is shown in full."""


async def chat(
    *,
    org: Organization,
    user_id: str,
    skill: int | None = None,
    assistant: Flag = False,
    session: str | None = None,
    tools: Tools = [],  # noqa: B006  (never changed)
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> int:
    """Talk with a skill or with the assistant. Each line of stdin is a message; the reply is written to stdout.

    When an approval or a connection is needed, the next line is the decision.

    Parameters
    ----------
    user_id
        The member who sends the messages.
    skill
        The number of the skill.
    session
        Continue the conversation with this id; a new one when left out.
    """
    if assistant == (skill is not None):
        raise CycloptsError(msg="use either --skill or --assistant")
    async with open_core(database, config, schema, tools=load_tools(tools), models=True) as core:
        me = await _member(core, org, user_id)
        return await ChatSession(core, me, skill, session or str(uuid4()), Lines(sys.stdin.fileno())).run()


async def _member(core: "Core", org: str, user_id: str) -> "Principal":
    from wfcore.domain.kernel.errors import NotFound
    from wfcore.runtime.organization.directory import principal_of

    if await core.ports.storage.organization(org) is not None:
        async with core.ports.storage.reading(org) as work:
            member = await work.directory.member(user_id)
        if member is not None:
            return principal_of(org, member)
    raise NotFound(f"unknown member `{user_id}` of organization `{org}`")


class ChatSession:
    """One conversation."""

    def __init__(self, core: "Core", me: "Principal", skill: int | None, session: str, lines: Lines) -> None:
        self._core = core
        self._me = me
        self._skill = skill
        self._session = session
        self._lines = lines
        self._screen = Screen()

    async def run(self) -> int:
        """Read messages until the end of stdin. Returns the exit status."""
        failed = False
        while (message := await self._read("> ")) is not None:
            if message.strip():
                body = {"message": message, "sessionId": self._session}
                turn = await self._follow(await self._core.runs.chat(self._me, self._skill, body))
                failed |= turn.status != "done"
        return int(failed)

    async def _follow(self, turn: "RunView") -> "RunView":
        """Follow a turn and the turns that resume it. Returns the last one."""
        while True:
            try:
                async with driving(self._core, turn.row.execution):
                    async for event in await self._core.runs.follow(self._me, turn.id):
                        self._screen.show(event)
            finally:
                self._screen.end_line()
            turn = await self._core.runs.get(self._me, turn.id)
            following = await self._resume(turn) if turn.status == "interrupted" else None
            if following is None:
                return turn
            turn = following

    async def _resume(self, turn: "RunView") -> "RunView | None":
        """The turn after a decision on the first open interrupt; None when the user cannot decide it."""
        from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid

        while turn.row.resumed_by is None:
            interrupt = turn.interrupts[0]
            decision = await self._decide(interrupt)
            if decision is None:
                print_message(f"run `{turn.id}` still waits for a decision")
                return None
            try:
                return await self._core.runs.resume(self._me, turn.id, {"interruptId": interrupt.id, **decision})
            except Invalid as error:
                print_message(error.message)
            except Forbidden as error:
                print_message(error.message)
                return None
            except Conflict as error:
                print_message(f"too late: {error.message}")
                turn = await self._core.runs.get(self._me, turn.id)
                if turn.status != "interrupted":
                    return None
        return await self._core.runs.get(self._me, turn.row.resumed_by)

    async def _decide(self, interrupt: "Interrupt") -> "dict[str, JSON] | None":
        """The decision in the next lines; None when there are no more lines."""
        from wfcore.domain.run.machine.states.interrupts import APPROVALS, CONNECTS

        self._lines.discard_typed_ahead()
        print_message(f"? {interrupt.message}")
        call = interrupt.call or {}
        if "arguments" in call:
            print_message(f"  {call['toolId']} {_json(call['arguments'])}")
        elif "provider" in call:
            print_message(f"  to `{call['provider']}`")
        choices = APPROVALS if interrupt.type == "approval" else CONNECTS
        while (line := await self._read(f"{' or '.join(choices)}? ")) is not None:
            if line.strip() not in choices:
                continue
            decision: dict[str, Any] = {"decision": line.strip()}
            if interrupt.form_schema is None or decision["decision"] != "approve":
                return decision
            data = await self._data()
            return None if data is None else {**decision, "data": data}
        return None

    async def _data(self) -> "JSON":
        """The data for the form of an approval; None when there are no more lines."""
        while (line := await self._read("data, as JSON: ")) is not None:
            try:
                data: JSON = json.loads(line)
            except ValueError as error:
                print_message(f"not valid JSON: {error}")
            else:
                return data
        return None

    async def _read(self, prompt: str) -> str | None:
        if not sys.stdin.isatty():
            return await self._lines.next()
        print(prompt, end="", file=sys.stderr, flush=True)  # noqa: T201
        line = None
        try:
            line = await self._lines.next()
        finally:
            if line is None:
                print_message("")
        return line


class Screen:
    """Prints a conversation: the agent's messages on stdout, everything else on stderr."""

    def __init__(self) -> None:
        self._open_message: str | None = None
        """The id of the message whose line is not ended."""

    def show(self, event: "Event") -> None:
        data = event.data
        inside = bool(data.get("path"))
        match str(event.kind):
            case "message_delta" if not inside:
                self._print_text(as_text(data["messageId"]), as_text(data["delta"]))
            case "message" if not inside:
                if self._open_message != data["messageId"]:
                    self._print_text(as_text(data["messageId"]), as_text(data["content"]))
                self.end_line()
            case "tool_call":
                self._print_line(f"→ {data['name']} {_shortened(data['arguments'])}")
            case "tool_result":
                self._print_line(f"← {_shortened(data['output']) if 'output' in data else _failure(data['error'])}")
            case "error":
                self._print_line(_failure(data["error"]))
            case "cancelled":
                self._print_line("cancelled")

    def end_line(self) -> None:
        """End the line of the open message."""
        if self._open_message is not None:
            print(flush=True)  # noqa: T201
            self._open_message = None

    def _print_text(self, message_id: str, text: str) -> None:
        if self._open_message != message_id:
            self.end_line()
        self._open_message = message_id
        print(plain(text) if sys.stdout.isatty() else text, end="", flush=True)  # noqa: T201

    def _print_line(self, line: str) -> None:
        self.end_line()
        print_message(line)


def _failure(error: "JSON") -> str:
    return _shortened(f"error: {as_object(error)['message']}")


def _shortened(value: "JSON") -> str:
    """On one line, at most `SHOWN` characters."""
    text = " ".join(value.split()) if isinstance(value, str) else _json(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _json(value: "JSON") -> str:
    return json.dumps(value, ensure_ascii=False)
