"""What has happened to an execution: the facts that its journal keeps, in the past tense.

An entry is the only thing that ever changes a run. Times are milliseconds since the Unix epoch and arrive
inside entries, as do ids: the machine has no clock and no randomness. A node is named by its position in the
`nodes` array of the pinned variation, which never changes once a run has started; `within` names the frame whose
node it is: empty for the root, for a child `address[:-3]` of its effects.

On disk an entry is one JSON array, `[tag, version, field, ...]`, in the order of the class's fields, with
defaults at the end left out. A released (tag, version) is never given another meaning: stored journals replay
for ever.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct, field, structs

from wfcore.domain.kernel.json_type import JSON, Number


class Actor(Struct, frozen=True, gc=False):
    """Who did it: the user id and, when known, the e-mail address."""

    user_id: str
    email: str | None = None


class Limits(Struct, frozen=True, gc=False):
    """The bounds of one run: node visits, seconds of duration, effects under way at once, model calls of one visit of
    an agent.
    """

    max_node_visits: int = 10_000
    max_run_seconds: Number = 30 * 86_400.0
    max_concurrent_effects: int = 1_000
    max_agent_rounds: int = 25


class Decision(Struct, frozen=True, gc=False):
    """An answer to one interrupt: `approve` or `deny` with the form's data, `connected` or `cancelled`."""

    interrupt_id: str
    decision: str
    data: JSON = None


class Started(Struct, frozen=True, gc=False):
    """The execution began, with its first turn. `info` is what expressions read as `run`. With a `refusal` it
    ended in error at once. `key` is what the keys of its effects begin with, unlike the run id no other organization's;
    "" for the run id.
    """

    at: int
    run_id: str
    by: Actor
    input: JSON
    info: dict[str, JSON]
    limits: Limits = field(default_factory=Limits)
    refusal: str = ""
    key: str = ""


class Resumed(Struct, frozen=True, gc=False):
    """A new turn took over, with answers or with none. `by` is None when the system resumed (a deadline
    passed). `info` replaces keys of what expressions read as `run`. `on_behalf_of` has, by interrupt id, the users who
    had delegated these decisions to `by`.
    """

    at: int
    run_id: str
    by: Actor | None = None
    decisions: tuple[Decision, ...] = ()
    info: dict[str, JSON] | None = None
    on_behalf_of: dict[str, str] = field(default_factory=dict)

    def vote_people(self, interrupt_id: str) -> frozenset[str]:
        """The user ids whose decision on this interrupt this is."""
        by = "" if self.by is None else self.by.user_id
        return frozenset((by, self.on_behalf_of.get(interrupt_id, by)))


Pinned = tuple[str, int, str]
"""A variation that a frame runs: kind and id of its resource, and the id of the variation."""


class Retried(Struct, frozen=True, gc=False):
    """A new turn took over an execution that had failed or was cancelled, after what it had done.

    `pinned` is the variation that runs from now on; None for the one before. `again` names nodes that run again with
    all that follows them, `outputs` has the outputs that a user gave to nodes, `skip` names nodes that count as done
    without one. With a `refusal` the turn ended in error at once.
    """

    at: int
    run_id: str
    by: Actor
    pinned: Pinned | None = None
    is_draft: bool = False
    again: tuple[str, ...] = ()
    outputs: dict[str, JSON] = field(default_factory=dict)
    skip: tuple[str, ...] = ()
    refusal: str = ""
    info: dict[str, JSON] | None = None


class Forked(Struct, frozen=True, gc=False):
    """A new execution began with the entries of another one, which stand before this one.

    It continues before the nodes in `again`, with effects of its own, whose keys begin with `key`. `input` has the new
    input, if there is one. The other fields are those of `Retried`.
    """

    at: int
    run_id: str
    by: Actor
    key: str
    again: tuple[str, ...]
    pinned: Pinned | None = None
    is_draft: bool = False
    input: tuple[JSON, ...] = ()
    refusal: str = ""
    info: dict[str, JSON] | None = None


