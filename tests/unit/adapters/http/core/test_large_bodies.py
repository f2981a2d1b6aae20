"""Large bodies do not hold up the event loop: hostile shapes are parsed in a thread."""

import asyncio
from collections.abc import Callable
from time import thread_time

import pytest
from starlette.datastructures import Headers

from wfcore.adapters.http.core.request_parsing import LARGE_BODY, parse_body
from wfcore.api.runs import CreateRun
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Malformed

pytestmark = pytest.mark.anyio

HEADERS = Headers({"Content-Type": "application/json"})
SIZE = 10 * 2**20
SHAPES: dict[str, Callable[[], bytes]] = {
    "distinct keys": lambda: b"{" + b",".join(b'"%045d":1' % number for number in range(190_000)) + b"}",
    "repeated keys": lambda: b"{" + b",".join([b'"k":1'] * 199_000) + b"}",
    "NUL in keys": lambda: b"{" + b",".join(b'"\\u0000%039d":1' % number for number in range(190_000)) + b"}",
    "long numbers": lambda: b"[" + b",".join([b"9" * 50] * 199_000) + b"]",
    "long fractions": lambda: b"[" + b",".join([b"1." + b"3" * 45] * 190_000) + b"]",
    "escapes": lambda: b'{"a":"' + b"\\\\" * (SIZE // 2) + b'"}',
    "depth": lambda: b'{"a":' * (SIZE // 5),
    "values": lambda: b"[0" + b",0" * (SIZE // 2) + b"]",
}
"""Made by the test: each process that only imports the module would hold 70 MB."""


@pytest.mark.parametrize("name", SHAPES)
async def test_a_hostile_body_costs_the_loop_little(name: str) -> None:
    """The CPU of the loop is less than a third of that of the parser, and others run meanwhile."""
    raw, turns = SHAPES[name](), list[None]()
    assert len(raw) > LARGE_BODY

    async def other() -> None:
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    began = thread_time()
    await parsed(raw, by_thread=False)
    whole = thread_time() - began
    await asyncio.to_thread(int)  # the first thread of a loop costs more
    began = thread_time()
    await parsed(raw, by_thread=True)
    on_loop = thread_time() - began
    assert on_loop < whole / 3
    beside = asyncio.create_task(other())
    await parsed(raw, by_thread=True)
    beside.cancel()
    assert turns


async def parsed(raw: bytes, *, by_thread: bool) -> None:
    try:
        if by_thread:
            await parse_body(raw, HEADERS, CreateRun, required=True)
        else:
            parse_json(raw)
    except Malformed:
        return
