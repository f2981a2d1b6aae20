"""The pytest plugin, in test suites as embedders write them."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import HANG

import wfcore
from wfcore.testing import FakeClock, ScriptedModel, run_until_idle, sketch
from wfcore.testing.plugin import wfcore_clock, wfcore_core, wfcore_core_sync, wfcore_model

__all__ = ["wfcore_clock", "wfcore_core", "wfcore_core_sync", "wfcore_model"]

OPTIONS = ("-p", "no:wfcore", "-p", "wfcore.testing.plugin", "-p", "no:cacheprovider", "-p", "no:xdist")

SUITE = """
import pytest
from wfcore.testing import run_until_idle, sketch


async def send_refund(order: int) -> dict:
    return {"refunded": order}


@pytest.fixture
def wfcore_options():
    return {"tools": [send_refund]}


PAY = {"toolId": "send_refund", "params": {"order": "{{ input.order }}"}}
WAIT = {"toolId": "core.wait", "params": {"seconds": 86_400}}
GRAPH = sketch("s -> wait", "wait -> pay", pay=PAY, wait=WAIT)


async def test_refund(wfcore_core, wfcore_clock):
    org = await wfcore_core.directory.create_organization("Acme")
    me = wfcore_core.principal(org.uuid, "ann")
    flow = await wfcore_core.workflows.create(me, name="Refunds", structure=GRAPH)
    await wfcore_core.workflows.deploy(me, flow.id)
    run = await wfcore_core.runs.start(me, workflow=flow.id, input={"order": 7})
    before = wfcore_clock.now()
    await run_until_idle(wfcore_core)
    assert (await wfcore_core.runs.get(me, run.id)).output == {"refunded": 7}
    assert wfcore_clock.now() - before == 86_400_000


def test_refund_sync(wfcore_core_sync):
    core = wfcore_core_sync
    org = core.directory.create_organization("Acme")
    me = core.principal(org.uuid, "ann")
    flow = core.workflows.create(me, name="Refunds", structure=GRAPH)
    core.workflows.deploy(me, flow.id)
    run = core.runs.start(me, workflow=flow.id, input={"order": 7})
    core.call(run_until_idle)
    assert core.runs.get(me, run.id).output == {"refunded": 7}
"""

AGENT = """
import pytest


async def said(core, model):
    org = await core.directory.create_organization("Acme")
    me = core.principal(org.uuid, "ann")
    run = await core.runs.chat(me, message="hello")
    return await core.runs.result(run)


async def test_script(wfcore_core, wfcore_model):
    wfcore_model.play("Good morning.")
    assert await said(wfcore_core, wfcore_model) == "Good morning."
    assert "hello" in str(wfcore_model.requests[0].messages)


async def test_script_that_ends(wfcore_core, wfcore_model):
    wfcore_model.play("Good morning.")
    await said(wfcore_core, wfcore_model)
    with pytest.raises(Exception, match="has 1 replies, and 2 requests came"):
        await said(wfcore_core, wfcore_model)
"""

OWN_BACKEND = """
import pytest


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


async def test_open(wfcore_core):
    assert wfcore_core.ports is not None


async def test_other_backends_are_not_changed(anyio_backend):
    assert anyio_backend == "asyncio"
"""

CONTRACT = """
from wfcore.adapters.inmemory.blobs import InMemoryBlobs
from wfcore.testing import BlobsContract


class Forgetful(InMemoryBlobs):
    async def get(self, org, key):
        return b"wrong"


class TestForgetful(BlobsContract):
    async def open_blobs(self, place):
        return Forgetful()
"""


LIGHT = """
import sys


def test_nothing_is_loaded():
    assert "wfcore.bootstrap" not in sys.modules
"""


def test_suites_of_embedders(tmp_path: Path) -> None:
    """In a process of its own: a core, async and sync, with tools of the suite, and a clock that skips a day; a script
    that ends too early; a backend that the suite has chosen; a contract whose failure shows values.
    """
    suites = {"a_light": LIGHT, "agent": AGENT, "backend": OWN_BACKEND, "contract": CONTRACT, "product": SUITE}
    for name, text in suites.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-v", *OPTIONS, "-k", "not Contract and not Forgetful or put_content"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANG)
    lines = ended.stdout.splitlines()
    passed = {line.split("::")[-1].split()[0] for line in lines if " PASSED" in line}
    assert passed == {
        "test_nothing_is_loaded", "test_script[asyncio]", "test_script_that_ends[asyncio]", "test_open",
        "test_other_backends_are_not_changed", "test_refund[asyncio]", "test_refund_sync",
    }, ended.stdout  # fmt: skip
    for shown in (
        "AssertionError: the script of the model has 1 replies, and 2 requests came",
        "assert b'wrong' == b''",
    ):
        assert f" {shown}" in ended.stdout, ended.stdout
    assert re.fullmatch(r"=+ 3 failed, 7 passed, \d+ deselected, 1 error in .*", lines[-1]), ended.stdout


# The fixtures in this process, as names of this module: `pyproject.toml` switches the entry point off, because it loads
# the package before coverage begins


@pytest.fixture
def wfcore_options() -> dict[str, Any]:
    return {"models": {"other": ScriptedModel("from the other")}, "settings": wfcore.Settings(grace=1)}


async def test_options_and_fixtures(
    wfcore_core: wfcore.Core, wfcore_model: ScriptedModel, wfcore_clock: FakeClock
) -> None:
    """The core has the clock, the model beside those of the suite, and its settings."""
    assert (wfcore_core.ports.clock, wfcore_core.ports.settings.grace) == (wfcore_clock, 1)
    assert set(wfcore_core.ports.models) == {"default", "other"}
    wfcore_model.play("hello")
    org = await wfcore_core.directory.create_organization("Acme")
    run = await wfcore_core.runs.chat(wfcore_core.principal(org.uuid, "ann"), message="hi")
    assert await wfcore_core.runs.result(run) == "hello"


def test_sync(wfcore_core_sync: wfcore.SyncCore) -> None:
    """Without an event loop."""
    org = wfcore_core_sync.directory.create_organization("Acme")
    me = wfcore_core_sync.principal(org.uuid, "ann")
    wait = {"toolId": "core.wait", "params": {"seconds": 86_400}}
    flow = wfcore_core_sync.workflows.create(me, name="Wait", structure=sketch("s -> a", a=wait))
    wfcore_core_sync.workflows.deploy(me, flow.id)
    run = wfcore_core_sync.runs.start(me, workflow=flow.id, input={})
    wfcore_core_sync.call(run_until_idle)
    assert wfcore_core_sync.runs.get(me, run.id).status == "done"
