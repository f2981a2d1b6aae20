"""The example product on Django: its users and groups, sync views, and the API beside them, on one SQLite file.

Django can be set up once in a process, so one database serves all tests of this module.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from test_examples import EXAMPLES
from waiting import HANG

from wfcore import NotFound
from wfcore.testing.contracts.dispatcher import eventually


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module `refunds` of the product, with Ann and the manager Max, and mail in memory."""
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(EXAMPLES / "django_refunds")
    patch.setenv("SHOP_DATABASE", str(tmp_path_factory.mktemp("django") / "shop.db"))
    patch.setenv("DJANGO_SETTINGS_MODULE", "settings")
    import django
    from django.core.management import call_command
    from django.db import connections
    from django.test.utils import setup_test_environment, teardown_test_environment

    django.setup()
    setup_test_environment()
    call_command("migrate", run_syncdb=True, verbosity=0)
    from django.contrib.auth.models import Group, User
    from refunds import automation

    managers = Group.objects.create(name=automation.MANAGERS)
    User.objects.create_user("ann", "ann@shop.example", "ann")
    User.objects.create_user("max", "max@shop.example", "max").groups.add(managers)
    connections.close_all()
    yield automation
    automation.automation.close()
    connections.close_all()
    teardown_test_environment()
    patch.undo()


def refunds_paid() -> list[tuple[int, str]]:
    from django.db import connections
    from refunds.models import Refund

    found = [(each.order, str(each.amount)) for each in Refund.objects.order_by("order")]
    connections.close_all()
    return found


class Browser:
    """A browser of one user: it sends the token against requests of other sites, as a page of the product does."""

    def __init__(self, application: Any) -> None:
        transport = httpx.ASGITransport(application)
        self.http = httpx.AsyncClient(transport=transport, base_url="https://shop.example")

    async def post(self, path: str, body: Any) -> httpx.Response:
        headers = {"X-CSRFToken": self.http.cookies.get("csrftoken", ""), "Referer": "https://shop.example/",
                   "Sec-Fetch-Site": "same-origin"}  # fmt: skip
        return await self.http.post(path, json=body, headers=headers)


@asynccontextmanager
async def signed_in(application: Any, *users: str) -> AsyncIterator[list[Browser]]:
    browsers = [Browser(application) for _ in users]
    async with application.router.lifespan_context(application):
        for user, browser in zip(users, browsers, strict=True):
            await browser.http.get("/login")
            assert (await browser.post("/login", {"user": user, "password": "no"})).status_code == 401
            assert (await browser.post("/login", {"user": user, "password": user})).status_code == 200
        yield browsers
        for browser in browsers:
            await browser.http.aclose()


async def ended(browser: Browser, run: str) -> str:
    """The status of a run on the mounted API, when its stream has ended."""
    assert (await browser.http.get(f"/automation/agent/v1/runs/{run}/events")).status_code == 200
    return str((await browser.http.get(f"/automation/agent/v1/runs/{run}")).json()["status"])


@pytest.mark.anyio
async def test_under_asgi(product: Any) -> None:
    """Views and the mounted API share users and one core; a large refund is paid after a manager follows a mail."""
    from asgi import application
    from django.core import mail

    async with signed_in(application, "ann", "max") as (ann, boss):
        forged = await ann.http.post("/refunds", json={"order": 0, "amount": "1.00"})
        assert forged.status_code == 403
        small = await ann.post("/refunds", {"order": 1, "amount": "40.50"})
        assert small.status_code == 202, small.text
        assert await ended(ann, small.json()["run"]) == "done"

        large = (await ann.post("/refunds", {"order": 2, "amount": "400.00"})).json()["run"]

        async def mailed() -> bool:
            return bool(mail.outbox)

        await eventually(mailed)
        assert (mail.outbox[0].to, mail.outbox[0].body) == (["max@shop.example"], f"Decide it: /approvals/{large}")
        assert (await ann.post(f"/approvals/{large}", {"decision": "approve"})).status_code == 403
        approved = await boss.post(f"/approvals/{large}", {"decision": "approve"})
        assert approved.status_code == 202, approved.text
        assert await ended(boss, approved.json()["run"]) == "done"

        for wrong in ({"order": 1, "amount": "-5"}, {"order": "x", "amount": 1}, {"order": 2**64, "amount": 1}, {}):
            assert (await ann.post("/refunds", wrong)).status_code == 422
        direct = {"workflowId": 1, "input": {"order": 1, "amount": "-5"}}
        assert (await ann.post("/automation/agent/v1/runs", direct)).status_code == 422
        for path in ("/refunds", "/approvals/x", "/login"):
            assert (await ann.post(path, [])).status_code == 400
        assert (await ann.http.get("/refunds")).status_code == 405

        me = await ann.http.get("/automation/api/v1/me")
        assert (me.status_code, me.json()["userId"]) == (200, "ann")
        ann.http.cookies.clear()
        assert (await ann.http.get("/automation/api/v1/me")).status_code == 401
    assert await asyncio.to_thread(refunds_paid) == [(1, "40.50"), (2, "400.00")]


