"""docs/tutorial.md: every file and command of the page works as it stands, in an empty directory."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from extra_uses import PROJECT
from packaging.requirements import Requirement
from server_process import free_port
from test_extras import beyond_the_core, closure, packages_of
from waiting import HANG

PAGE = (Path(__file__).parents[3] / "docs/tutorial.md").read_text()
BLOCK = re.compile(
    r"(?:Write `([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```(?:\n\n^```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL
)
INSTALL = (
    'mkdir refunds && cd refunds\npython3 -m venv .venv\n. .venv/bin/activate\npip install "wfcore[server,cli,http]"\n'
)
MARK = "=== next block ==="


def parts() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The files of the page, and its commands with the output that it shows."""
    files, commands = dict[str, str](), list[tuple[str, str]]()
    for name, language, text, output in BLOCK.findall(PAGE):
        if name:
            files[name] = text
        elif language == "shell":
            commands.append((text, output))
    return files, commands


def blocked() -> str:
    """The installed packages that the page's `pip install` does not install."""
    wanted = INSTALL.partition("[")[2].partition("]")[0].split(",")
    extras = PROJECT["optional-dependencies"]
    needed = {name for extra in wanted for text in extras[extra] for name in closure(Requirement(text).name)}
    return ",".join(beyond_the_core() - packages_of(frozenset(needed)))


def installed(place: Path) -> Path:
    """The directory of a `wfcore` that can import only what the page installs."""
    place.mkdir()
    script = place / "wfcore"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        f"from blocked import Blocked\nsys.meta_path.insert(0, Blocked({blocked()!r}.split(',')))\n"
        "from wfcore.cli.launch import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    return place


def shown_by(wanted: str, printed: str) -> bool:
    """Whether the page shows what was printed; `...` stands for any text."""
    pattern = re.escape(wanted.strip()).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def test_output_is_compared() -> None:
    """`...` stands for any text, also of several lines; everything else must be equal."""
    assert shown_by("a\n...\nz\n", "a\nb\nc\nz")
    assert shown_by('{"id":1...}', '{"id":1,"name":"x"}\n')
    assert not shown_by("a", "a\nb")


def test_the_tutorial_works(tmp_path: Path) -> None:
    """The files are written and the commands run in their order, in one shell; each prints what the page shows."""
    files, commands = parts()
    assert commands[0] == (INSTALL, ""), "the test stands for the installation"
    assert set(files) == {"shop.py", "refunds.json"}
    assert len(commands) >= 9
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    port = str(free_port())
    script = "".join(f"{command.replace('8080', port)}\necho; echo '{MARK}'\n" for command, _ in commands[1:])
    settings = {name: value for name, value in os.environ.items() if not name.startswith("WFCORE_")}
    path = os.pathsep.join([str(installed(tmp_path / "bin")), settings["PATH"]])
    out, err = tmp_path / "printed.out", tmp_path / "printed.err"
    with out.open("w") as stdout, err.open("w") as stderr:
        shell = subprocess.Popen(
            ["bash", "-c", f"set -eum\n{script}"],
            cwd=tmp_path, env={**settings, "PATH": path, "WFCORE_PORT": port}, stdout=stdout, stderr=stderr,
        )  # fmt: skip
        try:
            status = shell.wait(timeout=HANG)
        finally:
            _end(tmp_path)
            shell.wait()
    printed, errors = out.read_text(), err.read_text()
    assert status == 0, f"{printed}\n{errors}"
    outputs = printed.split(f"\n{MARK}\n")[:-1]
    for (command, wanted), output in zip(commands[1:], outputs, strict=True):
        shown = "" if "simulate" in command else wanted.replace("8080", port)
        assert shown_by(shown, output), f"{command}\n--- shows ---\n{wanted}\n--- printed ---\n{output}"
    assert "holds: never pay without approved ask\n" in errors
    assert (tmp_path / "refunds.txt").read_text() == commands[-1][1]


def _end(directory: Path) -> None:
    """End servers that a failed step has left in this directory."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            here = (process / "cwd").resolve() == directory.resolve()
        except OSError:
            continue
        if here:
            os.kill(int(process.name), signal.SIGKILL)


@pytest.mark.parametrize("line", [line for line in PAGE.splitlines() if not line.startswith("     ")])
def test_lines_fit(line: str) -> None:
    assert len(line) <= 120
