"""Decisions for the open interrupts of a run: from an option, or from the user at the terminal."""

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.prompt import Prompt
from rich.text import Text

from wfcore.cli.common import print_message
from wfcore.cli.plain import plain
from wfcore.cli.progress import Progress, interactive
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.machine.states.interrupts import APPROVALS, CONNECTS
from wfcore.domain.run.state import Interrupt


class ApprovalPrompt:
    """Decides interrupts. `always` decides every approval and cancels connections; without it, the user is prompted."""

    def __init__(self, progress: Progress, always: Literal["approve", "deny"] | None) -> None:
        self.progress = progress
        self._always = always

    def decide(self, interrupt: Interrupt) -> dict[str, JSON] | None:
        """`decision` and `data` of a resume (interface, Resume a run); None, with a message, when nobody can decide."""
        if self._always is not None:
            return self._fixed_decision(interrupt, self._always)
        decision = self._prompt_decision(interrupt) if interactive() else None
        if decision is None:
            print_message(f"error: `{interrupt.node_id}` waits for a decision: {interrupt.message}")
            print_message("there is neither a terminal nor a line on stdin: use --yes or --no")
        return decision

    def _fixed_decision(self, interrupt: Interrupt, always: Literal["approve", "deny"]) -> dict[str, JSON] | None:
        """The decision of `always`; a form gets its defaults."""
        if interrupt.type != "approval":
            return {"decision": "cancelled"}
        if always == "deny" or interrupt.form_schema is None:
            return {"decision": always}
        data = {name: field["default"] for name, field in _fields(interrupt.form_schema).items() if "default" in field}
        issues = compile_schema(interrupt.form_schema).check(data, "data")
        for issue in issues:
            print_message(
                f"error: --yes cannot fill in the form of `{interrupt.node_id}`: {issue.path}: {issue.message}"
            )
        return None if issues else {"decision": always, "data": data}

    def _prompt_decision(self, interrupt: Interrupt) -> dict[str, JSON] | None:
        """The user's decision, or the one in the next lines of a pipe; None when there are no more lines."""
        choices = APPROVALS if interrupt.type == "approval" else CONNECTS
        try:
            with self.progress.paused(), _interruptible():
                return self._prompt_choice(interrupt, choices)
        except EOFError:
            return None

    def _prompt_choice(self, interrupt: Interrupt, choices: Sequence[str]) -> dict[str, JSON]:
        self.progress.console.print(Text(plain(interrupt.message), "bold magenta"))
        if interrupt.call is not None and "arguments" in interrupt.call:
            self.progress.console.print(
                Text(plain(json.dumps(interrupt.call["arguments"], indent=2, ensure_ascii=False)))
            )
        decision = self._prompt(f"{' or '.join(choices)}?", choices=list(choices))
        if decision != "approve" or interrupt.form_schema is None:
            return {"decision": decision}
        return {"decision": decision, "data": self._prompt_form(interrupt.form_schema)}

    def _prompt_form(self, schema: JSON) -> JSON:
        """Prompt until the data is valid: for each field, or for all data when the schema names none (blank: `{}`)."""
        fields = _fields(schema)
        while True:
            data: JSON = {
                name: value for name, field in fields.items() if (value := self._prompt_field(name, field)) is not None
            }
            if not fields:
                data = self._prompt_field("data, as JSON", {"default": {}})
            issues = compile_schema(schema).check(data, "data")
            if not issues:
                return data
            for issue in issues:
                self.progress.console.print(Text(f"{issue.path}: {issue.message}", "red"))

    def _prompt_field(self, name: str, field: Mapping[str, JSON]) -> JSON:
        """One field; None when left blank without a default. A string is taken literally, other types as JSON."""
        text = self._prompt(str(field.get("title") or name), default="")
        if not text:
            return field.get("default")
        if field.get("type") == "string":
            return text
        try:
            value: JSON = json.loads(text)
        except ValueError:
            return text
        return value

    def _prompt(self, question: str, **options: Any) -> str:
        return str(Prompt.ask(Text(question), console=self.progress.console, show_default=False, **options))


def _fields(schema: JSON) -> dict[str, Mapping[str, JSON]]:
    """The fields that a form names, each with its schema, which can be empty."""
    named = schema.get("properties") if isinstance(schema, Mapping) else None
    fields = named if isinstance(named, Mapping) else {}
    return {name: field if isinstance(field, Mapping) else {} for name, field in fields.items()}


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the prompt at once: the event loop, which handles signals, is blocked by it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
