"use strict";

const place = location.pathname.replace(/\/+$/, "");
const root = place.slice(0, place.lastIndexOf("/interfaces/chatapp/"));
const $ = (id) => document.getElementById(id);
const TERMINAL = ["done", "error", "cancelled"];
const cards = new Map();
let app = null;
let turns = 0;
let latest = null;

// What the tab remembers

const remember = (name, value) => {
  const key = `wfcore ${place} ${name}`;
  if (value === null) sessionStorage.removeItem(key); else sessionStorage.setItem(key, value);
};
const recall = (name) => sessionStorage.getItem(`wfcore ${place} ${name}`);

function fresh() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// What is shown: text is only ever set as text

function put(parent, tag, text = "", style = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (style) made.className = style;
  parent.append(made);
  return made;
}

function keepInSight(change) {
  const room = $("room");
  const atEnd = room.scrollHeight - room.scrollTop - room.clientHeight < 80;
  const done = change();
  if (atEnd) room.scrollTop = room.scrollHeight;
  return done;
}

const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
const state = (text) => { $("state").textContent = text; };

function arrange(signedIn) {
  for (const id of ["room", "foot", "anew"]) $(id).hidden = !signedIn;
  $("sign-in").hidden = signedIn;
  $("sign-out").hidden = !signedIn || !recall("token");
  $(signedIn ? "message" : "token").focus();
}

// The server

class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

function call(method, path, body, more = {}) {
  const headers = { Accept: "application/json", ...more };
  const token = recall("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const credentials = "same-origin", redirect = "error", cache = "no-store";
  return fetch(root + path, { method, headers, credentials, redirect, cache, body: body && JSON.stringify(body) });
}

async function accepted(response) {
  if (response.ok) return response;
  const text = await response.text();
  let message = `The server answered ${response.status}.`;
  try {
    const data = JSON.parse(text.startsWith("{") ? text : text.split("\n").find((line) => line.startsWith("data:")).slice(5));
    message = data.error.message;
  } catch { /* no envelope: the status has to do */ }
  throw new Refused(response.status, message);
}

const isFinal = (fault) => fault instanceof Refused && fault.status < 500 && fault.status !== 429;
const pause = (milliseconds) => new Promise((next) => setTimeout(next, milliseconds));
const pathOf = (run) => `/agent/v1/runs/${encodeURIComponent(run)}`;

async function* frames(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const line = block.split("\n").find((one) => one.startsWith("data: "));
      if (line) yield JSON.parse(line.slice(6));
    }
  }
}

// A turn: begun by a request, joined again by the same request until its last event has come

async function follow(path, body, key, chain) {
  const turn = { chain, key, seen: 0, ended: false, bubbles: new Map(), steps: new Map(), said: null, list: null };
  latest = chain;
  turns += 1;
  busy();
  try {
    for (let tries = 0; !turn.ended; tries += 1) {
      if (tries) await pause(Math.min(500 * 2 ** tries, 15000));
      try {
        await listen(path, body, turn, () => { tries = 0; });
      } catch (fault) {
        if (isFinal(fault)) throw fault;
        state("The connection was lost. Trying again…");
      }
    }
  } finally {
    turns -= 1;
    busy();
  }
}

async function listen(path, body, turn, heard) {
  const headers = { Accept: "text/event-stream" };
  if (turn.key) headers["Idempotency-Key"] = turn.key;
  if (turn.seen) headers["Last-Event-ID"] = String(turn.seen);
  for await (const event of frames(await accepted(await call(body ? "POST" : "GET", path, body, headers)))) {
    heard();
    turn.seen = event.seq;
    turn.ended = TERMINAL.includes(event.kind);
    keepInSight(() => show(event, turn));
  }
}

function busy() {
  $("send").disabled = turns > 0;
  $("stop").hidden = turns === 0;
  state(turns ? "Working…" : "");
}

async function say(text, key) {
  remember("pending", JSON.stringify({ text, key }));
  keepInSight(() => put($("log"), "div", text, "bubble own"));
  const body = { workflowId: app.workflowId, message: text, sessionId: session(), origin: "chatapp", streamProtocolVersion: 2 };
  body.input = app.takesMessage ? { message: text } : {};
  await attempt(() => follow("/agent/v1/runs", body, key, { run: null, own: new Set() }));
  remember("pending", null);
}

async function attempt(work) {
  try {
    await work();
    return true;
  } catch (fault) {
    keepInSight(() => put($("log"), "div", fault.message, "bubble failed"));
    if (fault.status === 401) { remember("token", null); arrange(false); }
    return false;
  }
}

function session() {
  if (!recall("session")) remember("session", fresh());
  return recall("session");
}

// Events

