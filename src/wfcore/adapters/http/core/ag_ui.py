"""The events of a run as events of AG-UI 1.0, for clients that ask for this profile of the stream.

A run's event can become several events. What AG-UI does not know is a `CUSTOM` event with the name of its kind.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, Required, TypedDict

from starlette.datastructures import Headers

from wfcore.adapters.http.core.sse import frame, message
from wfcore.domain.channels.ag_ui import PAUSED
from wfcore.domain.json.codec import JsonObject, dumps, text_of
from wfcore.domain.kernel.json_readers import as_integer, as_object, as_objects, as_text, as_texts, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import Event, EventKind, ModelUsage

Json = dict[str, JSON]

PROFILE: Final = "ag-ui"
VERSION: Final = "1.0"

_TOKENS: Final = ("inputTokens", "outputTokens")
_NODE_ENDED: Final = (EventKind.node_failed, EventKind.node_retrying, EventKind.node_skipped)


AgUiType = Literal[
    "RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "STEP_STARTED", "STEP_FINISHED",
    "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
    "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "CUSTOM",
]  # fmt: skip


class AgUiEvent(TypedDict, total=False):
    """One event of AG-UI 1.0; which of the other fields it has depends on its `type`."""

    type: Required[AgUiType]
    timestamp: int
    protocolVersion: str
    threadId: str
    runId: str
    parentRunId: str
    stepName: str
    messageId: str
    role: str
    delta: str
    content: str
    toolCallId: str
    toolCallName: str
    name: str
    value: Any
    result: Any
    outcome: JsonObject
    usage: list[ModelUsage]
    message: str
    code: str


def wants_ag_ui(headers: Headers) -> bool:
    """Whether `Accept` has an event stream with the parameter `profile=ag-ui`."""
    for value in headers.getlist("Accept"):
        if PROFILE not in value.lower():
            continue
        for media_range in value.split(","):
            name, *parameters = (part.strip().lower() for part in media_range.split(";"))
            if name == "text/event-stream" and {f"profile={PROFILE}", f'profile="{PROFILE}"'} & set(parameters):
                return True
    return False


def refusal(message: str, code: str) -> Json:
    """The only event of a stream that was refused."""
    return {"type": "RUN_ERROR", "message": message, "code": code}


class AgUiFrames:
    """Encodes the events of one turn, from its first: those up to `after` are read, and not sent again."""

    def __init__(self, thread_id: str, after: int = 0) -> None:
        self._events = AgUiEvents(thread_id)
        self._after = after

    def __call__(self, event: Event) -> bytes:
        """The frames of this event. The last one has its `seq`, after which a client can continue."""
        made = self._events.of(event)
        if event.seq <= self._after or not made:
            return b""
        *before, last = made
        return b"".join([*map(message, before), frame(event.seq, last)])


class AgUiEvents:
    """The AG-UI events of one turn, in order: every step, message and call that begins also ends (AG-UI, Events)."""

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id
        self._steps = Counter[str]()
        self._texts: dict[str, tuple[str, str]] = {}
        """The messages that have begun: by id, their node and their text so far."""
        self._said = set[str]()
        self._calls: dict[tuple[str, str], str] = {}
        """The AG-UI ids of calls, by node and id: models can number the calls of each round from 1."""
        self._numbers = Counter[str]()
        self._interrupts = set[str]()
        self._usage: dict[str, Json] = {}
        self._makers: Mapping[EventKind, Callable[[Event], Iterator[Json]]] = {
            EventKind.run_started: self._run_started,
            EventKind.node_started: self._node_started,
            EventKind.node_finished: self._node_finished,
            EventKind.message_delta: self._message_delta,
            EventKind.message: self._message,
            EventKind.message_replaced: self._message_replaced,
            EventKind.tool_call: self._tool_call,
            EventKind.tool_result: self._tool_result,
            EventKind.interrupt: self._interrupt,
            EventKind.usage: self._used,
            EventKind.done: self._done,
            EventKind.cancelled: self._cancelled,
            EventKind.error: self._error,
            **dict.fromkeys(_NODE_ENDED, self._node_ended),
        }

    def of(self, event: Event) -> list[Json]:
        """The AG-UI events for the next event of the turn."""
        make = self._makers.get(event.kind, self._custom)
        return [{**one, "timestamp": event.at} for one in make(event)]

    # Runs

    def _run_started(self, event: Event) -> Iterator[Json]:
        parent = optional_text(event.data.get("parentRunId"))
        about = {} if parent is None else {"parentRunId": parent}
        yield {"type": "RUN_STARTED", "protocolVersion": VERSION, **self._run(event), **about}

    def _done(self, event: Event) -> Iterator[Json]:
        yield from self._ended()
        result = {} if event.output is None else {"result": event.output}
        if event.data["status"] == "interrupted":
            outcome = yield from self._parked(event)
        else:
            outcome = {"type": "success"}
            if isinstance(event.output, str) and event.output and event.output not in self._said:
                yield from _whole_message(f"{event.run_id}-output", event.output)
        yield {"type": "RUN_FINISHED", **self._run(event), **result, "outcome": outcome, **self._usage_fields()}

    def _parked(self, event: Event) -> Generator[Json, None, Json]:
        """The interrupts that this turn has not shown yet. Returns the outcome."""
        waiting = as_objects(event.data.get("interrupts") or ())
        for one in waiting:
            if one["interruptId"] not in self._interrupts:
                yield _named("interrupt", {**one, "runId": event.run_id})
        if not waiting:
            waiting = [{"interruptId": PAUSED, "type": PAUSED, "message": "The run was paused on request"}]
            yield _named("interrupt", {**waiting[0], "runId": event.run_id})
        return {"type": "interrupt", "interrupts": [self._to_interrupt(one) for one in waiting]}

    def _to_interrupt(self, one: Mapping[str, JSON]) -> Json:
        call = optional_text(one.get("toolCallId"))
        texts = {name: one[name] for name in ("message", "expiresAt") if one.get(name) is not None}
        called = {} if call is None else {"toolCallId": self._call_id(_place(one), call)}
        reason = {"connect": "wfcore:connect", PAUSED: "wfcore:paused"}.get(
            as_text(one["type"]), "confirmation" if call is None else "tool_call"
        )
        expected = {"responseSchema": _answer_schema(one)} if one["type"] == "approval" else {}
        return {"id": one["interruptId"], "reason": reason, **texts, **called, **expected, "metadata": dict(one)}

    def _cancelled(self, event: Event) -> Iterator[Json]:
        yield from self._ended()
        yield {"type": "RUN_FINISHED", **self._run(event), "outcome": {"type": "cancelled"}, **self._usage_fields()}

    def _error(self, event: Event) -> Iterator[Json]:
        yield from self._ended()
        error = as_object(event.error)
        yield {**refusal(as_text(error["message"]), as_text(error["code"])), **self._usage_fields()}

    def _run(self, event: Event) -> Json:
        return {"threadId": self._thread_id, "runId": event.run_id}

    def _usage_fields(self) -> Json:
        return {"usage": list(self._usage.values())} if self._usage else {}

    def _ended(self) -> Iterator[Json]:
        """Ends whatever is still open."""
        yield from self._end_texts(list(self._texts))
        for step in self._steps.elements():
            yield {"type": "STEP_FINISHED", "stepName": step}
        self._steps.clear()

    # Nodes

    def _node_started(self, event: Event) -> Iterator[Json]:
        place = _place(event.data)
        if not self._steps[place]:
            yield {"type": "STEP_STARTED", "stepName": place}
        self._steps[place] = 1

    def _node_finished(self, event: Event) -> Iterator[Json]:
        """A node that an earlier turn has started begins in this one too."""
        yield from self._node_started(event)
        yield from self._step_ended(event)

    def _node_ended(self, event: Event) -> Iterator[Json]:
        yield from self._step_ended(event, is_over=event.kind is not EventKind.node_retrying)
        yield from self._custom(event)

    def _step_ended(self, event: Event, *, is_over: bool = True) -> Iterator[Json]:
        place = _place(event.data)
        yield from self._end_texts([name for name, (node, _) in self._texts.items() if node == place])
        if is_over and self._steps.pop(place, 0):
            yield {"type": "STEP_FINISHED", "stepName": place}

    # Messages

    def _message_delta(self, event: Event) -> Iterator[Json]:
        yield from self._text(event, event.text)

    def _message(self, event: Event) -> Iterator[Json]:
        """The rest of a message of which the client may have the beginning."""
        message_id, content = as_text(event.data["messageId"]), event.text
        _, shown = self._texts.get(message_id, ("", ""))
        if not content.startswith(shown):
            yield from self._message_replaced(event)
            return
        yield from self._text(event, content[len(shown) :])
        yield from self._end_texts([message_id])
        self._said.add(content)

    def _message_replaced(self, event: Event) -> Iterator[Json]:
        """AG-UI cannot replace a text that was sent: the client gets the other one as a `CUSTOM` event."""
        yield from self._end_texts([as_text(event.data["messageId"])])
        yield _named(str(EventKind.message_replaced), {"runId": event.run_id, **event.data})

    def _text(self, event: Event, delta: str) -> Iterator[Json]:
        message_id, place = as_text(event.data["messageId"]), _place(event.data)
        path = as_texts(event.data.get("path") or ())
        if message_id not in self._texts:
            self._texts[message_id] = (place, "")
            yield {
                "type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant",
                **({"name": "/".join(path)} if path else {}),
            }  # fmt: skip
        if delta:
            self._texts[message_id] = (place, self._texts[message_id][1] + delta)
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta}

    def _end_texts(self, message_ids: Iterable[str]) -> Iterator[Json]:
        for message_id in message_ids:
            if self._texts.pop(message_id, None) is not None:
                yield {"type": "TEXT_MESSAGE_END", "messageId": message_id}

    # Calls of tools

    def _tool_call(self, event: Event) -> Iterator[Json]:
        call, place = as_text(event.data["toolCallId"]), _place(event.data)
        self._numbers[call] += 1
        number = self._numbers[call]
        name = self._calls[place, call] = call if number == 1 else f"{call}-{number}"
        yield {"type": "TOOL_CALL_START", "toolCallId": name, "toolCallName": event.data["name"]}
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": name, "delta": dumps(event.data["arguments"])}
        yield {"type": "TOOL_CALL_END", "toolCallId": name}

    def _tool_result(self, event: Event) -> Iterator[Json]:
        name = self._call_id(_place(event.data), as_text(event.data["toolCallId"]))
        value = {"error": event.error} if event.error else event.output
        content = text_of(value)
        yield {
            "type": "TOOL_CALL_RESULT", "messageId": f"{event.run_id}-{event.seq}", "toolCallId": name,
            "content": content, "role": "tool",
        }  # fmt: skip

    def _call_id(self, place: str, call: str) -> str:
        """The AG-UI id of a call, which can be of an earlier turn."""
        return self._calls.get((place, call), call)

    # Others

    def _interrupt(self, event: Event) -> Iterator[Json]:
        self._interrupts.add(event.interrupt_id or "")
        yield from self._custom(event)

    def _used(self, event: Event) -> Iterator[Json]:
        usage = as_object(event.data["usage"])
        model = optional_text(usage.get("model")) or ""
        total = self._usage.setdefault(model, {"model": model} if model else {})
        for name in _TOKENS:
            total[name] = as_integer(total.get(name, 0)) + as_integer(usage.get(name, 0))
        yield from self._custom(event)

    def _custom(self, event: Event) -> Iterator[Json]:
        yield _named(str(event.kind), {"runId": event.run_id, **event.data})


def _named(name: str, value: Mapping[str, JSON]) -> Json:
    return {"type": "CUSTOM", "name": name, "value": dict(value)}


def _whole_message(message_id: str, text: str) -> Iterator[Json]:
    yield {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"}
    yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": text}
    yield {"type": "TEXT_MESSAGE_END", "messageId": message_id}


def _place(data: Mapping[str, JSON]) -> str:
    """The node in words, with those that lead to it: `team/ask`, or `each[2]/ask` in the third child of a list."""
    path = as_texts(data.get("path") or ())
    items = data.get("items") or [None] * len(path)
    assert isinstance(items, list)  # noqa: S101  (its shape)
    around = [name if item is None else f"{name}[{item}]" for name, item in zip(path, items, strict=True)]
    return "/".join([*around, str(data.get("nodeId") or "")])


def _answer_schema(interrupt: Mapping[str, JSON]) -> Json:
    """What answers an approval: a decision, and the data of its form."""
    form = interrupt.get("formSchema")
    return {
        "type": "object",
        "properties": {
            "decision": {"type": "string", "enum": ["approve", "deny"]},
            **({} if form is None else {"data": form}),
        },
        "required": ["decision"],
    }  # fmt: skip
