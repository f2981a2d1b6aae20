"""The shape of the stream of changes (interface, Changes)."""

from typing import Literal, Required, TypedDict


class ChangeDto(TypedDict, total=False):
    """What has changed. `id` is the resource's own, a number for workflows and skills.

    `hello` is the first event, and comes again after changes were lost: read everything again. It has the kind only.
    """

    kind: Required[
        Literal[
            "hello", "workflow", "skill", "run", "interrupt", "policy", "connection", "hook", "member", "group",
            "delegation",
        ]
    ]  # fmt: skip
    id: str | int
    what: Literal["created", "changed", "deleted", "deployed", "resolved"]


class ChangeEvents(TypedDict):
    """The response to a client that prefers JSON and polls: one `hello`."""

    events: list[ChangeDto]
