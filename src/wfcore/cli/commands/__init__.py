"""The commands of `wfcore`."""
