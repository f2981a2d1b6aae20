"""wfcore in a product on Django: the users of its sessions, sync views, and the API beside them in one ASGI server.

    automation = DjangoAutomation(DATABASE, principal=principal_of, tools=[send_refund])  # in a module of the product
    application = automation.asgi(get_asgi_application(), "/automation")  # in asgi.py

`principal_of(core, user)` returns the principal of a user of Django. Views use `automation.core`, a `wfcore.SyncCore`;
under WSGI and in management commands it opens when it is first used.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import wfcore
from wfcore.extras import needs_extra

with needs_extra("server", "`wfcore.contrib.django`", beside="django"):
    from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
    from django.conf import settings
    from django.contrib.auth import get_user
    from django.core.exceptions import PermissionDenied
    from django.db import close_old_connections
    from django.http import HttpRequest, HttpResponse
    from django.utils.module_loading import import_string
    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp

    from wfcore.contrib.starlette import Ready, refusal
    from wfcore.contrib.sync_automation import SyncAutomation

__all__ = ["DjangoAutomation", "ErrorMiddleware", "database"]

Users = Callable[[wfcore.Core | wfcore.SyncCore, Any], wfcore.Principal | None]
"""The principal of an active user of Django, or None for a 401."""


class DjangoAutomation(SyncAutomation):
    """One core for the process.

    `database` is that of `wfcore.open`. `principal` is called for each request with the core and an active user of
    Django; None is a 401 of the API, and PermissionDenied in a view. `ready` is awaited once for each core, before its
    first use. `http` are options of `wfcore.http.app`, `options` of `wfcore.open`. Nothing is opened yet.
    """

    def __init__(
        self,
        database: Any,
        *,
        principal: Users,
        ready: Ready | None = None,
        http: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._users = principal
        super().__init__(database, authenticate=self._by_session, ready=ready, http=http, options=options)

    def principal(self, request: HttpRequest) -> wfcore.Principal:
        """The principal of a request, for views.

        Raises PermissionDenied, which Django answers with 403, for a user who is not signed in or not active, and for
        one without a principal.
        """
        found = self._principal(self.core, request.user)
        if found is None:
            raise PermissionDenied("sign in first")
        return found

    def asgi(self, application: ASGIApp, path: str = "/automation") -> ASGIApp:
        """The application of Django with wfcore mounted at `path`, for an ASGI server that supports lifespans.

        Views of Django have its own protection against requests of other sites (`CsrfViewMiddleware`); the API at
        `path`, which begins with a slash, has that of wfcore. The core opens with the lifespan, and `core` is then the
        same one.
        """
        return self._beside(application, path)

    async def _by_session(self, core: wfcore.Core, connection: HTTPConnection) -> wfcore.Principal | None:
        key = connection.cookies.get(settings.SESSION_COOKIE_NAME)
        return None if key is None else await sync_to_async(self._of_session)(core, key)

    def _of_session(self, core: wfcore.Core, key: str) -> wfcore.Principal | None:
        request = HttpRequest()
        request.session = import_string(f"{settings.SESSION_ENGINE}.SessionStore")(key)
        return self._principal(core, get_user(request))

    def _principal(self, core: "wfcore.Core | wfcore.SyncCore", user: Any) -> wfcore.Principal | None:
        return self._users(core, user) if user.is_authenticated and user.is_active else None


class ErrorMiddleware:
    """For `MIDDLEWARE`: an error of wfcore in a view gets its status and its JSON, as in the mounted API.

    Its `X-Request-Id` is that of the request, if that is a sane one, or new. Other errors are those of Django.
    """

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, wfcore.WfcoreError):
            return None
        found = refusal(error, request.headers.get("X-Request-Id"))
        return HttpResponse(found.body, status=found.status_code, headers=found.headers)


def database() -> Iterator[None]:
    """For `Annotated[None, wfcore.Provide(database)]`: a tool leaves no connection of Django open in its thread."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