def test_under_wsgi(product: Any) -> None:
    """Sync views without an event loop of their own: the core opens when it is first used, and runs in a thread."""
    from django.db import connections
    from django.test import Client
    from refunds.models import Request

    client = Client(headers={"host": "shop.example"})
    assert client.post("/refunds", "{}", content_type="application/json").status_code == 403
    assert client.login(username="ann", password="ann")
    sent = client.post("/refunds", {"order": 3, "amount": "7.00"}, content_type="application/json")
    assert sent.status_code == 202
    run = sent.json()["run"]
    assert Request.objects.get(order=3).run == run
    core = product.automation.core
    me = core.principal(product.ACME, user="ann")
    assert core.runs.result(core.runs.get(me, run), timeout=HANG) == "7.00"
    connections.close_all()
    assert (3, "7.00") in refunds_paid()
    product.automation.close()
    assert product.automation.core is not core


def test_a_rolled_back_request_has_no_run(product: Any) -> None:
    """The run is written in the transaction of the product."""
    from django.db import connection, connections, transaction
    from refunds.models import Request

    core = product.automation.core
    me = core.principal(product.ACME, user="ann")
    (flow,) = core.workflows.page(me)

    given = {"order": 9, "amount": "1.00"}

    def refund() -> None:
        with transaction.atomic():
            Request.objects.create(**given)
            run = core.runs.start(
                me,
                workflow=flow.id,
                input={"order": 9, "amount": "1.00"},
                key="run-9",
                connection=connection.connection,
            )
            assert run.id == "run-9"
            raise LookupError

    with pytest.raises(LookupError):
        refund()
    with pytest.raises(NotFound):
        core.runs.get(me, "run-9")
    assert not Request.objects.filter(order=9).exists()
    connections.close_all()


def test_ready_that_fails_is_called_again(product: Any) -> None:
    """No use gets a core without the workflows and handlers that `ready` makes."""
    from wfcore.contrib.django import DjangoAutomation

    calls: list[str] = []

    async def ready(core: Any) -> None:
        calls.append("ready")
        if len(calls) == 1:
            raise ConnectionError("not yet")

    automation = DjangoAutomation("sqlite://", principal=lambda core, user: None, ready=ready)
    with pytest.raises(ConnectionError, match="not yet"):
        _ = automation.core
    assert automation.core is automation.core
    assert len(calls) == 2
    automation.close()


def test_ready_that_uses_the_core_of_the_object(product: Any) -> None:
    """It says which one to use: it would wait for itself."""
    from wfcore.contrib.django import DjangoAutomation

    async def ready(core: Any) -> None:
        await asyncio.to_thread(lambda: automation.core)

    automation = DjangoAutomation("sqlite://", principal=lambda core, user: None, ready=ready)
    with pytest.raises(RuntimeError, match="use the core that `ready` receives"):
        _ = automation.core


@pytest.mark.anyio
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_error_in_a_view(product: Any, is_async: bool) -> None:
    """The middleware gives it its status, in sync and async views, and leaves errors of others to Django."""
    from asgiref.sync import sync_to_async
    from django.http import HttpRequest, HttpResponse
    from django.test import AsyncClient, override_settings
    from django.urls import path

    def sync_view(request: HttpRequest) -> HttpResponse:
        raise LookupError if "other" in request.GET else NotFound()

    async def async_view(request: HttpRequest) -> HttpResponse:
        return await sync_to_async(sync_view)(request)

    urls = type(sys)("urls_of_errors")
    urls.urlpatterns = [path("fails", async_view if is_async else sync_view)]
    with override_settings(ROOT_URLCONF=urls):
        client, headers = AsyncClient(), {"host": "shop.example", "x-request-id": "r-1"}
        found = await client.get("/fails", headers=headers)
        assert (found.status_code, found.headers["X-Request-Id"]) == (404, "r-1")
        assert found.json()["error"]["requestId"] == "r-1"
        with pytest.raises(LookupError):
            await client.get("/fails?other=1", headers=headers)


def test_the_tests_of_the_product(tmp_path: Path) -> None:
    """With the settings of its tests, they leave the database of the product alone."""
    shop = tmp_path / "shop.db"
    command = [sys.executable, "manage.py", "test", "--settings", "settings_test"]
    environment = {**os.environ, "SHOP_DATABASE": str(shop), "TMPDIR": str(tmp_path)}
    ended = subprocess.run(command, cwd=EXAMPLES / "django_refunds", env=environment, capture_output=True, text=True,
                           check=False, timeout=HANG)  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "Ran 1 test" in ended.stderr
    assert not shop.exists()


FORKED = """
import os, sys
from wfcore.contrib.django import DjangoAutomation

automation = DjangoAutomation("sqlite://", principal=lambda core, user: None)
before = automation.core
child = os.fork()
assert (automation.core is before) is bool(child)
automation.core.directory.create_organization("Acme")
automation.close()
sys.exit(child and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_forked_has_its_own_core() -> None:
    """As the workers of a WSGI server that loads the product first."""
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)
    assert (ended.returncode, ended.stderr) == (0, "")


SHORT = """
import sys
from wfcore.contrib.django import DjangoAutomation

automation = DjangoAutomation(sys.argv[1], principal=lambda core, user: None)
automation.core.directory.create_organization("Acme")
"""


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///{}/app.db", "sqlite+aiosqlite:///{}/app.db"])
def test_a_program_that_ends_at_once(url: str, tmp_path: Path) -> None:
    """As a command of Django does: the core closes before Python stops the executors that its store needs."""
    command = [sys.executable, "-W", "ignore", "-c", SHORT, url.format(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)
    assert (ended.returncode, ended.stderr) == (0, "")
