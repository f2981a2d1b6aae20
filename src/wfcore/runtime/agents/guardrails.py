"""What guardrails make of an agent's words, before anything is written down."""

from collections.abc import Sequence

from wfcore.domain.agents.narrowing import Allowance, Config, added_guardrails, narrowing_issues
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.resource import Kind
from wfcore.domain.run.effects import CallModel
from wfcore.ports.guardrails import Allowed, Blocked, Guardrail, Guardrails, Replaced, Verdict
from wfcore.ports.providers import ModelError

Judged = dict[str, JSON]
"""What the journal keeps of it, beside the text that may be said."""


class GuardrailChain:
    """The guardrails of one answer, one after the other: each checks what those before it have left."""

    def __init__(self, guardrails: Sequence[Guardrail]) -> None:
        self._guardrails = guardrails

    @classmethod
    def of(cls, known: Guardrails, effect: CallModel) -> "GuardrailChain | None":
        """Those of this call; None when nothing checks it. `ModelError` for one that is not to be had."""
        found = list(known.everywhere)
        for named in effect.guardrails:
            guardrail = known.get(named)
            if guardrail is None:
                raise ModelError(f"there is no guardrail `{_name(named)}`", retryable=False, reason="guardrail")
            found += [] if guardrail in found else [guardrail]
        return cls(found) if found else None

    def judge(self, text: str) -> Verdict:
        said = text
        for guardrail in self._guardrails:
            match _verdict(guardrail, said):
                case Replaced(other):
                    said = other
                case Blocked(why):
                    return Blocked(f"the guardrail `{guardrail.name}` blocked the answer: {why}")
        return Allowed() if said == text else Replaced(said)

    def judged(self, output: JSON) -> tuple[JSON, Judged | None]:
        """What of a model's answer may be kept. Text beside calls of tools that is blocked is left out."""
        calls = output["toolCalls"] if isinstance(output, dict) else ()
        text = output["text"] if isinstance(output, dict) else output
        match self.judge(text) if text or not calls else Allowed():
            case Replaced(other):
                text = other
            case Blocked(why) if not calls:
                return None, {"blocked": why}
            case Blocked():
                text = ""
            case _:
                return output, None
        return {"text": text, "toolCalls": calls} if calls else text, {"replaced": True}

    def beginning(self, text: str) -> str:
        """What may be said of an answer that begins so: all up to its last white space; "" when that is blocked."""
        end = len(text)
        while end and not text[end - 1].isspace():
            end -= 1
        match self.judge(text[:end]):
            case Replaced(other):
                return other
            case Blocked():
                return ""
        return text[:end]


def guardrail_issues(known: Guardrails, kind: Kind, named: Sequence[JSON]) -> list[Issue]:
    """Why an access configuration cannot have these: guardrails are an agent's, nothing else would keep them."""
    path = "accessConfig.guardrails"
    if named and kind is not Kind.SKILL:
        return [Issue(path, "guardrails are those of a skill", "unsupported")]
    return known.issues(named, path)


def config_issues(known: Guardrails, config: Config, allowed: Allowance) -> list[Issue]:
    """Everything in the `config` of a run that asks for more than is allowed, or for what is not there."""
    added = added_guardrails(config, allowed.guardrails)
    absent = [
        Issue(f"config.guardrails[{index}]", f"there is no guardrail `{name[:80]}` that a run can add", "unsupported")
        for index, name in added.items()
        if known.get(name) is None
    ]
    return [*narrowing_issues(config, allowed), *absent]


def _verdict(guardrail: Guardrail, text: str) -> Verdict:
    """Its verdict; one that has none lets nothing through."""
    try:
        return guardrail.check(text)
    except Exception as error:  # noqa: BLE001  (whatever it says may repeat the text)
        return Blocked(f"it failed with {type(error).__name__}")


def _name(named: JSON) -> str:
    return str(named.get("name") if isinstance(named, dict) else named)[:80]
