"""The names that programs may import: a change of these lists is a change for users."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import wfcore
import wfcore.records
import wfcore.testing

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^ {4}((?:from|import) \w[\w. ,]*)$", re.MULTILINE)

WFCORE = [
    "Conflict", "ConnectionRequired", "Core", "Dispatch", "Flow", "Forbidden", "HookEvent", "Invalid", "Malformed",
    "ModelProvider", "NotFound", "Overrides", "Principal", "Provide", "RateLimited", "RunCancelled", "RunContext",
    "RunFailed", "Secrets", "Settings", "SyncCore", "TooLarge", "Tool", "ToolCall", "ToolConnection", "ToolFailed",
    "Unauthenticated", "Unavailable", "WfcoreError", "http", "open", "open_sync", "rules", "simulate",
    "tool", "tools",
]  # fmt: skip
TESTING = [
    "BlobsContract", "BlobsCrashContract", "BrokenGraph", "Cassette", "ChangesContract", "ClockContract",
    "DispatcherContract", "EventsContract", "FakeClock", "GuardrailContract", "HintsContract", "History",
    "HooksContract", "IdsContract", "JournalContract", "JournalCrashContract", "MaintenanceContract",
    "MemoriesContract", "ModelsContract", "NotRecorded", "OutboundContract", "PostingsContract",
    "RateLimiterContract", "ReplayDiffers", "RunLimitsContract", "ScriptedModel", "SequentialIds", "StorageContract",
    "StorageCrashContract", "StorageMachine",
    "TelemetryContract", "TokenVerifierContract", "ToolServersContract", "ToolsContract", "WordsContract",
    "broken_graphs", "deployable_graphs", "replays", "run_until_idle", "sketch",
]  # fmt: skip
DOMAIN_PAGES = {"library.md", "machine.md"}
"""Pages that show the pure machine itself; everything else uses the names of `wfcore` or of a port or adapter."""


def test_names_of_wfcore() -> None:
    """`wfcore` has exactly these names."""
    assert wfcore.__all__ == sorted(WFCORE)
    assert all(getattr(wfcore, name) is not None for name in WFCORE)


@pytest.mark.parametrize("name", ["http", "rules", "tools"])
def test_modules_of_wfcore(name: str) -> None:
    """They can be imported, too."""
    assert import_module(f"wfcore.{name}") is getattr(wfcore, name)


def test_names_of_wfcore_testing() -> None:
    """`wfcore.testing` has exactly these names, for type checkers too."""
    assert dir(wfcore.testing) == wfcore.testing.__all__ == sorted(TESTING)
    assert all(getattr(wfcore.testing, name) is not None for name in TESTING)
    tree = ast.parse(Path(wfcore.testing.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]  # under TYPE_CHECKING
    imported = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name for node in imported for alias in node.names} == set(TESTING)
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = wfcore.testing.nothing_such


def test_wfcore_testing_is_light() -> None:
    """`import wfcore.testing` loads neither pytest nor hypothesis."""
    code = "import sys, wfcore.testing; print(sorted({'pytest', 'hypothesis'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ended.stdout == "[]\n"


def _imports(source: str) -> list[tuple[str, str | None]]:
    """What a program imports of wfcore: the module, and the name in it if there is one."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] == "wfcore"]


def _shown() -> list[tuple[str, str, str | None]]:
    """Every import of wfcore in README, docs and examples: the file, the module, the name."""
    texts = [(file.name, file.read_text()) for file in EXAMPLES]
    for page in PAGES:
        text = page.read_text()
        texts += [(page.name, code) for code in [*PYTHON.findall(text), *INDENTED.findall(text)]]
    return [(file, module, name) for file, text in texts for module, name in _imports(text)]


def _returned() -> set[str]:
    """The names of wfcore in what the use cases of `SyncCore` return."""
    found = set[str]()
    for file in (ROOT / "src" / "wfcore" / "sync_types").glob("*.pyi"):
        tree = ast.parse(file.read_text())
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        ours = {name.name for node in imports if (node.module or "").startswith("wfcore.") for name in node.names}
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.returns]
        returned = [part for function in functions for part in ast.walk(function.returns or function)]
        found |= ours & {part.id for part in returned if isinstance(part, ast.Name)}
    return found


def test_what_use_cases_return_can_be_named() -> None:
    """`wfcore.records` has exactly the types that use cases return, for type checkers too, beside those of `wfcore`."""
    names = sorted(_returned() - set(wfcore.__all__))
    assert sorted(wfcore.records.__all__) == names
    assert all(getattr(wfcore.records, name) is not None for name in names)
    tree = ast.parse(Path(wfcore.records.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]  # under TYPE_CHECKING
    imported = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    assert sorted(alias.name for node in imported for alias in node.names) == names


@pytest.mark.parametrize(("file", "module", "name"), _shown())
def test_a_shown_import_resolves(file: str, module: str, name: str | None) -> None:
    """Every import that README, docs and examples show works; only the pages of the machine import the domain."""
    found = import_module(module)
    if name is not None and not hasattr(found, name):
        import_module(f"{module}.{name}")
    assert file in DOMAIN_PAGES or not module.startswith("wfcore.domain")
