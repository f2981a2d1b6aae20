"""The files of `deploy`: each setting, command, metric and path in them exists."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from image_steps import SERVED, STEPS, instructions
from ruamel.yaml import YAML

from wfcore.adapters.telemetry import Metrics
from wfcore.cli.main import app
from wfcore.settings.installation import load

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
VALUES = {"${SITE_ADDRESS:?}": "flows.example.org", "${POSTGRES_PASSWORD:?}": "p", "${WFCORE_SECRET_KEY:?}": "A" * 43}
UNITS = sorted(DEPLOY.glob("*.service"))


def services() -> Iterator[tuple[str, dict[str, object]]]:
    yield from YAML(typ="safe").load(DEPLOY / "compose.yaml")["services"].items()


def environments() -> Iterator[dict[str, str]]:
    """The environment of each service and of the units."""
    for name, service in services():
        if name in ("serve", "worker"):
            yield {key: _filled(value) for key, value in service["environment"].items()}  # type: ignore[attr-defined]
    lines = [line for line in (DEPLOY / "wfcore.env").read_text().splitlines() if "=" in line and line[0] != "#"]
    yield dict(line.replace("32-BYTES-IN-BASE64URL", "A" * 43).split("=", 1) for line in lines)


def _filled(text: str) -> str:
    for name, value in VALUES.items():
        text = text.replace(name, value)
    return text


@pytest.mark.parametrize("environment", list(environments()))
def test_settings_are_valid(environment: dict[str, str]) -> None:
    """Every variable is a setting, and trusted proxies, hosts and the key are those that were meant."""
    found = load(environ=environment)
    assert found.options == {}
    assert found.secret()
    assert found.server.trusted_proxies
    assert "flows.example.org" in found.server.allowed_hosts
    assert {name for name in environment if not name.startswith("WFCORE_")} == set()
    assert len(environment) >= 5


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_call_commands(unit: Path) -> None:
    """`ExecStart` is a command with options that it has; the environment file is the one that is documented."""
    text = unit.read_text()
    (line,) = re.findall(r"^ExecStart=/opt/wfcore/bin/wfcore (.*)$", text, re.MULTILINE)
    _, bound, _ = app.parse_args(line.split(), print_error=False, exit_on_error=False)
    assert bound.arguments["log_format"] == "json"
    assert "EnvironmentFile=/etc/wfcore/wfcore.env" in text


def test_containers_call_commands() -> None:
    """The image's own command and those of the services are commands; all build files are there."""
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    commands = [re.findall(r'"([^"]+)"', line) for line in re.findall(r"^CMD (\[.*\])$", dockerfile, re.MULTILINE)]
    commands += [service["command"] for name, service in services() if name in ("serve", "worker")]  # type: ignore[misc]
    assert len(commands) == 3
    for command in commands:
        _, bound, _ = app.parse_args(list(command), print_error=False, exit_on_error=False)
        assert bound.arguments["log_format"] == "json"
    for _, service in services():
        build = service.get("build")
        assert build is None or (DEPLOY / build["context"] / build["dockerfile"]).is_file()  # type: ignore[index,call-overload]


def test_the_steps_of_the_image_are_known() -> None:
    """`make image` carries them out. The user has a number, which every host resolves."""
    steps = dict(instructions((DEPLOY / "Dockerfile").read_text()))
    assert steps.keys() <= {"FROM", "USER", *STEPS, *SERVED}
    assert steps["USER"].isdigit()
    assert f"--uid {steps['USER']}" in steps["RUN"]


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="needs hadolint")
def test_the_image_has_no_remarks() -> None:
    found = subprocess.run(["hadolint", "Dockerfile"], cwd=DEPLOY, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_extras_are_known() -> None:
    """The extras of the image and of the page are those of the distribution."""
    import tomllib

    known = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for text in ((DEPLOY / "Dockerfile").read_text(), (ROOT / "docs/operations/deploying.md").read_text()):
        (extras,) = re.findall(r"\[([a-z,0-9]+)\]\"", text)
        assert set(extras.split(",")) <= known


def test_alerts_use_metrics_that_exist() -> None:
    """With their labels."""
    rules = YAML(typ="safe").load(DEPLOY / "alerts.yml")["groups"][0]["rules"]
    registry = Metrics()
    described = set(re.findall(r"^# TYPE (wfcore_\w+)", registry.text().decode(), re.MULTILINE))
    named = {name for rule in rules for name in re.findall(r"wfcore_\w+", rule["expr"])}
    assert named
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} <= described
    page = (ROOT / "docs/operations/running.md").read_text()
    for rule in rules:
        for metric, label in re.findall(r"(wfcore_\w+?)(?:_bucket|_count)?\{(\w+)", rule["expr"]):
            (row,) = [line for line in page.splitlines() if line.startswith("|") and f"`{metric}`" in line]
            assert f"`{label}`" in row, (metric, label)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool of Debian's package `prometheus`")
def test_alerts_fire() -> None:
    subprocess.run(["promtool", "test", "rules", "alerts_test.yml"], cwd=DEPLOY, check=True, capture_output=True)