function show(event, turn) {
  switch (event.kind) {
    case "run_started": turn.chain.run = event.runId; break;
    case "node_started": step(event, turn, event.nodeId, event.nodeId); break;
    case "node_finished": step(event, turn, event.nodeId, `${event.nodeId} ✓`); break;
    case "node_failed": step(event, turn, event.nodeId, `${event.nodeId} ✗ ${event.error?.message ?? ""}`); break;
    case "node_retrying": cutOff(event, turn); step(event, turn, event.nodeId, `${event.nodeId} tries again`); break;
    case "tool_call": step(event, turn, event.toolCallId, `${event.name} ${JSON.stringify(event.arguments)}`); break;
    case "tool_result": step(event, turn, event.toolCallId, null, event.error ? " ✗" : " ✓"); break;
    case "message_delta": bubble(event, turn).append(event.delta); break;
    case "message": case "message_replaced": whole(bubble(event, turn)).textContent = turn.said = event.content; break;
    case "interrupt": ask(event, turn.chain); break;
    case "done": finish(event, turn); break;
    case "error": put($("log"), "div", event.error.message, "bubble failed"); break;
    case "cancelled": put($("log"), "p", "Cancelled.", "quiet"); break;
  }
}

function bubble(event, turn) {
  const key = JSON.stringify([event.path, event.items, event.messageId]);
  turn.chain.told = true;
  if (!turn.bubbles.has(key)) {
    turn.bubbles.set(key, put($("log"), "div", "", "bubble"));
    turn.bubbles.get(key).dataset.unfinished = event.nodeId;
  }
  return turn.bubbles.get(key);
}

function whole(made) {
  delete made.dataset.unfinished;
  return made;
}

function cutOff(event, turn) {
  for (const one of turn.bubbles.values()) {
    if (one.dataset.unfinished === event.nodeId) whole(one).classList.add("cut");
  }
}

function step(event, turn, name, text, mark = "") {
  if (!turn.list) {
    const box = put($("log"), "details");
    put(box, "summary", "Steps");
    box.setAttribute("aria-live", "off");
    turn.list = put(box, "ol");
  }
  const key = JSON.stringify([event.path, event.items, name]);
  if (!turn.steps.has(key)) turn.steps.set(key, put(turn.list, "li"));
  const line = turn.steps.get(key);
  line.textContent = (text ?? line.textContent) + mark;
}

function finish(event, turn) {
  if (event.status === "interrupted") {
    for (const one of event.interrupts ?? []) ask({ ...one, runId: event.runId }, turn.chain);
    watch(turn.chain, event.runId);
  } else if (typeof event.output === "string") {
    if (event.output !== turn.said) put($("log"), "div", event.output, "bubble");
  } else if (event.output !== null) {
    const box = put($("log"), "details");
    put(box, "summary", "Result");
    put(box, "pre", pretty(event.output)).tabIndex = 0;
    box.open = !turn.chain.told;
  }
}

// What waits for a person

function ask(interrupt, chain) {
  const before = cards.get(interrupt.interruptId);
  if (before?.run === interrupt.runId) return;
  before?.card.remove();
  const card = put($("log"), "form", "", "card");
  cards.set(interrupt.interruptId, { card, run: interrupt.runId });
  const missing = interrupt.requiredApprovals - interrupt.approvals;
  put(card, "p", interrupt.message || (interrupt.type === "connect" ? "A connection is needed." : "May this go on?"));
  if (interrupt.type === "connect") put(card, "p", `${interrupt.toolId ?? ""} ${interrupt.provider ?? ""}`, "quiet");
  else if (interrupt.toolId) {
    put(card, "p", interrupt.toolId, "quiet");
    put(card, "pre", pretty(interrupt.arguments)).tabIndex = 0;
  }
  if (missing > 1) put(card, "p", `${missing} approvals are missing.`, "quiet");
  const read = fields(card, interrupt.formSchema, interrupt.interruptId);
  const buttons = put(card, "div", "", "buttons");
  const choices = interrupt.type === "connect"
    ? [["connected", "It is connected"], ["cancelled", "Go on without"]]
    : [["approve", "Approve"], ["deny", "Deny"]];
  for (const [decision, label] of choices) {
    const button = put(buttons, "button", label, decision === choices[0][0] ? "main" : "");
    button.type = "submit";
    button.value = decision;
    button.formNoValidate = decision !== choices[0][0];
  }
  card.addEventListener("submit", (event) => {
    event.preventDefault();
    const decision = event.submitter?.value ?? choices[0][0];
    decide(card, interrupt, chain, decision, decision === "approve" ? read : () => undefined);
  });
}

