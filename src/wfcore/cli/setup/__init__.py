"""Commands that prepare the use of wfcore: sign in, check the configuration, complete commands."""
