"""Tests for programs that embed wfcore, and for adapters: contract suites, strategies, builders and fakes.

    from wfcore.testing import FakeClock, ScriptedModel, StorageContract, run_until_idle

A contract suite is a class of tests: a subclass writes the factory methods and inherits every test. Each name is loaded
when it is first used: importing this package loads neither pytest nor hypothesis, which most of the names need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wfcore.extras import needs_extra

if TYPE_CHECKING:
    from wfcore.adapters.models.scripted import ScriptedModel
    from wfcore.testing.cassettes import Cassette, NotRecorded
    from wfcore.testing.contracts.blobs import BlobsContract, BlobsCrashContract
    from wfcore.testing.contracts.checks.guardrails import GuardrailContract
    from wfcore.testing.contracts.checks.verifiers import TokenVerifierContract
    from wfcore.testing.contracts.dispatcher import DispatcherContract
    from wfcore.testing.contracts.events import ChangesContract, EventsContract
    from wfcore.testing.contracts.interrupted.journals import JournalCrashContract
    from wfcore.testing.contracts.journal import JournalContract
    from wfcore.testing.contracts.memories import MemoriesContract, WordsContract
    from wfcore.testing.contracts.models import ModelsContract
    from wfcore.testing.contracts.outbound import OutboundContract
    from wfcore.testing.contracts.postings import PostingsContract
    from wfcore.testing.contracts.processes.hints import HintsContract
    from wfcore.testing.contracts.processes.rate_limiter import RateLimiterContract
    from wfcore.testing.contracts.storage.hooks import HooksContract
    from wfcore.testing.contracts.storage.interrupted import StorageCrashContract
    from wfcore.testing.contracts.storage.state_machine import StorageMachine
    from wfcore.testing.contracts.storage.storage import StorageContract
    from wfcore.testing.contracts.stores.maintenance import MaintenanceContract
    from wfcore.testing.contracts.stores.run_limits import RunLimitsContract
    from wfcore.testing.contracts.system import ClockContract, IdsContract
    from wfcore.testing.contracts.telemetry import TelemetryContract
    from wfcore.testing.contracts.tool_servers import ToolServersContract
    from wfcore.testing.contracts.tools import ToolsContract
    from wfcore.testing.fakes import FakeClock, SequentialIds
    from wfcore.testing.graphs import BrokenGraph, broken_graphs, deployable_graphs
    from wfcore.testing.histories import History, sketch
    from wfcore.testing.idle import run_until_idle
    from wfcore.testing.recorded_runs import ReplayDiffers, replays

__all__ = [
    "BlobsContract",
    "BlobsCrashContract",
    "BrokenGraph",
    "Cassette",
    "ChangesContract",
    "ClockContract",
    "DispatcherContract",
    "EventsContract",
    "FakeClock",
    "GuardrailContract",
    "HintsContract",
    "History",
    "HooksContract",
    "IdsContract",
    "JournalContract",
    "JournalCrashContract",
    "MaintenanceContract",
    "MemoriesContract",
    "ModelsContract",
    "NotRecorded",
    "OutboundContract",
    "PostingsContract",
    "RateLimiterContract",
    "ReplayDiffers",
    "RunLimitsContract",
    "ScriptedModel",
    "SequentialIds",
    "StorageContract",
    "StorageCrashContract",
    "StorageMachine",
    "TelemetryContract",
    "TokenVerifierContract",
    "ToolServersContract",
    "ToolsContract",
    "WordsContract",
    "broken_graphs",
    "deployable_graphs",
    "replays",
    "run_until_idle",
    "sketch",
]

_WHERE = {
    "BlobsContract": "wfcore.testing.contracts.blobs",
    "BlobsCrashContract": "wfcore.testing.contracts.blobs",
    "BrokenGraph": "wfcore.testing.graphs",
    "Cassette": "wfcore.testing.cassettes",
    "ChangesContract": "wfcore.testing.contracts.events",
    "ClockContract": "wfcore.testing.contracts.system",
    "DispatcherContract": "wfcore.testing.contracts.dispatcher",
    "EventsContract": "wfcore.testing.contracts.events",
    "FakeClock": "wfcore.testing.fakes",
    "GuardrailContract": "wfcore.testing.contracts.checks.guardrails",
    "HintsContract": "wfcore.testing.contracts.processes.hints",
    "History": "wfcore.testing.histories",
    "HooksContract": "wfcore.testing.contracts.storage.hooks",
    "IdsContract": "wfcore.testing.contracts.system",
    "JournalContract": "wfcore.testing.contracts.journal",
    "JournalCrashContract": "wfcore.testing.contracts.interrupted.journals",
    "MaintenanceContract": "wfcore.testing.contracts.stores.maintenance",
    "MemoriesContract": "wfcore.testing.contracts.memories",
    "ModelsContract": "wfcore.testing.contracts.models",
    "NotRecorded": "wfcore.testing.cassettes",
    "OutboundContract": "wfcore.testing.contracts.outbound",
    "PostingsContract": "wfcore.testing.contracts.postings",
    "RateLimiterContract": "wfcore.testing.contracts.processes.rate_limiter",
    "ReplayDiffers": "wfcore.testing.recorded_runs",
    "RunLimitsContract": "wfcore.testing.contracts.stores.run_limits",
    "ScriptedModel": "wfcore.adapters.models.scripted",
    "SequentialIds": "wfcore.testing.fakes",
    "StorageContract": "wfcore.testing.contracts.storage.storage",
    "StorageCrashContract": "wfcore.testing.contracts.storage.interrupted",
    "StorageMachine": "wfcore.testing.contracts.storage.state_machine",
    "TelemetryContract": "wfcore.testing.contracts.telemetry",
    "TokenVerifierContract": "wfcore.testing.contracts.checks.verifiers",
    "ToolServersContract": "wfcore.testing.contracts.tool_servers",
    "ToolsContract": "wfcore.testing.contracts.tools",
    "WordsContract": "wfcore.testing.contracts.memories",
    "broken_graphs": "wfcore.testing.graphs",
    "deployable_graphs": "wfcore.testing.graphs",
    "replays": "wfcore.testing.recorded_runs",
    "run_until_idle": "wfcore.testing.idle",
    "sketch": "wfcore.testing.histories",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        with needs_extra("testing", f"`wfcore.testing.{name}`"):
            return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module `wfcore.testing` has no attribute `{name}`")


def __dir__() -> list[str]:
    return __all__
