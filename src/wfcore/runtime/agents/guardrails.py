"""Applies guardrails to the text of agents before anything is written."""

from collections.abc import Sequence

from wfcore.domain.agents.narrowing import Allowance, Config, added_guardrails, narrowing_issues
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.resource import Kind
from wfcore.domain.run.effects import CallModel
from wfcore.ports.faults import is_failure
from wfcore.ports.guardrails import Allowed, Blocked, Guardrail, Guardrails, Replaced, Verdict
from wfcore.ports.providers import ModelError

GuardrailReport = dict[str, JSON]
"""What the journal records of a check, in addition to the text that passed."""


class GuardrailChain:
    """The guardrails of one completion, in order: each checks the text that the previous ones passed."""

    def __init__(self, guardrails: Sequence[Guardrail]) -> None:
        self._guardrails = guardrails

    @classmethod
    def of(cls, known: Guardrails, effect: CallModel) -> "GuardrailChain | None":
        """The guardrails of this call; None without any. `ModelError` for one that this installation lacks."""
        found = list(known.everywhere)
        for named in effect.guardrails:
            guardrail = known.get(named)
            if guardrail is None:
                raise ModelError(f"there is no guardrail `{_name(named)}`", retryable=False, reason="guardrail")
            found += [] if guardrail in found else [guardrail]
        return cls(found) if found else None

    def check(self, text: str) -> Verdict:
        checked = text
        for guardrail in self._guardrails:
            match _verdict(guardrail, checked):
                case Replaced(other):
                    checked = other
                case Blocked(why):
                    return Blocked(f"the guardrail `{guardrail.name}` blocked the answer: {why}")
        return Allowed() if checked == text else Replaced(checked)

    def apply(self, output: JSON, published: str = "") -> tuple[JSON, GuardrailReport | None]:
        """The part of a completion that passes. Blocked text of a completion with tool calls becomes empty.

        Text that does not begin with what was `published` of it counts as replaced: a verdict on the whole can differ
        from that on a beginning.
        """
        calls = output["toolCalls"] if isinstance(output, dict) else ()
        text = as_text(output["text"] if isinstance(output, dict) else output)
        match self.check(text) if text or not calls else Allowed():
            case Replaced(other):
                text = other
            case Blocked(why) if not calls:
                return None, {"blocked": why}
            case Blocked():
                text = ""
            case _ if text.startswith(published):
                return output, None
        return {"text": text, "toolCalls": calls} if calls else text, {"replaced": True}

    def safe_prefix(self, text: str) -> str:
        """The part of a partial text that can be published: up to its last white space; "" when that is blocked."""
        end = len(text)
        while end and not text[end - 1].isspace():
            end -= 1
        match self.check(text[:end]):
            case Replaced(other):
                return other
            case Blocked():
                return ""
        return text[:end]


def guardrail_issues(known: Guardrails, kind: Kind, named: Sequence[JSON]) -> list[Issue]:
    """The errors of the guardrails of an access configuration. Only skills can have guardrails."""
    path = "accessConfig.guardrails"
    if named and kind is not Kind.SKILL:
        return [Issue(path, "only a skill can have guardrails", "unsupported")]
    return known.issues(named, path)


def config_issues(known: Guardrails, config: Config, allowed: Allowance) -> list[Issue]:
    """The errors of the `config` of a run: what exceeds the allowance, and unknown guardrails."""
    added = added_guardrails(config, allowed.guardrails)
    absent = [
        Issue(f"config.guardrails[{index}]", f"there is no guardrail `{name[:80]}` that a run can add", "unsupported")
        for index, name in added.items()
        if known.get(name) is None
    ]
    return [*narrowing_issues(config, allowed), *absent]


def _verdict(guardrail: Guardrail, text: str) -> Verdict:
    """The guardrail's verdict; an exception counts as blocked."""
    try:
        return guardrail.check(text)
    except BaseException as error:  # its message can quote the text
        if not is_failure(error):
            raise
        return Blocked(f"it failed with {type(error).__name__}")


def _name(named: JSON) -> str:
    return str(named.get("name") if isinstance(named, dict) else named)[:80]
