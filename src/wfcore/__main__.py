"""`python -m wfcore` is the same as `wfcore`."""

import sys

from wfcore.cli.main import main

sys.exit(main())
