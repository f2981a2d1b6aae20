"""The run machine: what has happened goes in, what is to be done and what is to be shown comes out."""
