"""Rules about the runs of a graph, as values and as text (interface, Embedding: `--rule`).

    never("pay").without(approved("ask"))    never pay without approved ask
    always_ends_in("paid", or_in_error=True)  always ends in paid or in error
    at_most("mail", 1)                       at most 1 mail

A node *begins* when its visit does: an action that requires approval begins before it is approved.
"""

import re
from collections.abc import Sequence
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Issue, refuse

MAX_RULE: Final = 2_000
"""The most characters of a rule's text."""

LARGEST_COUNT: Final = 1_000
MAX_SHOWN: Final = 100


@attrs.frozen
class Outcome:
    """A node ended in this way: `approved`, `denied`, `expired`, `done`, `failed`, or the handle of a condition."""

    node: str
    way: str

    def __str__(self) -> str:
        return f"{_quoted(self.way)} {_quoted(self.node)}"


@attrs.frozen
class Never:
    """`node` does not begin before one of the outcomes `unless` happened in the same run; without any, not at all."""

    node: str
    unless: tuple[Outcome, ...] = ()

    def without(self, *outcomes: Outcome) -> "Never":
        """The rule that one of these outcomes must come before the node. TypeError for anything else."""
        for one in outcomes:
            if not isinstance(one, Outcome):
                raise TypeError('`without` takes outcomes, such as `approved("ask")`')
        return attrs.evolve(self, unless=(*self.unless, *outcomes))

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.node, *(one.node for one in self.unless))

    def __str__(self) -> str:
        without = f" without {' or '.join(map(str, self.unless))}" if self.unless else ""
        return f"never {_quoted(self.node)}{without}"


@attrs.frozen
class AtMost:
    """A run makes at most `count` calls of the node: one for each visit, with `forEach` one for each item.

    Retries are not counted, since they repeat a call with its key.
    """

    node: str
    count: int

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.node,)

    def __str__(self) -> str:
        return f"at most {self.count} {_quoted(self.node)}"


@attrs.frozen
class AlwaysEndsIn:
    """Every run ends as `done`, and the output of one of these nodes is part of its output.

    `or_in_error`: a run can also end in error.
    """

    ends: tuple[str, ...]
    or_in_error: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.ends

    def __str__(self) -> str:
        ends = [_quoted(name) for name in self.ends] + ["in error"] * self.or_in_error
        return f"always ends in {' or '.join(ends)}"


Rule = Never | AtMost | AlwaysEndsIn


# The words of rules in Python


def never(node: str) -> Never:
    """The node never begins; with `.without(...)`, not before one of these outcomes."""
    return Never(node)


def at_most(node: str, count: int) -> AtMost:
    """A run makes at most `count` calls of this node. ValueError for a count that is not an integer from 0 to 1,000."""
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= LARGEST_COUNT:
        raise ValueError(f"`count` must be an integer from 0 to {LARGEST_COUNT}")
    return AtMost(node, count)


def always_ends_in(*nodes: str, or_in_error: bool = False) -> AlwaysEndsIn:
    """Every run ends in one of these nodes. ValueError without a node."""
    if not nodes:
        raise ValueError("`always_ends_in` needs at least one node")
    return AlwaysEndsIn(nodes, or_in_error)


def outcome(node: str, way: str) -> Outcome:
    """The node ended in this way, which can be the handle of a condition."""
    return Outcome(node, way)


def approved(node: str) -> Outcome:
    """A person approved this humanApproval; its deadline did not."""
    return Outcome(node, "approved")


def denied(node: str) -> Outcome:
    """A person denied this humanApproval, or this action that requires approval."""
    return Outcome(node, "denied")


def expired(node: str) -> Outcome:
    """The deadline of this humanApproval passed."""
    return Outcome(node, "expired")


def done(node: str) -> Outcome:
    """This action or agent succeeded."""
    return Outcome(node, "done")


def failed(node: str) -> Outcome:
    """This node failed, after its retries."""
    return Outcome(node, "failed")


# The text of rules

GRAMMAR: Final = (
    "`never NODE`, `never NODE without OUTCOME NODE or OUTCOME NODE`, `always ends in NODE or NODE or in error`, "
    "or `at most NUMBER NODE`"
)


def parse_rule(text: str, path: str = "rule") -> Rule:
    """The rule of this text. Ids with spaces, and ids like words of the grammar, stand in double quotes.

    Invalid, with an issue at `path`, for a text that is not a rule.
    """
    words = _words(text) if len(text) <= MAX_RULE else None
    rule = _rule(words) if words else None
    if rule is None:
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
        refuse([Issue(path, f"`{shown}` is not a rule: use {GRAMMAR}", "rule")], as_invalid=True)
    assert rule is not None  # noqa: S101  (refused)
    return rule


@attrs.frozen
class _Word:
    """A word of a text. `plain` is the same if it is not quoted: only such a word can be one of the grammar."""

    text: str
    plain: str | None = None


_WORD: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)+)"|([^\s"]+))(?=\s|\Z)', re.DOTALL)


def _words(text: str) -> list[_Word] | None:
    """The words of a text; None when a quotation mark is not closed."""
    found, at, text = [], 0, text.strip()
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None:
            return None
        quoted, plain = match.groups()
        found.append(_Word(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)) if quoted else _Word(plain, plain))
        at = match.end()
    return found


def _rule(words: Sequence[_Word]) -> Rule | None:
    match [word.plain for word in words]:
        case ["never", _]:
            return Never(words[1].text)
        case ["never", _, "without", *_]:
            unless = [_outcome(part) for part in _parts(words[3:])]
            return Never(words[1].text, tuple(filter(None, unless))) if all(unless) else None
        case ["always", "ends", "in", *_]:
            return _always_ends(words[3:])
        case ["at", "most", str() as count, _] if re.fullmatch("[0-9]{1,4}", count) and int(count) <= LARGEST_COUNT:
            return AtMost(words[3].text, int(count))
    return None


def _outcome(part: Sequence[_Word]) -> Outcome | None:
    return Outcome(part[1].text, part[0].text) if len(part) == 2 else None


def _always_ends(words: Sequence[_Word]) -> AlwaysEndsIn | None:
    parts = _parts(words)
    nodes = [part for part in parts if [word.plain for word in part] != ["in", "error"]]
    if not nodes or any(len(part) != 1 for part in nodes):
        return None
    return AlwaysEndsIn(tuple(part[0].text for part in nodes), or_in_error=len(nodes) < len(parts))


def _parts(words: Sequence[_Word]) -> list[list[_Word]]:
    """The words between the `or`s."""
    parts: list[list[_Word]] = [[]]
    for word in words:
        if word.plain == "or":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


_KEYWORDS: Final = frozenset({"never", "without", "or", "always", "ends", "in", "at", "most", "error"})


def _quoted(name: str) -> str:
    if name not in _KEYWORDS and re.fullmatch(r'[^\s"]+', name):
        return name
    return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
