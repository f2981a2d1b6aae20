"""`wfcore completion`."""

import subprocess

import pytest

from wfcore.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the commands and options of the parser."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("workflow", "rollback", "user-id", "wfcore"))
    assert main(["completion", "tcsh"]) == 2


def test_bash_completes_a_command_and_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    """In a real bash: `workflow ro` is `rollback`, `serve --po` is `--port`."""
    main(["completion", "bash"])
    script = capsys.readouterr().out
    for words, expected in ((("workflow", "roll"), "rollback"), (("serve", "--por"), "--port")):
        line = " ".join(("wfcore", *words))
        ask = (
            f'COMP_WORDS=({line}); COMP_CWORD=2; COMP_LINE="{line}"; COMP_POINT={len(line)}\n'
            'work=$(complete -p wfcore); work=${work##*-F }; ${work%% *}; echo "${COMPREPLY[@]}"'
        )
        shown = subprocess.run(["bash"], input=f"{script}\n{ask}\n", capture_output=True, text=True, check=False)
        assert (shown.stdout.strip(), shown.stderr) == (expected, "")
