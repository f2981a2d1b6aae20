"""The built studio fits its sources: without Node, by the digests of the manifest."""

import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
STUDIO = ROOT / "studio"
STATIC = ROOT / "src/wfcore/adapters/http/studio/static"
MANIFEST: dict[str, Any] = json.loads((STATIC / "manifest.json").read_text())
FOLDERS = ("build", "src")
FILES = ("package-lock.json", "package.json", "tsconfig.json", "vite.config.ts")
BUDGETS = {
    "run": 200_000,
    "runs": 180_000,
    "inbox": 180_000,
    "chat": 180_000,
    "skill": 180_000,
    "administration": 180_000,
    "app": 300_000,
}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_output_is_built_from_these_sources() -> None:
    """The digest of the sources and the lock is that of the build. If not: `make studio`."""
    below = [path for folder in FOLDERS for path in (STUDIO / folder).rglob("*") if path.is_file()]
    names = [path.relative_to(STUDIO).as_posix() for path in below if not re.search(r"\.test\.tsx?$", path.name)]
    lines = [f"{name} {digest((STUDIO / name).read_bytes())}\n" for name in sorted([*names, *FILES])]
    assert digest("".join(lines).encode()) == MANIFEST["sources"]


@pytest.mark.parametrize("name", sorted(MANIFEST["files"]))
def test_files(name: str) -> None:
    """Each file has its digest, and its compressed copy has the same content."""
    data = (STATIC / name).read_bytes()
    assert digest(data) == MANIFEST["files"][name]["sha256"]
    assert gzip.decompress((STATIC / f"{name}.gz").read_bytes()) == data


def test_no_file_is_left_over() -> None:
    found = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    assert found == {"manifest.json", *MANIFEST["files"], *(f"{name}.gz" for name in MANIFEST["files"])}


@pytest.mark.parametrize("entry", BUDGETS)
def test_sizes(entry: str) -> None:
    """The bytes before use stay within the budget of each entry."""
    assert MANIFEST["sizes"][entry] <= BUDGETS[entry]


def test_the_lock_names_no_address() -> None:
    """Each package is exact and has a hash, and none says where to download it."""
    lock = json.loads((STUDIO / "package-lock.json").read_text())
    for name, package in lock["packages"].items():
        assert "resolved" not in package, name
        assert not name or package.get("integrity", "").startswith("sha512-"), name
    for versions in (lock["packages"][""]["dependencies"], lock["packages"][""]["devDependencies"]):
        assert all(re.fullmatch(r"[0-9.]+", version) for version in versions.values())


@pytest.mark.parametrize("name", sorted(name for name in MANIFEST["files"] if name.endswith(".js")))
def test_the_output_contacts_nobody(name: str) -> None:
    """No address of another host but names of namespaces and of documentation, and nothing that compiles text."""
    text = (STATIC / name).read_text()
    hosts = set(re.findall(r"https?://([a-z0-9.-]+)", text))
    assert hosts <= {
        "www.w3.org",
        "react.dev",
        "reactflow.dev",
        "json-schema.org",
        "github.com",
        "example.com",
        "localhost",
    }
    banned_here = () if name.startswith(("assets/BuilderPage", "assets/app-")) else ("localStorage",)
    for banned in (r"\beval\(", r"new Function\(", r"document\.write\(", *banned_here):
        assert not re.search(banned, text), banned


@pytest.mark.parametrize(
    "path", sorted(path.relative_to(STUDIO).as_posix() for path in (STUDIO / "src").rglob("*.ts*"))
)
def test_sources_make_no_markup(path: str) -> None:
    """Text never becomes markup, and no element shares a store: the rules of the sources.

    One module keeps unsaved changes in the browser, another one a mark of the last sign-out.
    """
    text = (STUDIO / path).read_text()
    for banned in ("dangerouslySetInnerHTML", "innerHTML", "outerHTML", "insertAdjacentHTML", "<style"):
        assert banned not in text
    assert "localStorage" not in text or path in (
        "src/builder/keeper.ts",
        "src/builder/keeper.test.ts",
        "src/app/session.ts",
    )
