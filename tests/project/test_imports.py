"""The modules that `import wfcore` loads, and its names."""

import ast
import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import wfcore

HEAVY = (
    "aiosqlite", "alembic", "anyio", "asyncio", "cyclopts", "httpx2", "jsonschema_rs", "mem0", "openai",
    "rich", "sqlalchemy", "sqlite3", "sse_starlette", "starlette", "uvicorn",
)  # fmt: skip


UNUSED = (
    "wfcore.api", "wfcore.domain.evaluations", "wfcore.domain.graph.structure", "wfcore.domain.run.machine",
    "wfcore.domain.triggers", "wfcore.runtime.agents", "wfcore.runtime.execution.driver", "wfcore.runtime.runs",
)  # fmt: skip
"""What is imported after a file was opened."""


@pytest.mark.parametrize("part", ["domain", "ports", "runtime"])
def test_a_package_imports_none_of_its_modules(part: str) -> None:
    """A process imports them in a thread, beside calls that import others. Each module imports its package before
    itself; if the package imported it too, the two threads would wait for each other, and Python then lets one of them
    see half of a module.
    """
    packages = list(Path(wfcore.__file__).with_name(part).rglob("__init__.py"))
    assert packages
    for package in packages:
        names = ast.walk(ast.parse(package.read_text()))
        assert not [ast.unparse(one) for one in names if isinstance(one, ast.Import | ast.ImportFrom)], package


def loaded_by(statement: str) -> set[str]:
    """The modules of a new interpreter after this statement."""
    code = f"import sys, json\n{statement}\nprint(json.dumps(list(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(json.loads(ran.stdout.splitlines()[-1]))


def test_light() -> None:
    """`import wfcore` loads no web, database, async, expression or terminal package."""
    loaded = loaded_by("import wfcore")
    assert "wfcore" in loaded
    assert not loaded & set(HEAVY)


def test_open_is_light() -> None:
    """`wfcore.open` loads a web server, a database or the library of a model only when one is used."""
    loaded = loaded_by("import wfcore; wfcore.open")
    assert "wfcore.bootstrap" in loaded
    assert not loaded & {
        "alembic",
        "cyclopts",
        "httpx2",
        "jsonschema_rs",
        "openai",
        "sqlalchemy",
        "starlette",
        "uvicorn",
    }


@pytest.mark.anyio
async def test_a_file_is_opened_without_what_it_does_not_use(tmp_path: Path) -> None:
    """Neither SQLAlchemy, nor what drives runs, nor what talks to other systems; imports make no collections."""
    url = f"sqlite:///{tmp_path / 'app.db'}"
    async with wfcore.open(url):
        pass
    code = f"""
import asyncio, gc, wfcore
began = []
gc.callbacks.append(lambda phase, _: began.append(phase))
async def main():
    async with wfcore.open("{url}"):
        assert len(began) < 100, len(began)
asyncio.run(main())
"""
    loaded = loaded_by(code)
    assert "wfcore.adapters.sql.journal.journal" in loaded
    assert not loaded & {"alembic", "sqlalchemy", "httpx2", "jsonschema_rs", "email.message", "ruamel"}
    assert not {name for name in loaded if name.startswith(UNUSED)}


def test_a_command_loads_the_use_cases_that_it_calls(tmp_path: Path) -> None:
    """Without a worker nothing that drives runs, edits workflows or talks to other systems is imported."""
    code = f"""
import asyncio, wfcore
async def main():
    async with wfcore.open("sqlite:///{tmp_path / "app.db"}", worker=False) as core:
        assert await core.directory.create_organization("Acme")
asyncio.run(main())
"""
    areas = {name.rpartition(".")[0] for name in loaded_by(code) if name.startswith("wfcore.runtime.")}
    assert areas == {
        "wfcore.runtime",
        "wfcore.runtime.common",
        "wfcore.runtime.execution",
        "wfcore.runtime.organization",
    }


def test_a_command_loads_no_other_commands(tmp_path: Path) -> None:
    """Nor what prints tables and progress on a terminal."""
    url = f"sqlite:///{tmp_path / 'app.db'}"
    with wfcore.open_sync(url, worker=False):
        pass
    command = ["token", "create", "--database", url, "--org", "x", "--user-id", "u"]
    loaded = loaded_by(f"from wfcore.cli.main import main; main({[*command, '--all-scopes']})")
    assert {"wfcore.cli.commands.directory", "wfcore.adapters.sql.storage"} <= loaded
    assert not loaded & {"difflib", "rich", "ruamel", "wfcore.cli.declared", "wfcore.runtime.runs"}


@pytest.mark.parametrize("name", wfcore.__all__)
def test_public_name(name: str) -> None:
    """Every public name resolves."""
    assert getattr(wfcore, name) is not None


def test_public_names() -> None:
    """`__all__`, `dir(wfcore)` and the imports for type checkers have the same names, and no others."""
    assert dir(wfcore) == wfcore.__all__ == sorted(wfcore.__all__)
    imported = [node for node in ast.walk(ast.parse(inspect.getsource(wfcore))) if isinstance(node, ast.ImportFrom)]
    names = {alias.asname or alias.name for node in imported for alias in node.names}
    assert names - {"import_module", "TYPE_CHECKING", "Any"} == set(wfcore.__all__)
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = wfcore.nothing_such


@pytest.mark.parametrize(
    "module", ["wfcore.domain.run.machine.machine", "wfcore.runtime.execution.driver", "wfcore.ports.journal"]
)
def test_inner_layers_are_light(module: str) -> None:
    """Domain, ports and runtime load no driven adapter and no library of one."""
    loaded = loaded_by(f"import {module}")
    assert import_module(module).__name__ in loaded
    assert not {name for name in loaded if name.startswith("wfcore.adapters")}
    assert not loaded & {"alembic", "openai", "sqlalchemy", "starlette", "uvicorn"}
