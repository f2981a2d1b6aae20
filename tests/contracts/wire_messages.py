"""Responses in Anthropic's Messages wire format, for the stub server."""

import json
from collections.abc import Mapping
from typing import Any

from wire_stub import arguments_of, slices


def message_event(kind: str, **fields: Any) -> bytes:
    """An event of the stream: the name of each is repeated in its data."""
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def starts(**usage: int) -> bytes:
    start = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "stop_reason": None}
    return message_event("message_start", message={**start, "usage": usage or {"input_tokens": 7, "output_tokens": 1}})


def opens(index: int, kind: str = "text", **fields: Any) -> bytes:
    block = {"type": kind, **({"text": ""} if kind == "text" else {}), **fields}
    return message_event("content_block_start", index=index, content_block=block)


def fills(index: int, kind: str = "text_delta", **fields: Any) -> bytes:
    return message_event("content_block_delta", index=index, delta={"type": kind, **fields})


def closes(index: int) -> bytes:
    return message_event("content_block_stop", index=index)


def stops(reason: str | None, **usage: int) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return message_event("message_delta", delta=delta, usage=usage or {"output_tokens": 3})


LAST = message_event("message_stop")
PING = message_event("ping")


def message_frames(message: Mapping[str, Any], stop: str | None = None) -> list[bytes]:
    """A whole answer: its text three characters at a time, its calls' arguments five."""
    calls = message.get("toolCalls") or ()
    frames = [starts(), opens(0), PING, *(fills(0, text=text) for text in slices(message["content"], 3)), closes(0)]
    for index, call in enumerate(calls, 1):
        frames.append(opens(index, "tool_use", id=call["id"], name=call["name"], input={}))
        parts = slices(arguments_of(call), 5)
        frames += [fills(index, "input_json_delta", partial_json=part) for part in ["", *parts]]
        frames.append(closes(index))
    return [*frames, stops(stop or ("tool_use" if calls else "end_turn")), LAST]
