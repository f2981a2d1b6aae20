"""Suggestions for a person's next prompt: a deterministic choice among facts that the person may see."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import Final

import attrs

from wfcore.domain.kernel.json_type import JSON

MAX_SUGGESTIONS: Final = 4

MAX_TEXT: Final = 160
"""The most characters of a quoted text in a prompt or a reason."""


@attrs.frozen
class OpenDecision:
    """An interrupt that waits for the person's decision."""

    run_id: str
    interrupt_id: str
    message: str


@attrs.frozen
class Thread:
    """A conversation of the person: the person's last message, and a skill that took part, 0 for none."""

    thread_id: str
    skill_id: int
    last_message: str


@attrs.frozen
class Candidate:
    """A deployed skill or workflow that the person can use."""

    id: int
    name: str
    description: str | None


@attrs.frozen
class Suggestion:
    """A prompt, why it is suggested, and what it leads to."""

    prompt: str
    reason: str
    target: Mapping[str, JSON]

    def to_wire(self) -> dict[str, JSON]:
        return {"prompt": self.prompt, "reason": self.reason, "target": dict(self.target)}


def suggest(
    decisions: Sequence[OpenDecision],
    threads: Sequence[Thread],
    skills: Sequence[Candidate],
    workflows: Sequence[Candidate],
    tried: Collection[int],
) -> list[Suggestion]:
    """At most four suggestions, first one of each sort: a decision, a conversation, a new skill, a workflow.

    `tried` are the ids of skills that the person has used; those are suggested only after everything else.
    """
    new = [_untried(skill) for skill in skills if skill.id not in tried]
    known = [_starter(skill) for skill in skills if skill.id in tried and skill.description]
    sorts = map(_decide, decisions), map(_continue, threads), new, map(_run, workflows)
    return list(islice(chain(_interleaved(*map(list, sorts)), known), MAX_SUGGESTIONS))


def _interleaved(*sorts: Sequence[Suggestion]) -> Iterator[Suggestion]:
    return (one for row in zip_longest(*sorts) for one in row if one is not None)


def _decide(one: OpenDecision) -> Suggestion:
    message = f": {short(one.message)}" if one.message else ""
    target = {"type": "interrupt", "runId": one.run_id, "interruptId": one.interrupt_id}
    return Suggestion(f"What is waiting for my decision{message}", "a run waits for your decision", target)


def _continue(one: Thread) -> Suggestion:
    target: dict[str, JSON] = {"type": "conversation", "threadId": one.thread_id, "skillId": one.skill_id}
    return Suggestion(f"Let us go on with this: {short(one.last_message)}", "you talked about this lately", target)


def _untried(skill: Candidate) -> Suggestion:
    prompt = f"Help me with this: {short(skill.description)}" if skill.description else "What can you do for me?"
    return Suggestion(prompt, f"you have not talked to `{short(skill.name)}` lately", _target("skill", skill))


def _starter(skill: Candidate) -> Suggestion:
    prompt = f"Help me with this: {short(skill.description or '')}"
    return Suggestion(prompt, f"you talk to `{short(skill.name)}`", _target("skill", skill))


def _run(workflow: Candidate) -> Suggestion:
    reason = short(workflow.description or "") or "it is deployed, and you can start it"
    return Suggestion(f"Run `{short(workflow.name)}`", reason, _target("workflow", workflow))


def _target(kind: str, candidate: Candidate) -> dict[str, JSON]:
    return {"type": kind, "id": candidate.id}


def short(text: str) -> str:
    """The text on one line, cut to `MAX_TEXT` characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1].rstrip() + "…"
