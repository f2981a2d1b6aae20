"""How a scenario is written: a function that plays one execution and keeps it, under its own name."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from bench import act

from wfcore.adapters.tools.catalog import tool
from wfcore.ports.providers import ToolCall

if TYPE_CHECKING:
    from recorder import Recorder

Scenario = Callable[["Recorder"], Awaitable[None]]

SCENARIOS: dict[str, Scenario] = {}


def scenario(play: Scenario) -> Scenario:
    SCENARIOS[play.__name__] = play
    return play


def plays(name: str, structure: Any, given: Any = None, **options: Any) -> None:
    """A scenario that runs one workflow until the turn has ended."""

    async def play(recorder: "Recorder") -> None:
        async with recorder.open(**options) as bench:
            await recorder.keep(bench, await bench.ran(structure, given))

    SCENARIOS[name] = play


def decides(name: str, structure: Any, *answers: dict[str, Any], given: Any = None, **options: Any) -> None:
    """A scenario that runs one workflow and answers what it waits for, one answer a turn."""

    async def play(recorder: "Recorder") -> None:
        async with recorder.open(**options) as bench:
            run = await bench.ran(structure, given)
            for answer in answers:
                by = bench.person(answer.get("by", "me"))
                body = {key: value for key, value in answer.items() if key != "by"}
                turn = await bench.core.runs.resume(by, run.id, body)
                run = await bench.ended(turn)
            await recorder.keep(bench, run)

    SCENARIOS[name] = play


def node(type: str, **data: Any) -> dict[str, Any]:
    return {"type": type, "data": data}


def child(number: int, given: Any = None, **more: Any) -> dict[str, Any]:
    return act("core.workflow", workflowId=number, more=more, **({} if given is None else {"input": given}))


@tool
async def measure(call: ToolCall, size: int = 2) -> int:
    """Report that half of it is done."""
    call.progress(size / 2, size, "half")
    return size


@tool
async def charge(call: ToolCall, amount: int = 1) -> str:
    """Charge an amount; it must not be called twice."""
    return f"charged {amount}"
