"""The generated TypeScript client: it compiles under the strictest options, refuses wrong code, and works on a server.

Node is that of `make typing`.
"""

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from waiting import HANG

ROOT = Path(__file__).parents[2]
NODE = ROOT / ".venv-studio" / "bin" / "node"
TSC = ROOT / "studio" / "node_modules" / "typescript" / "bin" / "tsc"
STRICT = ("--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--noImplicitOverride")
TARGET = (
    "--target",
    "es2022",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
    "--lib",
    "es2023,dom,dom.iterable",
)

pytestmark = pytest.mark.skipif(not (NODE.exists() and TSC.exists()), reason="needs the Node of `make typing`")


@pytest.fixture
async def client(tmp_path: Path) -> Path:
    """A folder with the client and the user's code."""
    import wfcore
    from wfcore.adapters.http.openapi.document import document
    from wfcore.adapters.http.openapi.typescript import typescript
    from wfcore.adapters.http.route_table import route_table

    async with wfcore.open("sqlite://", worker=False) as core:
        source = typescript(document(route_table(core)))
    (tmp_path / "client.ts").write_text(source)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(Path(__file__).with_name("user_code.ts"), tmp_path)
    return tmp_path


def compiled(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(NODE), str(TSC), *STRICT, *TARGET, "user_code.ts"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=HANG)


@pytest.mark.anyio
async def test_it_works_on_a_server(client: Path) -> None:
    """Compiled without an error; then a workflow is created, run, approved and read, with both streams."""
    from clients import serving

    import wfcore
    from wfcore.domain.resources.access import TOKEN_SCOPES

    ended = compiled(client)
    assert ended.returncode == 0, ended.stdout
    async with wfcore.open("sqlite://") as core:
        org = (await core.directory.create_organization("Acme")).uuid
        await core.directory.add_member(org, "ann", "ann@acme.example")
        token = await core.directory.create_token(org, "ann", scopes=TOKEN_SCOPES)
        async with serving(wfcore.http.app(core)) as port:
            command = [str(NODE), "user_code.js", f"http://127.0.0.1:{port}", str(token)]
            node = await asyncio.create_subprocess_exec(
                *command, cwd=client, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            out, err = await asyncio.wait_for(node.communicate(), HANG)
    assert node.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    assert found["kinds"][0] == "run_started"
    assert {"interrupt", "done"} <= set(found["kinds"])
    assert (found["status"], found["missing"], found["me"]) == ("done", 404, "ann")
    assert found["text"]["sizeBytes"] == 5


@pytest.mark.anyio
async def test_wrong_code_is_refused(client: Path) -> None:
    """Each expected error is one: without its mark, tsc reports exactly that line."""
    code = (client / "user_code.ts").read_text()
    lines = code.splitlines()
    marked = [number for number, line in enumerate(lines, 2) if "// @ts-expect-error" in line]
    (client / "user_code.ts").write_text(code.replace("// @ts-expect-error", "//"))
    ended = compiled(client)
    reported = {int(line) for line in re.findall(r"^user_code\.ts\((\d+),\d+\): error", ended.stdout, re.MULTILINE)}
    assert (len(marked), reported) == (5, set(marked)), ended.stdout
