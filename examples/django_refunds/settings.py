"""Settings of the product. `SHOP_DATABASE` is the file of its database, in which wfcore has its tables too."""

import os
from pathlib import Path

import django

FILE = Path(os.environ.get("SHOP_DATABASE", "shop.db")).absolute()

SECRET_KEY = os.environ.get("SHOP_SECRET", "only for this example")
DEBUG = False
ALLOWED_HOSTS = ["shop.example", "localhost", "127.0.0.1"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": FILE,
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},  # a reader that becomes a writer would fail, not wait
    }
}
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "refunds"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "wfcore.contrib.django.ErrorMiddleware",
]
ROOT_URLCONF = "urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CONSOLE = "django.core.mail.backends.console.EmailBackend"
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": CONSOLE}}
else:
    EMAIL_BACKEND = CONSOLE
