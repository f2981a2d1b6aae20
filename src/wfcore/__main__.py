"""`python -m wfcore`: the command line."""

from wfcore.cli.main import main

if __name__ == "__main__":
    main()