class Moved(Struct, frozen=True, gc=False):
    """The execution, which was parked, continues on another variation of its workflow, in the same turn.

    What it waits for stays open, under the same ids.
    """

    at: int
    by: Actor
    pinned: Pinned


class Succeeded(Struct, frozen=True, gc=False):
    """An effect had its result. `usage` counts what a model call consumed. `guardrail` describes an answer that did not
    pass as it was: `{"replaced": true}` when the output is what may be said, `{"blocked": why}` when nothing may be.
    """

    at: int
    node: int
    visit: int
    step: int
    attempt: int
    output: JSON
    usage: dict[str, JSON] | None = None
    within: tuple[int, ...] = ()
    guardrail: dict[str, JSON] | None = None


class Failed(Struct, frozen=True, gc=False):
    """One attempt of an effect failed; the machine decides whether another follows. `info` has what a
    `connection_required` or `definition_changed` requires, `usage` what a model call consumed, as far as that is known.
    """

    at: int
    node: int
    visit: int
    step: int
    attempt: int
    message: str
    reason: str = "failed"
    retryable: bool = True
    within: tuple[int, ...] = ()
    info: dict[str, JSON] | None = None
    usage: dict[str, JSON] | None = None


class Opened(Struct, frozen=True, gc=False):
    """A child frame was opened: this variation of this workflow or skill is pinned, with this input."""

    at: int
    node: int
    visit: int
    step: int
    attempt: int
    kind: str
    resource_id: int
    variation_id: str
    input: JSON
    message: str | None = None
    within: tuple[int, ...] = ()


class Sent(Struct, frozen=True, gc=False):
    """A tool that must not be called twice is about to be called: from here on its outcome may be unknown."""

    at: int
    node: int
    visit: int
    step: int
    attempt: int
    within: tuple[int, ...] = ()


class Said(Struct, frozen=True, gc=False):
    """A batch of text that a model streamed while its call was under way."""

    at: int
    node: int
    visit: int
    step: int
    attempt: int
    text: str
    within: tuple[int, ...] = ()


class Progressed(Struct, frozen=True, gc=False):
    """A tool reported how far its call is: `progress` of `total`, in units of its own."""

    at: int
    node: int
    visit: int
    step: int
    attempt: int
    progress: float | None
    total: float | None = None
    message: str = ""
    within: tuple[int, ...] = ()


class TimePassed(Struct, frozen=True, gc=False):
    """The clock was read as `at`: every timer due by then expires."""

    at: int


class Paused(Struct, frozen=True, gc=False):
    """Somebody requested that the run parks at the next step."""

    at: int
    by: Actor


class Cancelled(Struct, frozen=True, gc=False):
    """Somebody cancelled the run."""

    at: int
    by: Actor


class Aborted(Struct, frozen=True, gc=False):
    """The program could not carry the execution on, time after time: it was ended in error."""

    at: int
    message: str


Outcome = Succeeded | Failed | Said | Progressed | Opened | Sent
"""What becomes of one effect, or is reported before."""

Entry = Started | Resumed | Retried | Forked | Moved | Outcome | TimePassed | Paused | Cancelled | Aborted

TAGS: dict[type[Struct], str] = {
    Started: "start",
    Resumed: "resume",
    Retried: "retry",
    Forked: "fork",
    Moved: "move",
    Succeeded: "ok",
    Failed: "fail",
    Said: "say",
    Progressed: "progress",
    Opened: "open",
    Sent: "sent",
    TimePassed: "time",
    Paused: "pause",
    Cancelled: "cancel",
    Aborted: "abort",
}
VERSION = 1

_CLASSES: dict[str, type] = {tag: cls for cls, tag in TAGS.items()}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Any]).decode


@cache
def _defaults(cls: type[Struct]) -> tuple[int, tuple[Any, ...]]:
    """How many fields have no default, and the defaults of all."""
    fields = structs.fields(cls)
    defaults = tuple(f.default if f.default_factory is NODEFAULT else f.default_factory() for f in fields)
    return len([f for f in fields if f.required]), defaults


