"""The examples run as they stand in the repository."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from waiting import HANG

REPOSITORY = Path(__file__).parents[3]
EXAMPLES = REPOSITORY / "examples"


def load(file: Path) -> ModuleType:
    spec = util.spec_from_file_location(f"example_{file.parent.name}_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The demo


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files of a fresh clone that the demo needs, without a git history."""
    shutil.copytree(EXAMPLES / "release_notes", tmp_path / "examples" / "release_notes")
    (tmp_path / "pyproject.toml").write_text('version = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n- add a report\n- fix a window\n")
    return tmp_path


def demo(clone: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WFCORE_", "DEMO_"))}
    ceiling = {"GIT_CEILING_DIRECTORIES": str(clone.parent)}
    command = [sys.executable, str(clone / "examples" / "release_notes" / "demo.py")]
    ended = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=clone,
        env=environment | ceiling,
        timeout=HANG,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_the_demo_survives_the_kill_of_its_worker(clone: Path) -> None:
    """Twice in a row: a worker is killed while the run is parked, and another one completes the run."""
    for _ in range(2):
        output = demo(clone)
        started = re.findall(r"worker ([0-9]+) started", output)
        killed = re.findall(r"worker ([0-9]+) killed \(SIGKILL\)", output)
        assert len(set(started)) == 2
        assert killed == started[:1]
        assert "approved, since there is no terminal for a prompt" in output
        assert "scripted" in output
        notes = (clone / ".demo" / "RELEASE_NOTES.md").read_text()
        assert notes.startswith("# Version v1.2.3\n")
        assert "## Added\n\n- add a report (line 2; CHANGELOG.md)" in notes
        assert "## Fixed\n\n- fix a window" in notes
        with sqlite3.connect(clone / ".demo" / "wfcore.db") as database:
            turns = database.execute("SELECT count(*) FROM wfcore_runs").fetchone()
        database.close()
        assert turns == (2,), "one to the approval, one after it"


def test_changes_come_from_the_git_history(tmp_path: Path) -> None:
    """The changes are the commits, the newest first, without merges."""
    tools = load(EXAMPLES / "release_notes" / "tools.py")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for subject in ("first", "add `x` | and more"):
        (tmp_path / "file").write_text(subject)
        subprocess.run(["git", "-C", str(tmp_path), "add", "file"], check=True)
        subprocess.run(["git", "-C", str(tmp_path), *identity, "commit", "-qm", subject], check=True)
    found = tools.collect_changes(str(tmp_path))
    assert [change["subject"] for change in found["changes"]] == ["add `x` | and more", "first"]
    assert found["source"] == "git history, 2 commit(s)"


def test_without_history_and_documents_there_are_no_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No git repository, no CHANGELOG.md and no README.md: no changes, and the source says so."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    tools = load(EXAMPLES / "release_notes" / "tools.py")
    found = tools.collect_changes(str(tmp_path))
    assert found["changes"] == []
    assert "no git history" in found["source"]


# Embedding


FLOW = {
    "name": "Invoices",
    "type": "workflow",
    "workflowStructure": {
        "nodes": [
            {"id": "start", "type": "start"},
            {
                "id": "bill",
                "type": "action",
                "data": {"toolId": "send_invoice", "params": {"customer": "{{ input.customer }}", "amount": 7.5}},
            },
        ],
        "edges": [{"id": "e", "source": "start", "target": "bill"}],
    },
}


def embedding(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The product, whose modules import each other as with `uvicorn --app-dir`."""
    monkeypatch.syspath_prepend(EXAMPLES / "embedding")
    return load(EXAMPLES / "embedding" / "app.py")


def client_of(product: ModuleType, application: object) -> httpx.AsyncClient:
    """A browser on a page of the product."""
    headers = {"Sec-Fetch-Site": "same-origin"}
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(application), base_url="https://product.example", headers=headers
    )


async def logged_in(client: httpx.AsyncClient, user: str) -> None:
    answer = await client.post("/login", json={"user": user, "password": f"{user}'s"})
    assert answer.status_code == 200


@pytest.mark.anyio
async def test_the_products_users_see_only_their_organizations_workflows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of the product authenticate: each user sees only the workflows of the own company."""
    product = embedding(monkeypatch)
    application = product.build("sqlite://")
    base = "/automation/api/v1/workflows"
    async with (
        application.router.lifespan_context(application),
        client_of(product, application) as ann,
        client_of(product, application) as bob,
        client_of(product, application) as nobody,
    ):
        await logged_in(ann, "ann")
        await logged_in(bob, "bob")
        made = await ann.post(base, json=FLOW)
        assert made.status_code == 201
        place = made.headers["Location"]
        assert place == f"{base}/{made.json()['id']}"

        assert [row["name"] for row in (await ann.get(base)).json()["workflows"]] == ["Billing", "Invoices"]
        assert (await ann.get(place)).status_code == 200
        assert [row["name"] for row in (await bob.get(base)).json()["workflows"]] == ["Billing"]
        assert (await bob.get(place)).status_code == 404
        assert (await nobody.get(base)).status_code == 401
        refused = await nobody.post("/login", json={"user": "ann", "password": "bob's"})
        assert refused.status_code == 401


@pytest.mark.anyio
async def test_a_workflow_uses_the_products_own_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run over the mounted API sends an invoice of the product, for the company of the user who started it."""
    product = embedding(monkeypatch)
    application = product.build("sqlite://")
    async with application.router.lifespan_context(application), client_of(product, application) as ann:
        await logged_in(ann, "ann")
        number = (await ann.post("/automation/api/v1/workflows", json=FLOW)).json()["id"]
        assert (await ann.post(f"/automation/api/v1/workflows/{number}/deploy")).status_code == 200
        stream = await ann.post("/automation/agent/v1/runs", json={"workflowId": number, "input": {"customer": "Zed"}})
        assert '"kind":"done"' in stream.text
    invoice = {"number": 1, "customer": "Zed", "amount": 7.5, "company": product.COMPANIES["Acme"]}
    assert list(product.INVOICES.values()) == [invoice]


@pytest.mark.anyio
async def test_the_product_refuses_wrong_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a run starts."""
    product = embedding(monkeypatch)
    application = product.build("sqlite://")
    async with application.router.lifespan_context(application), client_of(product, application) as ann:
        await logged_in(ann, "ann")
        for wrong in ({"amount": 5}, {"customer": "x", "amount": "-5"}, {"customer": "x", "amount": []},
                      {"customer": "x", "amount": "inf"}, {"customer": "", "amount": 5}):  # fmt: skip
            assert (await ann.post("/invoices", json=wrong)).status_code == 422
        for path in ("/invoices", "/login"):
            for body in (b"", b"no", b"[]", b"\xff"):
                assert (await ann.post(path, content=body)).status_code == 400
        assert (await ann.post("/login", json={"user": "ann", "password": 5})).status_code == 401


@pytest.mark.anyio
async def test_a_token_of_the_portal_acts_for_one_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The portal alone gets it. It reaches the billing of the user's company and nothing else."""
    product = embedding(monkeypatch)
    application = product.build("sqlite://")
    async with application.router.lifespan_context(application), client_of(product, application) as page:
        portal = {"Authorization": f"Bearer {product.PORTAL_KEY}"}
        assert (await page.post("/portal-tokens", json={"user": "bob"})).status_code == 401
        assert (await page.post("/portal-tokens", json={"user": "eve"}, headers=portal)).status_code == 404
        token = (await page.post("/portal-tokens", json={"user": "bob"}, headers=portal)).json()["token"]
        bob = {"Authorization": f"Bearer {token}"}
        assert (await page.get("/automation/api/v1/me", headers=bob)).json()["userId"] == "bob"
        assert (await page.post("/automation/api/v1/workflows", json=FLOW, headers=bob)).status_code == 403
        for wrong in (token[:-1], "a.b.c"):
            answer = await page.get("/automation/api/v1/me", headers={"Authorization": f"Bearer {wrong}"})
            assert answer.status_code == 401, wrong


@pytest.mark.anyio
async def test_the_product_is_built_twice_on_one_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second start uses the workflows of the first."""
    found = []
    for _ in range(2):
        application = embedding(monkeypatch).build(f"sqlite:///{tmp_path}/product.db")
        async with application.router.lifespan_context(application):
            found.append(application.state.billing)
    assert found[0] == found[1]
