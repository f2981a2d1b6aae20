"""The commands of Django for this product.

.venv/bin/python examples/django_refunds/manage.py migrate --run-syncdb
.venv/bin/python examples/django_refunds/manage.py createsuperuser
.venv/bin/uvicorn --app-dir examples/django_refunds asgi:application
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    execute_from_command_line(sys.argv)
