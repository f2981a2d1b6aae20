"""`python -m wfcore` is the same as `wfcore`."""

import sys

from wfcore.cli.launch import main

sys.exit(main())
