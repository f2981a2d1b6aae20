"""A completion as it is streamed, validated and bounded: the part that all wire formats share. It does no I/O.

The SDKs do not validate what they read, so everything is checked here and in the classes of the formats.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wfcore.domain.json.codec import fingerprint, text_of
from wfcore.domain.kernel.json_readers import as_objects
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import INCOMPLETE
from wfcore.ports.providers import CallCollector, Delta, Finished, ModelError, TextDelta, TokenUsage, ToolCallDelta

LONGEST_TEXT: Final = 1_000_000
"""Characters of a completion's text; a longer one is refused."""
LONGEST_CALL_NAME: Final = 64
FINAL: Final = frozenset({"length", "refusal"})
"""Endings that a later one does not replace."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)


class Completion(ABC):
    """One completion so far. The subclass of a wire format reads its events.

    Every method raises ModelError; the completion is then void, and reading must stop. `usage` is the last usage that
    the provider reported, also of an incomplete completion.
    """

    def __init__(self, *, tools: bool) -> None:
        self.usage: TokenUsage | None = None
        self._tools = tools
        self._calls = CallCollector()
        self._length = 0
        self._surrogates: dict[int, str] = {}
        self._reason: str | None = None

    @abstractmethod
    def read_event(self, event: Any) -> Iterator[Delta]:
        """The deltas of one event of the wire, as the SDK returns it."""

    def finish(self) -> Iterable[Delta]:
        """The last deltas, after the end of the stream. Raises ModelError if the completion is incomplete."""
        if self._reason is None or self._surrogates:
            raise ModelError("the stream ended before the model's response was complete", reason=INCOMPLETE)
        has_calls = len(self._calls) > 0
        reason = "tool_calls" if has_calls and self._reason == "stop" else self._reason
        if reason == "tool_calls" and not has_calls:
            raise ModelError("the model ended with `tool_calls`, but called no tool", retryable=self._tools)
        return (Finished(reason),) if self.usage is None else (self.usage, Finished(reason))

    def add_text(self, text: Any) -> Iterator[Delta]:
        """Append text; None and "" add nothing."""
        if whole := self._complete_text(-1, text):
            self._length += len(whole)
            if self._length > LONGEST_TEXT:
                raise ModelError(f"the model's response is longer than {LONGEST_TEXT} characters")
            yield TextDelta(whole)

    def begin_call(self, id: Any, name: Any) -> Iterator[Delta]:
        """Begin the next tool call. Its index is the value of `calls_begun` before. Some servers send no id: it gets
        one, as results need it.
        """
        if not self._tools:
            raise ModelError("the model called a tool, but the request had no tools", retryable=False)
        index = len(self._calls)
        yield self._added(ToolCallDelta(index, _text(id) or f"call_without_id_{index}", _text(name)))

    def add_arguments(self, index: int, arguments: Any) -> Iterator[Delta]:
        """Append arguments to the tool call `index`."""
        if whole := self._complete_text(index, arguments):
            yield self._added(ToolCallDelta(index, arguments=whole))

    @property
    def calls_begun(self) -> int:
        """The number of tool calls so far."""
        return len(self._calls)

    def set_ending(self, reason: Any, known: Mapping[str, str]) -> None:
        """Set why the completion ended, from the wire's `reason`; None is ignored. A refusal is final, and a completion
        that was cut does not become whole.

        `known` maps reasons of the wire to those of `Finished`.
        """
        if reason is None:
            return
        ending = known.get(str(reason))
        if ending is None:
            raise ModelError(f"the model ended with the unknown reason `{str(reason)[:40]}`", retryable=False)
        if self._reason not in FINAL or ending == "refusal":
            self._reason = ending

    def _added(self, delta: ToolCallDelta) -> ToolCallDelta:
        self._calls.add(delta)
        return delta

    def _complete_text(self, place: int, text: Any) -> str:
        """The text without half a surrogate pair at its end, which is prepended to the next piece of the same place.

        In JSON a character outside the Basic Multilingual Plane is two escapes, and providers split between them.
        """
        whole = self._surrogates.pop(place, "") + _text(text)
        if "\ud800" <= whole[-1:] <= "\udbff":
            self._surrogates[place] = whole[-1:]
            whole = whole[:-1]
        try:
            return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise unreadable() from None


def unreadable() -> ModelError:
    """The error for a response that violates the provider's format."""
    return ModelError("the model's response is not in the provider's format")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise unreadable()
    return value


def list_or_empty(value: Any) -> list[Any]:
    """A list of the wire; [] if it is missing. Raises ModelError for another type."""
    if value is not None and not isinstance(value, list):
        raise unreadable()
    return value or []


def token_count(value: Any) -> int | None:
    """A number of tokens of the wire; None for an invalid value."""
    return value if type(value) is int and value >= 0 else None


# Earlier messages, in a form that each server accepts: servers refuse a conversation with a single malformed call.


def call_id(call: Any) -> str:
    """The id of an earlier call, or one derived from it if a server would refuse it."""
    text = str(call)
    return text if _ID.fullmatch(text) else f"call_{fingerprint(text)[:32]}"


def call_name(call: Mapping[str, JSON]) -> str:
    """The name in an earlier call, which can be the name of an unknown tool."""
    return _NO_NAME.sub("_", str(call["name"]))[:LONGEST_CALL_NAME] or "_"


def call_arguments(call: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The arguments of an earlier call. Those that are not an object are wrapped in one, under `malformed`."""
    args = call.get("args")
    if args is None:
        return {}
    return args if isinstance(args, Mapping) else {"malformed": text_of(args)}


def calls_of(message: Mapping[str, JSON]) -> Sequence[Mapping[str, JSON]]:
    """The tool calls of a message."""
    return as_objects(message.get("toolCalls") or ())


def content_of(message: Mapping[str, JSON]) -> str:
    """The text of a message; "" if it has none."""
    return str(message.get("content") or "")


def images_of(message: Mapping[str, JSON]) -> list[tuple[str, str]]:
    """Type and base64 of each image of a message."""
    return [(str(image["mimeType"]), str(image["data"])) for image in as_objects(message.get("images") or ())]
