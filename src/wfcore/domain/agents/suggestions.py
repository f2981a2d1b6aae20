"""What somebody might ask next: chosen from what that person could see anyway, the same for the same facts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import Final

import attrs

from wfcore.domain.kernel.json_type import JSON

MOST: Final = 4
"""Suggestions of one answer."""

LONGEST: Final = 160
"""Characters of somebody's text within a prompt or a reason."""


@attrs.frozen
class Waiting:
    """An interrupt that waits for the person's decision."""

    run_id: str
    interrupt_id: str
    message: str


@attrs.frozen
class Thread:
    """A conversation of the person: what the person said last, and a skill that took part, 0 for none."""

    thread_id: str
    skill_id: int
    said: str


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
    waiting: Sequence[Waiting],
    threads: Sequence[Thread],
    skills: Sequence[Candidate],
    workflows: Sequence[Candidate],
    tried: Collection[int],
) -> list[Suggestion]:
    """At most four, one of each sort first: a decision, a conversation to go on with, something new, a workflow.

    `tried` are the ids of skills the person has talked to; those of them are suggested when there is nothing else.
    """
    new = [_untried(skill) for skill in skills if skill.id not in tried]
    known = [_starter(skill) for skill in skills if skill.id in tried and skill.description]
    sorts = map(_decide, waiting), map(_go_on, threads), new, map(_run, workflows)
    return list(islice(chain(_in_turn(*map(list, sorts)), known), MOST))


def _in_turn(*sorts: Sequence[Suggestion]) -> Iterator[Suggestion]:
    return (one for row in zip_longest(*sorts) for one in row if one is not None)


def _decide(one: Waiting) -> Suggestion:
    asked = f": {short(one.message)}" if one.message else ""
    target = {"type": "interrupt", "runId": one.run_id, "interruptId": one.interrupt_id}
    return Suggestion(f"What is waiting for my decision{asked}", "a run waits for your decision", target)


def _go_on(one: Thread) -> Suggestion:
    target = {"type": "conversation", "threadId": one.thread_id, "skillId": one.skill_id}
    return Suggestion(f"Let us go on with this: {short(one.said)}", "you talked about this lately", target)


def _untried(skill: Candidate) -> Suggestion:
    prompt = f"Help me with this: {short(skill.description)}" if skill.description else "What can you do for me?"
    return Suggestion(prompt, f"you have not talked to `{short(skill.name)}` lately", _target("skill", skill))


def _starter(skill: Candidate) -> Suggestion:
    prompt = f"Help me with this: {short(skill.description or '')}"
    return Suggestion(prompt, f"you talk to `{short(skill.name)}`", _target("skill", skill))


def _run(workflow: Candidate) -> Suggestion:
    reason = short(workflow.description) if workflow.description else "it is deployed, and you can start it"
    return Suggestion(f"Run `{short(workflow.name)}`", reason, _target("workflow", workflow))


def _target(kind: str, offer: Candidate) -> dict[str, JSON]:
    return {"type": kind, "id": offer.id}


def short(text: str) -> str:
    """The text on one line, cut to `LONGEST` characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"
