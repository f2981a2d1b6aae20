"""The ASGI application: the product, with wfcore at `/automation`."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django_application = get_asgi_application()

from refunds.automation import automation  # noqa: E402  (Django must be set up first)

application = automation.asgi(django_application, "/automation")
