"""Settings of the tests: wfcore and Django use one new file, and never the database of the product."""

import tempfile
from pathlib import Path

from settings import *  # noqa: F403
from settings import DATABASES

FILE = Path(tempfile.mkdtemp()) / "test.db"
DATABASES = {"default": {**DATABASES["default"], "NAME": FILE, "TEST": {"NAME": FILE}}}
