"""`wfcore chat`: a talk with a skill or with the assistant, at the terminal or through a pipe."""

import json
import sys
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from cyclopts import CycloptsError

from wfcore.cli.commands.directory import Organization
from wfcore.cli.files import load_tools
from wfcore.cli.lines import Lines
from wfcore.cli.opening import DATABASE, Config, Database, Flag, Tools, opened, say
from wfcore.cli.plain import plain

if TYPE_CHECKING:
    from wfcore.bootstrap import Core
    from wfcore.domain.kernel.json_type import JSON
    from wfcore.domain.resources.access import Principal
    from wfcore.domain.run.events import Event
    from wfcore.domain.run.state import Interrupt
    from wfcore.runtime.runs.runs import RunView


SHOWN: Final = 200
"""Characters that are shown of a tool's arguments or result; a call that waits for an approval is shown whole."""


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
) -> int:
    """Talk with a skill or with the assistant. Each line of stdin is a message, and the answer to it goes to stdout.

    Where an approval or a connection is asked for, the next line answers.

    Parameters
    ----------
    user_id
        The member who talks.
    skill
        The number of the skill.
    session
        Goes on with the talk of this name; a new one when left out.
    """
    if assistant == (skill is not None):
        raise CycloptsError(msg="give either --skill or --assistant")
    async with opened(database, config, tools=load_tools(tools), worker=True) as core:
        me = await _member(core, org, user_id)
        return await ChatSession(core, me, skill, session or str(uuid4()), Lines(sys.stdin.fileno())).go_on()


async def _member(core: "Core", org: str, user_id: str) -> "Principal":
    from wfcore.domain.kernel.errors import NotFound
    from wfcore.runtime.organization.directory import principal_of

    if await core.ports.storage.organization(org) is not None:
        async with core.ports.storage.reading(org) as work:
            member = await work.directory.member(user_id)
        if member is not None:
            return principal_of(org, member)
    raise NotFound(f"there is no member `{user_id}` of an organization `{org}`")


class ChatSession:
    """One conversation."""

    def __init__(self, core: "Core", me: "Principal", skill: int | None, session: str, lines: Lines) -> None:
        self._core = core
        self._me = me
        self._skill = skill
        self._session = session
        self._lines = lines
        self._screen = Screen()

    async def go_on(self) -> int:
        """Take messages until there are no more; the exit status."""
        failed = False
        while (message := await self._read("> ")) is not None:
            if message.strip():
                body = {"message": message, "sessionId": self._session}
                turn = await self._to_its_end(await self._core.runs.chat(self._me, self._skill, body))
                failed |= turn.status != "done"
        return int(failed)

    async def _to_its_end(self, turn: "RunView") -> "RunView":
        """Turn after turn: what waits at the end of one is answered, and that begins the next."""
        while True:
            try:
                async for event in await self._core.runs.follow(self._me, turn.id):
                    self._screen.show(event)
            finally:
                self._screen.end_line()
            turn = await self._core.runs.get(self._me, turn.id)
            following = await self._following(turn) if turn.status == "interrupted" else None
            if following is None:
                return turn
            turn = following

    async def _following(self, turn: "RunView") -> "RunView | None":
        """The turn that answers this one's first question; None when nobody here can answer it."""
        from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid

        while turn.row.resumed_by is None:
            asked = turn.interrupts[0]
            answer = await self._answer(asked)
            if answer is None:
                say(f"`{turn.id}` goes on waiting")
                return None
            try:
                return await self._core.runs.resume(self._me, turn.id, {"interruptId": asked.id, **answer})
            except Invalid as error:
                say(error.message)
            except Forbidden as error:
                say(error.message)
                return None
            except Conflict as error:
                say(f"too late: {error.message}")
                turn = await self._core.runs.get(self._me, turn.id)
                if turn.status != "interrupted":
                    return None
        return await self._core.runs.get(self._me, turn.row.resumed_by)

    async def _answer(self, asked: "Interrupt") -> "dict[str, JSON] | None":
        """The answer of the person, or of the pipe: None when there are no more lines."""
        from wfcore.domain.run.machine.interrupts import APPROVALS, CONNECTS

        self._lines.forget()
        say(f"? {asked.message}")
        call = asked.call or {}
        if "arguments" in call:
            say(f"  {call['toolId']} {_json(call['arguments'])}")
        elif "provider" in call:
            say(f"  to `{call['provider']}`")
        choices = APPROVALS if asked.type == "approval" else CONNECTS
        while (line := await self._read(f"{' or '.join(choices)}? ")) is not None:
            if line.strip() not in choices:
                continue
            decision: dict[str, Any] = {"decision": line.strip()}
            if asked.form_schema is None or decision["decision"] != "approve":
                return decision
            data = await self._data()
            return None if data is None else {**decision, "data": data}
        return None

    async def _data(self) -> "JSON":
        """What the form of an approval asks for; None when there are no more lines."""
        while (line := await self._read("data, as JSON: ")) is not None:
            try:
                return json.loads(line)
            except ValueError as error:
                say(f"no JSON: {error}")
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
                say("")
        return line


class Screen:
    """Where a talk is shown: what the agent says on stdout, everything else on stderr."""

    def __init__(self) -> None:
        self._said: str | None = None
        """The message whose text is being written."""

    def show(self, event: "Event") -> None:
        data = event.data
        inside = bool(data.get("path"))
        match str(event.kind):
            case "message_delta" if not inside:
                self._say(data["messageId"], data["delta"])
            case "message" if not inside:
                if self._said != data["messageId"]:
                    self._say(data["messageId"], data["content"])
                self.end_line()
            case "tool_call":
                self._tell(f"→ {data['name']} {_short(data['arguments'])}")
            case "tool_result":
                self._tell(f"← {_short(data['output']) if 'output' in data else _failure(data['error'])}")
            case "error":
                self._tell(_failure(data["error"]))
            case "cancelled":
                self._tell("cancelled")

    def end_line(self) -> None:
        """Close the line of what was being said."""
        if self._said is not None:
            print(flush=True)  # noqa: T201
            self._said = None

    def _say(self, message_id: str, text: str) -> None:
        if self._said != message_id:
            self.end_line()
        self._said = message_id
        print(plain(text) if sys.stdout.isatty() else text, end="", flush=True)  # noqa: T201

    def _tell(self, line: str) -> None:
        self.end_line()
        say(line)


def _failure(error: "JSON") -> str:
    return _short(f"error: {error['message']}")


def _short(value: "JSON") -> str:
    """On one line."""
    text = " ".join(value.split()) if isinstance(value, str) else _json(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _json(value: "JSON") -> str:
    return json.dumps(value, ensure_ascii=False)
