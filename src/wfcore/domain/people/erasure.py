"""The erasure of a person: which texts are replaced by a pseudonym, and what of a run's entries is the person's own.

A text that identifies is replaced wherever it occurs. One that can be an ordinary word (`ann`, `support`) is replaced
only where it is a whole value, so that no other text is damaged.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.people import Member
from wfcore.domain.resources.resource import Kind

LEAST: Final = 6
"""The shortest text that identifies."""

_WORD: Final = re.compile(r"[A-Za-z]{1,11}", re.ASCII)
"""An ordinary word."""


@attrs.frozen
class Erasure:
    """The erasure of a member that was requested and is not over.

    `id` is the pseudonym, `by` the user id of who requested it. `member` is None when no row has its texts any more,
    `is_removed` says that it is not a member any more. `resources` are deleted with it. `attachments` are the keys to
    which rows referred before.
    """

    id: str
    by: str
    member: Member | None
    is_removed: bool = False
    resources: tuple[tuple[Kind, int], ...] = ()
    attachments: frozenset[str] = frozenset()


def identifies(text: str) -> bool:
    """Whether a text is long and unusual enough to be replaced within other texts."""
    return len(text.strip()) >= LEAST and _WORD.fullmatch(text) is None


@attrs.frozen
class Substitution:
    """Replaces texts of a person.

    `whole` has texts that are replaced where they are a whole value, `within` those that are replaced wherever they
    occur, in any case.
    """

    whole: Mapping[str, str]
    within: Mapping[str, str]
    _pattern: re.Pattern[str] | None = attrs.field(init=False, eq=False)
    _raw: tuple[str, ...] = attrs.field(init=False, eq=False)

    @_pattern.default
    def _compiled(self) -> re.Pattern[str] | None:
        """A group for each text: what it matches in any case can have other letters, such as U+0131 for `i`."""
        texts = "|".join(f"({re.escape(text)})" for text in self._longest_first())
        return re.compile(rf"(?<!\w)(?:{texts})(?!\w)", re.IGNORECASE) if texts else None

    @_raw.default
    def _in_json(self) -> tuple[str, ...]:
        texts = {*self.whole, *self.within}
        escaped = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for text in texts for ascii_only in (True, False)}
        return tuple(sorted(each.lower() for each in texts | escaped))

    def text(self, text: str) -> str:
        """The text with the person's replaced."""
        if text in self.whole:
            return self.whole[text]
        if self._pattern is None:
            return text
        news = [self.within[name] for name in self._longest_first()]
        return self._pattern.sub(lambda found: news[(found.lastindex or 1) - 1], text)

    def _longest_first(self) -> list[str]:
        return sorted(self.within, key=len, reverse=True)

    def value(self, value: JSON) -> JSON:
        """The value with every text in it replaced, keys of objects too."""
        return replaced(value, self.text)

    def concerns(self, raw: str) -> bool:
        """Whether a text, plain or as JSON, may have something to replace. It is quick, and never False wrongly."""
        lowered = raw.lower()
        return any(text in lowered for text in self._raw)


def replaced(value: JSON, change: Callable[[str], str]) -> JSON:
    """The JSON value with `change` of every text, keys of objects included."""
    match value:
        case str():
            return change(value)
        case Mapping():
            return {change(name): replaced(item, change) for name, item in value.items()}
        case list() | tuple():
            return [replaced(item, change) for item in value]
    return value


BEFORE_USERS: Final = ("u:", "x:")
"""What stands before a user id in a subject of an index: of what the user can see, and of what it cannot decide."""


def of_member(member: Member, pseudonym: str) -> Substitution:
    """Replaces user id, e-mail address and name of a member by the pseudonym."""
    address = f"{pseudonym}@erased.invalid"
    whole = {f"{before}{member.user_id}": f"{before}{pseudonym}" for before in ("", *BEFORE_USERS)}
    within = {member.user_id: pseudonym} if identifies(member.user_id) else {}
    if member.email is not None:
        whole |= {member.email: address, f"e:{member.email}": f"e:{address}"}
        within |= {member.email: address}
    if member.name is not None and identifies(member.name):
        within |= {member.name: pseudonym}
    return Substitution(whole, within)


def of_texts(texts: Iterable[str], pseudonym: str) -> Substitution:
    """Replaces those of these texts that identify."""
    return Substitution({}, {text.strip(): pseudonym for text in texts if identifies(text)})
