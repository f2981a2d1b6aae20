"""The shapes of suggestions on the wire."""

from typing import Literal, Required, TypedDict


class SuggestionTarget(TypedDict, total=False):
    """The target of a prompt: an interrupt of a run, a conversation, or a skill or workflow by its `id`."""

    type: Required[Literal["interrupt", "conversation", "skill", "workflow"]]
    id: int
    runId: str
    interruptId: str
    threadId: str
    skillId: int


class SuggestionDto(TypedDict):
    prompt: str
    reason: str
    target: SuggestionTarget


class SuggestionsDto(TypedDict):
    """At most four suggestions."""

    suggestions: list[SuggestionDto]
