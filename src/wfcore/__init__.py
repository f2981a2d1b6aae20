"""wfcore: workflows and agents for your own Python product."""
