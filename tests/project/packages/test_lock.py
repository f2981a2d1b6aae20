"""`requirements/dev.txt` fits `pyproject.toml`: `make` installs what the project declares."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
LOCK = (ROOT / "requirements" / "dev.txt").read_text()
PINS = re.findall(r"^([a-z0-9-]+)==([^ ;]+)", LOCK, re.MULTILINE)
"""Name and version of each distribution. A name has several versions if they depend on the version of Python."""


def declared() -> list[str]:
    """Every requirement of the project: of the core, of the extras, and for development."""
    tree = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [*tree["project"]["optional-dependencies"].values(), *tree["dependency-groups"].values()]
    return [*tree["project"]["dependencies"], *(each for group in groups for each in group)]


@pytest.mark.parametrize("text", sorted(set(declared())))
def test_locked(text: str) -> None:
    """Each requirement has versions in the lock, and all of them fit. If not: `make lock UPGRADE=`."""
    requirement = Requirement(text)
    if requirement.name == "wfcore":
        return
    versions = [version for name, version in PINS if name == canonicalize_name(requirement.name)]
    assert versions
    assert all(requirement.specifier.contains(version) for version in versions)


def test_every_file_has_a_hash() -> None:
    blocks = re.split(r"^(?=[a-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(PINS)
    assert all("--hash=sha256:" in block for block in blocks)


def test_no_place_is_fixed() -> None:
    """The lock names no index and no URL: it works with every mirror."""
    assert "://" not in LOCK
    assert "--index" not in LOCK