def shortened(value: Struct) -> tuple[Any, ...]:
    """The fields of a value, without those at the end that have their default."""
    values = structs.astuple(value)
    first, defaults = _defaults(type(value))
    if values[first:] == defaults[first:]:  # compared at once: that is nearly always so
        return values[:first]
    length = len(values)
    while values[length - 1] == defaults[length - 1]:
        length -= 1
    return values[:length]


def turns_of(entries: Iterable[Entry]) -> list[str]:
    """The run ids of an execution, in order. The turns before a fork are of the run that was forked."""
    ids = list[str]()
    for entry in entries:
        if isinstance(entry, Forked):
            ids = [entry.run_id]
        elif isinstance(entry, Started | Resumed | Retried):
            ids.append(entry.run_id)
    return ids


def encode_entry(entry: Entry) -> bytes:
    """The entry as one line of JSON."""
    if type(entry) is Succeeded and entry.usage is None and not entry.within and entry.guardrail is None:  # the hot one
        return _encode(("ok", VERSION, entry.at, entry.node, entry.visit, entry.step, entry.attempt, entry.output))
    return _encode((TAGS[type(entry)], VERSION, *shortened(entry)))


def decode_entry(line: bytes | str) -> Entry:
    """The entry of one line that `encode_entry` made; `ValueError` for a tag or version this release does not
    know.
    """
    tag, version, *values = _decode(line)
    cls = _CLASSES.get(tag)
    if cls is None or version != VERSION:
        raise ValueError(f"journal entry `{tag}` of version `{version}` is not known to this release")
    build = _BUILDERS.get(cls)
    return cls(*values) if build is None else build(values)  # type: ignore[no-any-return]


def _started(values: list[Any]) -> Started:
    at, run_id, by, given, info, *rest = values
    limits = Limits(**rest[0]) if rest else Limits()
    return Started(at, run_id, Actor(**by) if by else Actor(""), given, info, limits, *rest[1:])


def _resumed(values: list[Any]) -> Resumed:
    at, run_id, *rest = values
    by = Actor(**rest[0]) if rest and rest[0] else None
    decisions = rest[1] if len(rest) > 1 else ()
    return Resumed(at, run_id, by, tuple(Decision(**d) for d in decisions), *rest[2:])


def _repaired(cls: type) -> Callable[[list[Any]], Any]:
    """The builder of an entry with arrays, which JSON gives as lists."""
    names = [one.name for one in structs.fields(cls)]
    arrays = [index for index, name in enumerate(names) if name in ("again", "skip", "input")]
    pinned = names.index("pinned")

    def build(values: list[Any]) -> Any:
        values[2] = Actor(**values[2])
        for index in arrays:
            if index < len(values):
                values[index] = tuple(values[index])
        if len(values) > pinned and values[pinned] is not None:
            values[pinned] = tuple(values[pinned])
        return cls(*values)

    return build


def _by_somebody(cls: type) -> Callable[[list[Any]], Any]:
    return lambda values: cls(values[0], Actor(**values[1]))


def _moved(values: list[Any]) -> Moved:
    at, by, pinned = values
    return Moved(at, Actor(**by), tuple(pinned))


def _in_a_frame(cls: type) -> Callable[[list[Any]], Any]:
    place = [one.name for one in structs.fields(cls)].index("within")

    def build(values: list[Any]) -> Any:
        if len(values) > place:
            values[place] = tuple(values[place])
        return cls(*values)

    return build


_BUILDERS: dict[type, Callable[[list[Any]], Any]] = {
    Started: _started,
    Resumed: _resumed,
    Retried: _repaired(Retried),
    Forked: _repaired(Forked),
    Moved: _moved,
    **{cls: _in_a_frame(cls) for cls in (Succeeded, Failed, Said, Progressed, Opened, Sent)},
    Paused: _by_somebody(Paused),
    Cancelled: _by_somebody(Cancelled),
}
