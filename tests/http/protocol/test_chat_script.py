"""The script of the chat page, run by Node with fakes of the page and the server."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import wfcore.adapters.http

NODE = shutil.which("node")
FOLDER = Path(wfcore.adapters.http.__file__).with_name("chat")
SCRIPT = "".join(FOLDER.joinpath(name).read_text("utf-8") for name in ("forms.js", "page.js"))
PAGE = """
class Element {
  constructor() { this.childNodes = []; this.dataset = {}; this.style = {}; this.textContent = ""; }
  get classList() { return { add() {} }; }
  get firstChild() { return this.childNodes[0]; }
  append(...made) { this.childNodes.push(...made); }
  all() { return [this, ...this.childNodes.flatMap((one) => one.all?.() ?? [])]; }
  querySelectorAll() { return this.all().filter((one) => one.tag === "button"); }
  addEventListener() {}
  setAttribute() {}
  focus() {}
  remove() {}
}
const parts = {}, requests = [], frame = (data) => `id: ${data.seq}\\ndata: ${JSON.stringify(data)}\\n\\n`;
const own = { sessionStorage: { kept: { "wfcore /p/interfaces/chatapp/1 pending": '{"text":"hello","key":"r1"}' },
  getItem(name) { return this.kept[name] ?? null; }, setItem(name, value) { this.kept[name] = value; },
  removeItem(name) { delete this.kept[name]; } },
  location: { pathname: "/p/interfaces/chatapp/1" }, setTimeout: (next) => setImmediate(next),
  document: { getElementById: (id) => (parts[id] ??= new Element()),
    createElement: (tag) => Object.assign(new Element(), { tag }) },
  fetch: async (path, { method }) => {
    const place = `${method} ${path}`, answers = SERVER[place];
    requests.push(place);
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    return new Response(Array.isArray(answer) ? answer.map(frame).join("") : JSON.stringify(answer));
  } };
Object.assign(globalThis, own);
process.on("exit", () => console.log(JSON.stringify({ requests, texts: parts.log.all().map((one) => one.textContent),
  disabled: parts.log.all().filter((one) => one.tag === "button").map((one) => one.disabled === true) })));
"""

pytestmark = pytest.mark.skipif(NODE is None, reason="Node is not installed")

RUN, TWO = "/p/agent/v1/runs/r1", "/p/agent/v1/runs/r2"
INTERRUPT = {
    "interruptId": "i", "type": "approval", "message": "May I?", "runId": "r1", "requiredApprovals": 1, "approvals": 0,
}  # fmt: skip
WAITING = [
    {"kind": "run_started", "seq": 1, "runId": "r1"},
    {"kind": "done", "seq": 2, "runId": "r1", "status": "interrupted", "output": None, "interrupts": [INTERRUPT]},
]
WENT_ON = [
    {"kind": "run_started", "seq": 1, "runId": "r2"},
    {"kind": "done", "seq": 2, "runId": "r2", "status": "done", "output": "the end"},
]
PARKED = {"status": "interrupted", "resumedBy": None}


def shown(*records: Any) -> Any:
    """The requests and the output of a page whose run waits; polling gets these records."""
    server = {
        "GET /p/interfaces/chatapp/1/workflow": [{"workflowId": 1, "name": "Desk", "takesMessage": True}],
        "POST /p/agent/v1/runs": [WAITING],
        f"GET {RUN}": list(records),
        f"GET {TWO}/events": [WENT_ON],
    }
    text = f"const SERVER = {json.dumps(server)};\n{PAGE}\n{{\n{SCRIPT}\n}}"
    ended = subprocess.run([str(NODE), "-"], input=text, capture_output=True, text=True, timeout=20, check=True)
    page = json.loads(ended.stdout)
    page["requests"] = [place for place in page["requests"] if "/conversations" not in place]
    return page


def test_a_decision_elsewhere_is_followed() -> None:
    """The page polls until another turn resumes the run, shows that turn's end, and closes its card."""
    page = shown(PARKED, PARKED, {"status": "interrupted", "resumedBy": "r2"})
    assert page["requests"][1:] == ["POST /p/agent/v1/runs", *[f"GET {RUN}"] * 3, f"GET {TWO}/events"]
    assert {"hello", "May I?", "the end"} <= set(page["texts"])
    assert page["disabled"] == [True, True]


def test_a_cancellation_elsewhere_is_shown() -> None:
    """The page shows it and closes its card."""
    page = shown(PARKED, {"status": "cancelled", "resumedBy": None})
    assert page["requests"][1:] == ["POST /p/agent/v1/runs", *[f"GET {RUN}"] * 2]
    assert "Cancelled." in page["texts"]
    assert page["disabled"] == [True, True]
