"""Lines of stdin, read without blocking the event loop."""

import asyncio
import os
from pathlib import Path

from wfcore.cli.lines import Lines


def test_reading_does_not_block_the_event_loop(tmp_path: Path) -> None:
    """Lines can arrive in pieces, several at once, without a last line end, from a pipe or a file; None is the end."""

    async def read(descriptor: int, *written: tuple[int, bytes]) -> list[str | None]:
        lines, found = Lines(descriptor), list[str | None]()

        async def write() -> None:
            for target, text in written:
                os.write(target, text)
                await asyncio.sleep(0)
            for target in {target for target, _ in written}:
                os.close(target)

        writing = asyncio.create_task(write())
        while not found or found[-1] is not None:
            found.append(await lines.next())
        await writing
        return [*found, await lines.next()]

    reads, writes = os.pipe()
    text = "é\r\nb\n\nlast"
    pieces = [(writes, bytes([byte])) for byte in text.encode()] + [(writes, b"\xff\n")]
    assert asyncio.run(read(reads, *pieces)) == ["é", "b", "", "last\ufffd", None, None]
    os.close(reads)
    (tmp_path / "lines").write_text(text)
    with (tmp_path / "lines").open("rb") as file:
        assert asyncio.run(read(file.fileno())) == ["é", "b", "", "last", None, None]


def test_pasted_lines_do_not_answer_a_prompt() -> None:
    """Before a prompt, lines that a terminal already has are discarded; those of a pipe are kept."""

    async def read(reads: int, writes: int) -> list[str | None]:
        lines = Lines(reads)
        os.write(writes, b"a message\napprove\napp")
        found = [await lines.next()]
        lines.discard_typed_ahead()
        os.write(writes, b"\ndeny\n")
        return [*found, await lines.next(), await lines.next()]

    keyboard, terminal = os.openpty()
    reads, writes = os.pipe()
    assert asyncio.run(read(terminal, keyboard)) == ["a message", "", "deny"]
    assert asyncio.run(read(reads, writes)) == ["a message", "approve", "app"]
    for descriptor in (keyboard, terminal, reads, writes):
        os.close(descriptor)
