"""ApprovalPrompt to what a run asks for: those given beforehand, or those of the person at the terminal."""

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.prompt import Prompt
from rich.text import Text

from wfcore.cli.opening import say
from wfcore.cli.plain import plain
from wfcore.cli.progress import Progress, interactive
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.machine.interrupts import APPROVALS, CONNECTS
from wfcore.domain.run.state import Interrupt


class ApprovalPrompt:
    """`always` answers every approval, and gives up what needs a connection; without it, the person is asked."""

    def __init__(self, progress: Progress, always: Literal["approve", "deny"] | None) -> None:
        self.progress = progress
        self._always = always

    def to(self, asked: Interrupt) -> dict[str, JSON] | None:
        """`decision` and `data` of a resume (interface, Resume a run); None, having said so, with nobody to ask."""
        if self._always is not None:
            return self._given(asked, self._always)
        answer = self._asked(asked) if interactive() else None
        if answer is None:
            say(f"error: `{asked.node_id}` asks: {asked.message}")
            say("there is no terminal to answer at, and no line on stdin: give --yes or --no")
        return answer

    def _given(self, asked: Interrupt, always: Literal["approve", "deny"]) -> dict[str, JSON] | None:
        """The answer given beforehand; what a form takes beside it are its defaults."""
        if asked.type != "approval":
            return {"decision": "cancelled"}
        if always == "deny" or asked.form_schema is None:
            return {"decision": always}
        data = {name: field["default"] for name, field in _fields(asked.form_schema).items() if "default" in field}
        issues = compile_schema(asked.form_schema).check(data, "data")
        for issue in issues:
            say(f"error: `{asked.node_id}` asks for a form, which --yes cannot fill in: {issue.path}: {issue.message}")
        return None if issues else {"decision": always, "data": data}

    def _asked(self, asked: Interrupt) -> dict[str, JSON] | None:
        """What the person answers, or the next lines of a pipe; None when there are no more."""
        choices = APPROVALS if asked.type == "approval" else CONNECTS
        try:
            with self.progress.paused(), _interruptible():
                return self._ask(asked, choices)
        except EOFError:
            return None

    def _ask(self, asked: Interrupt, choices: Sequence[str]) -> dict[str, JSON]:
        self.progress.console.print(Text(plain(asked.message), "bold magenta"))
        if asked.call is not None and "arguments" in asked.call:
            self.progress.console.print(Text(plain(json.dumps(asked.call["arguments"], indent=2, ensure_ascii=False))))
        decision = self._prompt(f"{' or '.join(choices)}?", choices=list(choices))
        if decision != "approve" or asked.form_schema is None:
            return {"decision": decision}
        return {"decision": decision, "data": self._form(asked.form_schema)}

    def _form(self, schema: Mapping[str, JSON]) -> JSON:
        """Ask until it fits: for each of the form's fields, or where it names none for the whole, blank being `{}`."""
        fields = _fields(schema)
        while True:
            data: JSON = {
                name: value for name, field in fields.items() if (value := self._field(name, field)) is not None
            }
            if not fields:
                data = self._field("data, as JSON", {"default": {}})
            issues = compile_schema(schema).check(data, "data")
            if not issues:
                return data
            for issue in issues:
                self.progress.console.print(Text(f"{issue.path}: {issue.message}", "red"))

    def _field(self, name: str, field: Mapping[str, JSON]) -> JSON:
        """One field; None when it is left blank. Texts are taken as they are, all else as JSON."""
        text = self._prompt(str(field.get("title") or name), default="")
        if not text:
            return field.get("default")
        if field.get("type") == "string":
            return text
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _prompt(self, question: str, **options: Any) -> str:
        return str(Prompt.ask(Text(question), console=self.progress.console, show_default=False, **options))


def _fields(schema: Mapping[str, JSON]) -> dict[str, Mapping[str, JSON]]:
    """The fields that a form names, each with its schema, of which there may be nothing to tell."""
    named = schema.get("properties") if isinstance(schema, dict) else None
    return {name: field if isinstance(field, dict) else {} for name, field in (named or {}).items()}


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the question at once: the event loop, which would hear of it, stands still meanwhile."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
