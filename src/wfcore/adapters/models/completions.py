"""An answer as it comes in, checked and bounded: what all wire formats have in common. It knows no wire and no clock.

The SDKs validate nothing of what they read, so everything is checked here and in the formats' own classes.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from wfcore.domain.json.codec import dumps, fingerprint
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import CallCollector, Delta, Finished, ModelError, TextDelta, TokenUsage, ToolCallDelta

LONGEST_TEXT: Final = 1_000_000
"""Characters of an answer's text. A provider that never ends is cut."""
LONGEST_SAID_NAME: Final = 64

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)


class Completion(ABC):
    """What has come of one answer. A format's class reads its events with `say`, `call` and `ends`.

    Whatever raises here raises ModelError; the answer is then none, and is not to be read on. `usage` is what was told
    of it last, half an answer's too.
    """

    def __init__(self, *, tools: bool) -> None:
        self.usage: TokenUsage | None = None
        self._tools = tools
        self._calls = CallCollector()
        self._length = 0
        self._halves: dict[int, str] = {}
        self._reason: str | None = None

    @abstractmethod
    def take(self, event: Any) -> Iterator[Delta]:
        """What one event of the wire, as the SDK gives it, adds to the answer."""

    def finish(self) -> Iterable[Delta]:
        """The last parts, once the wire has ended: there they are, or it ended too early."""
        if self._reason is None or self._halves:
            raise ModelError("the model broke off before its answer was whole")
        asked = len(self._calls) > 0
        reason = "tool_calls" if asked and self._reason == "stop" else self._reason
        if reason == "tool_calls" and not asked:
            raise ModelError("the model ended to call tools, and called none", retryable=self._tools)
        return (Finished(reason),) if self.usage is None else (self.usage, Finished(reason))

    def say(self, text: Any) -> Iterator[Delta]:
        """Some more text; None and the empty one are none."""
        if whole := self._whole(-1, text):
            self._length += len(whole)
            if self._length > LONGEST_TEXT:
                raise ModelError(f"the model's answer has more than {LONGEST_TEXT} characters")
            yield TextDelta(whole)

    def begin(self, id: Any, name: Any) -> Iterator[Delta]:
        """The next tool call begins; its index is what `begun` was before."""
        if not self._tools:
            raise ModelError("the model asked for a tool, and has none", retryable=False)
        yield self._added(ToolCallDelta(len(self._calls), _text(id), _text(name)))

    def go_on(self, index: int, arguments: Any) -> Iterator[Delta]:
        """Some more arguments of a tool call that has begun."""
        if whole := self._whole(index, arguments):
            yield self._added(ToolCallDelta(index, arguments=whole))

    @property
    def begun(self) -> int:
        """How many tool calls have begun."""
        return len(self._calls)

    def ends(self, reason: Any, known: Mapping[str, str]) -> None:
        """Why the answer ends in the wire's word, if it is told; a refusal is not taken back."""
        if reason is None:
            return
        ending = known.get(str(reason))
        if ending is None:
            raise ModelError(f"the model ended with `{str(reason)[:40]}`", retryable=False)
        self._reason = "refusal" if self._reason == "refusal" else ending

    def _added(self, delta: ToolCallDelta) -> ToolCallDelta:
        self._calls.add(delta)
        return delta

    def _whole(self, place: int, text: Any) -> str:
        """The text, less half a character at its end, which is kept for the next piece of the same place.

        In JSON a character outside the Basic Multilingual Plane is two escapes, and providers cut between them.
        """
        whole = self._halves.pop(place, "") + _text(text)
        if "\ud800" <= whole[-1:] <= "\udbff":
            self._halves[place] = whole[-1:]
            whole = whole[:-1]
        try:
            return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise unreadable() from None


def unreadable() -> ModelError:
    return ModelError("the model's answer cannot be read: it is not of the provider's format")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise unreadable()
    return value


def listed(value: Any) -> list[Any]:
    """A list of the wire, which may be missing."""
    if value is not None and not isinstance(value, list):
        raise unreadable()
    return value or []


def tokens(value: Any) -> int | None:
    """A number of tokens of the wire; None for what is no number."""
    return value if type(value) is int and value >= 0 else None


# What was said before, to be told again. Servers refuse a conversation for one call that they would not have made.


def said_id(call: Any) -> str:
    """The id of an earlier call: as it is, if it fits every wire, else one made of it."""
    text = str(call)
    return text if _ID.fullmatch(text) else f"call_{fingerprint(text)[:32]}"


def said_name(call: Mapping[str, JSON]) -> str:
    """The name that an earlier call used, which may be that of no tool."""
    return _NO_NAME.sub("_", str(call["name"]))[:LONGEST_SAID_NAME] or "_"


def said_arguments(call: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The arguments of an earlier call. Those that are no object are told as what they are."""
    args = call.get("args")
    if args is None:
        return {}
    return args if isinstance(args, Mapping) else {"malformed": args if isinstance(args, str) else dumps(args)}


def content_of(message: Mapping[str, JSON]) -> str:
    """The text of a message; "" where it has none."""
    return str(message.get("content") or "")


def images_of(message: Mapping[str, JSON]) -> list[tuple[str, str]]:
    """Type and base64 of each image of a message."""
    return [(str(image["mimeType"]), str(image["data"])) for image in message.get("images") or ()]
