"""The command line: `wfcore`, or `python -m wfcore`."""
