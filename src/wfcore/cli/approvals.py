"""Decisions for the open interrupts of a run: from an option, or from the user at the terminal."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from rich.prompt import Prompt
from rich.text import Text

from wfcore.cli.common import print_message
from wfcore.cli.forms import Form, fields_of
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
        data = {
            name: field["default"] for name, field in fields_of(interrupt.form_schema).items() if "default" in field
        }
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
        decision = self._prompt_decision_word(choices)
        if decision != "approve" or interrupt.form_schema is None:
            return {"decision": decision}
        return {"decision": decision, "data": Form(interrupt.form_schema, self.prompt, self.say).read()}

    def _prompt_decision_word(self, choices: Sequence[str]) -> str:
        """One of two decisions; `y` is the first, `n` the second."""
        yes, no = choices
        words = {yes: yes, "y": yes, "yes": yes, no: no, "n": no, "no": no}
        while True:
            text = self.prompt(f"{' or '.join(choices)}? (y/n)").strip().lower()
            if text in words:
                return words[text]
            self.say(f"answer {', '.join(choices)}, y or n")

    def prompt(self, question: str) -> str:
        """The user's line for a question, without space around it."""
        console = self.progress.console
        return str(Prompt.ask(Text(plain(question)), console=console, default="", show_default=False))

    def say(self, message: str) -> None:
        """Show a message between two questions."""
        self.progress.console.print(Text(plain(message), "yellow"))


def prompt_form(schema: JSON) -> JSON:
    """The data of a form, from the user at the terminal. Raises EOFError when there are no more lines."""
    prompt = ApprovalPrompt(Progress("", {}), None)
    with _interruptible():
        return Form(schema, prompt.prompt, prompt.say).read()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the prompt at once: the event loop, which handles signals, is blocked by it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
