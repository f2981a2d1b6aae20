"""`wfcore completion`: scripts that complete commands and options, made from the parser."""

from typing import Literal

from wfcore.cli.common import DATABASE, UnusedDatabase


async def completion(shell: Literal["bash", "zsh", "fish"], /, *, database: UnusedDatabase = DATABASE) -> None:
    """Print the script for a shell. In bash: `source <(wfcore completion bash)`.

    Parameters
    ----------
    shell
        In zsh, write it as `_wfcore` to a directory of `fpath`; in fish, as `wfcore.fish` to its `completions`.
    """
    from wfcore.cli.main import app

    print(app.generate_completion(shell=shell))  # noqa: T201
