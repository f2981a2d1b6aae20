"""What is published: wheel and source distribution, their metadata, and their use in a fresh environment.

The environment has the dependencies of this one. `make package` and `make extras` use an index, in empty ones.
"""

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from extra_uses import PROJECT, RESULT, ROOT, TWENTY_LINES
from packaging.metadata import Metadata
from trove_classifiers import classifiers
from waiting import HANG

import wfcore

UV = str(Path(sys.executable).with_name("uv"))
SUITE = """
async def test_core(wfcore_core, wfcore_model):
    assert wfcore_core.ports.models["default"] is wfcore_model
"""


def run(*command: object, cwd: Path) -> str:
    """What a command prints; it must succeed."""
    unset = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "WFCORE_REPOSITORY")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    words = [str(word) for word in command]
    ended = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=HANG)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def built(source: Path, folder: Path, kind: str) -> Path:
    """A distribution, without an index."""
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=source)
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution alone."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return built(folder / sdist.name.removesuffix(".tar.gz"), tmp_path_factory.mktemp("wheel"), "wheel")


def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_wheel_has_every_module(wheel: Path) -> None:
    """And data files, the marker of types and the entry points; nothing else of the repository."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    source = ROOT / "src"
    tracked = {
        str(file.relative_to(source)) for file in (source / "wfcore").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }  # fmt: skip
    assert {name for name in names if ".dist-info/" not in name} == tracked
    assert "wfcore/py.typed" in tracked
    assert "wfcore = wfcore.testing.plugin" in entry_points.partition("[pytest11]")[2]


def test_the_metadata_are_valid(wheel: Path) -> None:
    """Every field by the specification; known classifiers; a description without links into the repository."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = Metadata.from_email(archive.read(f"wfcore-{PROJECT['version']}.dist-info/METADATA"), validate=True)
    assert metadata.classifiers
    assert set(metadata.classifiers) <= classifiers
    assert len(metadata.keywords or ()) >= 5
    assert metadata.description_content_type == "text/markdown"
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", metadata.description or "") == []
    assert "embedding/library.md" in (metadata.description or "")
    assert metadata.project_urls in (None, {})


def test_the_links_of_a_published_build() -> None:
    """With the address of a repository, every link of the README is absolute, and names a file of the repository."""
    module, repository = hook(), "https://git.example.org/wfcore"
    text = (ROOT / "README.md").read_text()
    published = module.with_links(text, repository)
    links = re.findall(r"\]\(([^)\s]+)\)", published)
    assert len(links) == len(re.findall(r"\]\(([^)\s]+)\)", text)) > 20
    for link in links:
        assert link.startswith(("https://", "#"))
        path = link.removeprefix(f"{repository}/blob/main/").partition("#")[0]
        assert path == link or (ROOT / path).exists()
    assert f"]({repository}/raw/main/docs/images/overview.svg)" in published
    assert "overview.svg" not in module.with_links(text, "")
    assert all(url.startswith(repository) for url in module.urls(repository).values())


def test_the_version() -> None:
    """`wfcore.__version__` is that of the installed distribution."""
    assert wfcore.__version__ == PROJECT["version"]


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_in_a_fresh_environment(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The README's program, the command, and a test suite that finds the plugin by its entry point."""
    file: Path = request.getfixturevalue(kind)
    environment, place = tmp_path / "environment", tmp_path / "place"
    place.mkdir()
    run(UV, "venv", "--quiet", "--offline", "--python", sys.executable, environment, cwd=tmp_path)
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = [
        UV,
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--no-build-isolation",
        "--python",
        python,
        file,
    ]
    run(*install, cwd=tmp_path)
    found = run(python, "-c", "import wfcore; print(wfcore.__file__, wfcore.__version__)", cwd=place)
    assert found.split() == [str(packages / "wfcore" / "__init__.py"), PROJECT["version"]]
    assert RESULT in run(python, "-c", TWENTY_LINES, cwd=place)
    if kind == "wheel":
        assert run(environment / "bin" / "wfcore", "--version", cwd=place).strip() == PROJECT["version"]
        (place / "test_suite.py").write_text(SUITE)
        assert "1 passed" in run(python, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:schemathesis", cwd=place)
