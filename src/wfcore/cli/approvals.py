"""Answers to what a run asks for: those given beforehand, or those of the person at the terminal."""

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
from wfcore.domain.errors import JSON
from wfcore.domain.json_schema import compile_schema
from wfcore.domain.run.interrupts import APPROVALS, CONNECTS
from wfcore.domain.run.state import Interrupt


class Answers:
    """`always` answers every approval, and gives up what needs a connection; without it, the person is asked."""

    def __init__(self, progress: Progress, always: Literal["approve", "deny"] | None) -> None:
        self.progress = progress
        self._always = always

    def to(self, asked: Interrupt) -> dict[str, JSON] | None:
        """`decision` and `data` of a resume (interface, Resume a run); None, having said so, with nobody to ask."""
        choices = APPROVALS if asked.type == "approval" else CONNECTS
        if self._always is not None:
            return {"decision": self._always if asked.type == "approval" else "cancelled"}
        if not interactive():
            say(f"error: `{asked.node_id}` asks: {asked.message}")
            say("there is no terminal to answer at: give --yes or --no")
            return None
        with self.progress.paused(), _interruptible():
            return self._ask(asked, choices)

    def _ask(self, asked: Interrupt, choices: Sequence[str]) -> dict[str, JSON]:
        self.progress.console.print(Text(plain(asked.message), "bold magenta"))
        if asked.call is not None and "arguments" in asked.call:
            self.progress.console.print(Text(plain(json.dumps(asked.call["arguments"], indent=2, ensure_ascii=False))))
        decision = self._prompt(f"{' or '.join(choices)}?", choices=list(choices))
        if decision != "approve" or asked.form_schema is None:
            return {"decision": decision}
        return {"decision": decision, "data": self._form(asked.form_schema)}

    def _form(self, schema: Mapping[str, JSON]) -> JSON:
        """Ask for the form's fields until they fit."""
        while True:
            data = {
                name: value
                for name, field in (schema.get("properties") or {}).items()
                if (value := self._field(name, field)) is not None
            }
            issues = compile_schema(schema).check(data, "data")
            if not issues:
                return data
            for issue in issues:
                self.progress.console.print(Text(f"{issue.path}: {issue.message}", "red"))

    def _field(self, name: str, field: Mapping[str, JSON]) -> JSON:
        """One field; None when it is left blank. Texts are taken as they are, all else as JSON."""
        text = self._prompt(f"{field.get('title') or name}:", default="")
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


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the question at once: the event loop, which would hear of it, stands still meanwhile."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
