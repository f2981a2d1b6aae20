"""Each extra is optional: without its packages the core works, and a use of the extra names it."""

import subprocess
import sys
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from extra_uses import EXTRAS, GOAL, PROJECT, RESULT, TWENTY_LINES, USES
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from slices import slice_of
from waiting import HANG

from wfcore.domain.kernel.errors import Unavailable
from wfcore.extras import MissingExtra, needs_extra


@cache
def packages_of(distributions: frozenset[str]) -> frozenset[str]:
    """The importable packages of these distributions."""
    return frozenset(
        package
        for package, owners in packages_distributions().items()
        if {canonicalize_name(owner) for owner in owners} & distributions
    )


def closure(name: str) -> set[str]:
    """The distributions that an installation of this one brings, without its extras."""
    found: set[str] = set()
    pending = [name]
    while pending:
        name = canonicalize_name(pending.pop())
        if name in found:
            continue
        found.add(name)
        pending += [
            requirement.name
            for requirement in map(Requirement, distribution(name).requires or ())
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]
    return found


def core() -> frozenset[str]:
    """The distributions of the core, by `pyproject.toml` and not by the metadata of what is installed."""
    return frozenset(
        {"wfcore", *(name for text in PROJECT["dependencies"] for name in closure(Requirement(text).name))}
    )


def beyond_the_core() -> frozenset[str]:
    """Every importable package that `pip install wfcore` does not install."""
    return frozenset(packages_distributions()) - packages_of(core()) - {"sitecustomize", "_virtualenv"}


def without(packages: frozenset[str], program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program in a fresh interpreter in which the packages cannot be imported."""
    command = [sys.executable, str(Path(__file__).parents[1] / "blocked.py"), ",".join(packages)]
    return subprocess.run(
        [*command, f"import asyncio, sys\n{program}"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=HANG,
    )  # fmt: skip


def names(extra: str, ended: subprocess.CompletedProcess[str]) -> None:
    """The program failed with an error that names the extra."""
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith(f"install `wfcore[{extra}]`"), ended.stderr


def test_every_extra_has_a_use() -> None:
    assert set(USES) == set(EXTRAS)


def test_all() -> None:
    """The extra `all` installs every extra but `testing`."""
    (requirement,) = map(Requirement, PROJECT["optional-dependencies"]["all"])
    assert requirement.extras == set(EXTRAS) - {"testing"}


def test_the_core_is_small() -> None:
    assert len(core()) <= GOAL


def test_the_core_alone(tmp_path: Path) -> None:
    """The README's program needs no distribution that `pip install wfcore` does not install."""
    blocked = beyond_the_core()
    assert {"starlette", "httpx2", "cyclopts", "cryptography"} <= blocked
    ended = without(blocked, TWENTY_LINES, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert RESULT in ended.stdout


@pytest.mark.parametrize("extra", slice_of(EXTRAS, 2))
def test_without_the_extra(extra: str, tmp_path: Path) -> None:
    """The README's program works, then a use names the extra."""
    ended = without(packages_of(frozenset(EXTRAS[extra]) - core()), TWENTY_LINES + USES[extra], tmp_path)
    assert RESULT in ended.stdout, ended.stderr
    names(extra, ended)


@pytest.mark.parametrize("extra", EXTRAS)
def test_without_any_extra(extra: str, tmp_path: Path) -> None:
    """With the core alone, a use names its extra and no other."""
    names(extra, without(beyond_the_core(), USES[extra], tmp_path))


def test_the_command_without_its_extra(tmp_path: Path) -> None:
    """It prints one line."""
    ended = without(packages_of(frozenset(EXTRAS["cli"])), USES["cli"], tmp_path)
    message = "error: the command `wfcore` needs packages that are not installed: install `wfcore[cli]`\n"
    assert (ended.returncode, ended.stderr, ended.stdout) == (1, message, "")


def test_serve_names_the_extra(tmp_path: Path) -> None:
    """With the command line alone, `wfcore serve` fails with one line."""
    program = "from wfcore.cli.launch import main; sys.exit(main(['serve', '--port', '0', '--database', 'sqlite://']))"
    ended = without(packages_of(frozenset(EXTRAS["server"])), program, tmp_path)
    message = "error: the HTTP interface needs packages that are not installed: install `wfcore[server]`\n"
    assert (ended.returncode, ended.stderr) == (1, message)


@pytest.mark.parametrize(
    ("module", "missing", "install"),
    [
        ("starlette", "starlette", "`wfcore[server]`"),
        ("fastapi", "fastapi", "`fastapi` and `wfcore[server]`"),
        ("django", "django", "`django` and `wfcore[server]`"),
        ("flask", "flask", "`flask` and `wfcore[server]`"),
        ("fastapi", "sse_starlette", "`wfcore[server]`"),
        ("django", "sse_starlette", "`wfcore[server]`"),
        ("flask", "sse_starlette", "`wfcore[server]`"),
    ],
)
def test_a_module_for_a_product_names_what_it_needs(module: str, missing: str, install: str, tmp_path: Path) -> None:
    """It names the framework too, which no extra installs, unless the product has it."""
    ended = without(frozenset({missing}), f"import wfcore.contrib.{module}", tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith(f"not installed: install {install}"), ended.stderr


class TestNeedsExtra:
    def test_a_missing_package(self) -> None:
        """The error is one of an import and one of the library."""
        expected = pytest.raises(MissingExtra, match=r"^a use needs packages .* `wfcore\[some\]`$")
        with expected as caught, needs_extra("some", "a use"):
            import a_package_that_is_not_there  # noqa: F401
        assert isinstance(caught.value, ImportError)
        assert isinstance(caught.value, Unavailable)
        assert (caught.value.extra, caught.value.http) == ("some", 503)

    def test_an_inner_extra_is_the_one_named(self) -> None:
        with pytest.raises(MissingExtra) as caught, needs_extra("outer", "a use"), needs_extra("inner", "a use"):
            raise ImportError("no module", name="package")
        assert caught.value.extra == "inner"

    def test_a_fault_of_wfcore_passes_through(self) -> None:
        with pytest.raises(ImportError) as caught, needs_extra("some", "a use"):
            raise ImportError("cannot import", name="wfcore.domain")
        assert not isinstance(caught.value, MissingExtra)