async function decide(card, interrupt, chain, decision, read) {
  const controls = [...card.querySelectorAll("button, input, select, textarea")];
  const lock = (locked) => { for (const one of controls) one.disabled = locked; };
  const note = put(card, "p", "", "quiet");
  const done = await attempt(async () => {
    const data = read();
    const body = { interruptId: interrupt.interruptId, decision, data, origin: "chatapp", streamProtocolVersion: 2 };
    lock(true);
    note.textContent = { approve: "Approved.", deny: "Denied." }[decision] ?? "Answered.";
    const key = fresh();
    chain.own.add(key);
    await follow(`${pathOf(chain.run)}/resume`, body, key, chain);
  });
  if (done) return;
  note.remove();
  lock(false);
}

// What waits may be answered elsewhere, run out of time or be cancelled: the page goes on with what comes of it

async function watch(chain, run) {
  for (let wait = 0; chain.run === run; wait = Math.min(wait + 1000, 15000)) {
    await pause(wait);
    let record;
    try {
      record = await (await accepted(await call("GET", pathOf(run)))).json();
    } catch (fault) {
      if (isFinal(fault)) return;
      continue;
    }
    if (chain.run !== run || chain.own.has(record.resumedBy)) return;
    if (record.resumedBy || TERMINAL.includes(record.status)) {
      for (const one of cards.values()) if (one.run === run) close(one.card);
      if (record.resumedBy) await attempt(() => follow(`${pathOf(record.resumedBy)}/events`, null, null, chain));
      else keepInSight(() => put($("log"), "p", "Cancelled.", "quiet"));
      return;
    }
  }
}

function close(card) {
  for (const one of card.querySelectorAll("button, input, select, textarea")) one.disabled = true;
  put(card, "p", "This was settled elsewhere.", "quiet");
}

function fields(card, schema, id) {
  if (!schema) return () => undefined;
  const readers = Object.entries(schema.properties ?? {}).map(([name, one]) => {
    const row = put(card, "div", "", "field");
    const label = put(row, "label", one.title ?? name);
    const input = put(row, one.enum ? "select" : ["object", "array"].includes(one.type) ? "textarea" : "input");
    label.htmlFor = input.id = `${id} ${name}`;
    const required = (schema.required ?? []).includes(name);
    if (one.enum && !required) put(input, "option");
    for (const value of one.enum ?? []) put(input, "option", pretty(value));
    if (!one.enum && one.type === "boolean") input.type = "checkbox";
    if (!one.enum && ["number", "integer"].includes(one.type)) { input.type = "number"; input.step = one.type === "integer" ? 1 : "any"; }
    input.required = required && one.type !== "boolean";
    if (input.required) label.append(" *");
    return [name, () => {
      if (one.enum) return one.enum[input.selectedIndex - (required ? 0 : 1)];
      if (one.type === "boolean") return input.checked;
      if (input.value === "") return undefined;
      return one.type === "string" || one.type === undefined ? input.value : JSON.parse(input.value);
    }];
  });
  return () => Object.fromEntries(readers.map(([name, read]) => [name, read()]).filter(([, value]) => value !== undefined));
}

// Coming in

async function enter() {
  $("fault").textContent = "";
  try {
    app = await (await accepted(await call("GET", `${place.slice(root.length)}/workflow`))).json();
  } catch (fault) {
    if (fault.status === 401 && !recall("token")) { arrange(false); return; }
    if (fault.status) remember("token", null);
    $("fault").textContent = fault.status === 401 ? "This access token is not valid." : fault.message;
    arrange(false);
    return;
  }
  document.title = $("title").textContent = app.name;
  arrange(true);
  const pending = JSON.parse(recall("pending"));
  if (pending) await say(pending.text, pending.key);
  else if (app.description && !$("log").firstChild) put($("log"), "p", app.description, "quiet");
}

$("credentials").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = $("token").value.trim();
  $("token").value = "";
  if (!/^[!-~]+$/.test(token)) { $("fault").textContent = "This is no access token."; return; }
  remember("token", token);
  enter();
});

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("message").value.trim();
  if (!text || turns) return;
  $("message").value = "";
  $("message").style.height = "";
  say(text, fresh());
});

$("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); $("composer").requestSubmit(); }
});
$("message").addEventListener("input", () => {
  $("message").style.height = "";
  $("message").style.height = `${$("message").scrollHeight + 2}px`;
});

$("stop").addEventListener("click", () => {
  if (latest?.run) attempt(async () => accepted(await call("POST", `${pathOf(latest.run)}/cancel`)));
});
$("anew").addEventListener("click", () => {
  remember("session", null);
  remember("pending", null);
  location.reload();
});
$("sign-out").addEventListener("click", () => {
  for (const name of ["token", "session", "pending"]) remember(name, null);
  location.reload();
});

enter();
