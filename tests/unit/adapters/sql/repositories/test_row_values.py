"""Compact rows: keys of ids, and first entries without values of their rows."""

import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.adapters.sql.repositories.row_values import from_key, to_key
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.bootstrap import open as open_core
from wfcore.domain.run.entries import Started
from wfcore.ports.journal import run_info
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

ORG = "00000000-0000-4000-8000-000000000001"
ASK = {
    "nodes": [{"id": "begin", "type": "start"}, {"id": "ask", "type": "humanApproval", "data": {"message": "go on?"}}],
    "edges": [{"id": "1", "source": "begin", "target": "ask"}],
}

TEXTS = st.one_of(
    st.uuids().map(str),
    st.uuids().map(lambda one: str(uuid.UUID(bytes=b"=" + one.bytes[1:]))),
    st.uuids().map(lambda one: str(one).upper()),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=14, max_size=17),
)


class TestKeys:
    @given(TEXTS, TEXTS)
    def test_keys_are_unique(self, one: str, other: str) -> None:
        """Every text is restored from its key, and two texts have one key only if they are equal."""
        assert from_key(to_key(one)) == one
        assert (to_key(one) == to_key(other)) == (one == other)

    def test_a_uuid_takes_sixteen_bytes(self) -> None:
        """None has the key None."""
        assert to_key(ORG) == uuid.UUID(ORG).bytes
        assert to_key(None) is from_key(None) is None


class TestWaitingRuns:
    async def test_one_transaction_stores_a_waiting_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run that waits at once is written once, without a claim and a due time. Its first entry has what the rows
        of the run do not have: its input, or nothing.
        """
        async with open_core(f"sqlite:///{tmp_path}/a.db", settings=Settings(synchronous="NORMAL", grace=0)) as core:
            await core.directory.create_organization("One", id=ORG)
            me = core.principal(ORG, user="u1")
            flow = await core.workflows.create(me, name="Ask", structure=ASK)
            await core.workflows.deploy(me, flow.id)
            database = core.ports.storage.database  # type: ignore[attr-defined]
            assert isinstance(database, Database)
            statements: list[str] = []
            database.commit_connection.set_trace_callback(statements.append)
            view = await core.runs.start(me, workflow=flow.id, input={})
            database.commit_connection.set_trace_callback(None)
            assert statements.count("COMMIT") == 1
            assert [text.split()[2] for text in statements if "INSERT" in text] == [
                f"wfcore_{table}" for table in ("executions", "runs", "journal", "interrupts")
            ]
            assert view.to_wire() == (await core.runs.get(me, view.id)).to_wire()
            other = await core.runs.start(me, workflow=flow.id, input={"n": 1})
            rows = database.look_up_connection.execute(
                "SELECT entry, wake_at, claimed_by FROM wfcore_journal JOIN wfcore_executions ON id = execution"
            ).fetchall()
            assert rows == [("", None, None), ('["start",1,0,"",null,{"n":1},{}]', None, None)]
            for run, given_input in ((view.id, {}), (other.id, {"n": 1})):
                row = await core.ports.journal.find_run(ORG, run)
                assert row is not None
                (started,) = await core.ports.journal.read(row.execution)
                assert isinstance(started, Started)
                assert (started.at, started.run_id, started.by.user_id) == (row.created_at, run, "u1")
                assert (started.input, started.info) == (given_input, run_info("workflow", flow.id, row.thread_id))
