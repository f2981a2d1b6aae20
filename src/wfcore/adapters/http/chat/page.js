const pagePath = location.pathname.replace(/\/+$/, "");
const root = pagePath.slice(0, pagePath.lastIndexOf("/interfaces/chatapp/"));
const $ = (id) => document.getElementById(id);
const TERMINAL = ["done", "error", "cancelled"];
const cards = new Map();
let app = null;
let turns = 0;
let latest = null;

// Values kept for the tab

const store = (name, value) => {
  const key = `wfcore ${pagePath} ${name}`;
  if (value === null) sessionStorage.removeItem(key); else sessionStorage.setItem(key, value);
};
const stored = (name) => sessionStorage.getItem(`wfcore ${pagePath} ${name}`);

function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Output: text is only set as text, never as markup

function appendElement(parent, tag, text = "", style = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (style) element.className = style;
  parent.append(element);
  return element;
}

function keepScrolledToEnd(change) {
  const area = $("scroll-area");
  const atEnd = area.scrollHeight - area.scrollTop - area.clientHeight < 80;
  const done = change();
  if (atEnd) area.scrollTop = area.scrollHeight;
  return done;
}

const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
const showStatus = (text) => { $("state").textContent = text; };

function showSignedIn(signedIn) {
  for (const id of ["scroll-area", "composer-area", "new-chat"]) $(id).hidden = !signedIn;
  $("sign-in").hidden = signedIn;
  $("sign-out").hidden = !signedIn || !stored("token");
  $(signedIn ? "message" : "token").focus();
}

// Requests

class RequestError extends Error {
  constructor(status, message, issues) { super(message); this.status = status; this.issues = issues; }
}

function request(method, path, body, more = {}) {
  const headers = { Accept: "application/json", ...more };
  const token = stored("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const credentials = "same-origin", redirect = "error", cache = "no-store";
  return fetch(root + path, { method, headers, credentials, redirect, cache, body: body && JSON.stringify(body) });
}

async function checkStatus(response) {
  if (response.ok) return response;
  const text = await response.text();
  let message = `The server answered ${response.status}.`, issues = [];
  try {
    const data = JSON.parse(text.startsWith("{") ? text : text.split("\n").find((line) => line.startsWith("data:")).slice(5));
    message = data.error.message;
    issues = data.error.info?.errors ?? [];
  } catch { /* no error envelope: the status is the message */ }
  throw new RequestError(response.status, message, issues);
}

const isFinal = (error) => error instanceof RequestError && error.status < 500 && error.status !== 429;
const pause = (milliseconds) => new Promise((next) => setTimeout(next, milliseconds));
const backOnline = () => new Promise((next) => globalThis.addEventListener?.("online", next, { once: true }));
const isOffline = () => globalThis.navigator?.onLine === false;
const runPath = (run) => `/agent/v1/runs/${encodeURIComponent(run)}`;

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

// A turn: the same request begins it and joins it again until its last event is received

async function follow(path, body, key, chain) {
  const turn = { chain, key, lastSeq: 0, ended: false, bubbles: new Map(), steps: new Map(), lastMessage: null, list: null };
  latest = chain;
  turns += 1;
  updateControls();
  try {
    for (let tries = 0; !turn.ended; tries += 1) {
      if (tries) await Promise.race([pause(Math.min(500 * 2 ** tries, 15000)), backOnline()]);
      try {
        await readEvents(path, body, turn, () => { tries = 0; });
      } catch (error) {
        if (isFinal(error)) throw error;
        showStatus(isOffline() ? "You are offline. The chat continues when you are back." : "The connection was lost. Reconnecting…");
      }
    }
  } finally {
    turns -= 1;
    updateControls();
  }
}

async function readEvents(path, body, turn, onEvent) {
  const headers = { Accept: "text/event-stream" };
  if (turn.key) headers["Idempotency-Key"] = turn.key;
  if (turn.lastSeq) headers["Last-Event-ID"] = String(turn.lastSeq);
  for await (const event of frames(await checkStatus(await request(body ? "POST" : "GET", path, body, headers)))) {
    onEvent();
    turn.lastSeq = event.seq;
    turn.ended = TERMINAL.includes(event.kind);
    keepScrolledToEnd(() => showEvent(event, turn));
  }
}

function updateControls() {
  $("send").disabled = turns > 0;
  $("stop").hidden = turns === 0;
  showStatus(turns ? "Working…" : "");
}

async function sendMessage(text, key) {
  store("pending", JSON.stringify({ text, key }));
  keepScrolledToEnd(() => appendElement($("log"), "div", text, "bubble own"));
  const body = { message: text, fileThreadId: thread(), origin: "chatapp", streamProtocolVersion: 2 };
  if (app.skillId) body.skillId = app.skillId;
  else Object.assign(body, { workflowId: app.workflowId, input: app.takesMessage ? { message: text } : {} });
  await attempt(() => follow("/agent/v1/runs", body, key, { run: null, ownKeys: new Set() }));
  store("pending", null);
}

async function attempt(work, showErrors = () => false) {
  try {
    await work();
    return true;
  } catch (error) {
    if (showErrors(error)) return false;
    keepScrolledToEnd(() => appendElement($("log"), "div", error.message, "bubble failed"));
    if (error.status === 401) { store("token", null); showSignedIn(false); }
    return false;
  }
}

function thread() {
  if (!stored("session")) store("session", randomKey());
  return `${threads()}${stored("session")}`;
}

const threads = () => `chat_${app.id}_`;

// The chats of this page before, by their first message; without the right to read them there is no list

async function showChats() {
  let found;
  try {
    found = (await (await checkStatus(await request("GET", "/api/v1/skills/0/conversations?pageSize=100"))).json()).conversations;
  } catch { return; }
  const own = found.filter((one) => one.threadId.startsWith(threads()) && one.threadId !== (stored("session") && thread()));
  $("chats").hidden = own.length === 0;
  $("chat-list").replaceChildren();
  for (const one of own) {
    const first = one.messages.find((message) => message.type === "human")?.content ?? "";
    const button = appendElement(appendElement($("chat-list"), "li"), "button", first.length > 60 ? `${first.slice(0, 60)}…` : first || "Chat");
    button.type = "button";
    button.addEventListener("click", () => {
      store("session", one.threadId.slice(threads().length));
      store("pending", null);
      location.reload();
    });
  }
}

// The messages of this chat so far, for a page that was loaded again; without the right to read them it begins empty

async function showHistory(pending) {
  if (!stored("session")) return;
  let messages;
  try {
    const path = `/api/v1/skills/0/conversations/${thread()}`;
    messages = (await (await checkStatus(await request("GET", path))).json()).messages;
  } catch { return; }
  const last = messages.findLastIndex((one) => one.type === "human");
  if (pending && last >= 0 && messages[last].content === pending.text) messages = messages.slice(0, last);
  for (const one of messages) {
    if (one.content && ["human", "ai"].includes(one.type)) {
      appendElement($("log"), "div", one.content, one.type === "human" ? "bubble own" : "bubble");
    }
  }
  keepScrolledToEnd(() => {});
}

// Events

function showEvent(event, turn) {
  switch (event.kind) {
    case "run_started": turn.chain.run = event.runId; break;
    case "node_started": showStep(event, turn, event.nodeId, event.nodeId); break;
    case "node_finished": showStep(event, turn, event.nodeId, `${event.nodeId} ✓`); break;
    case "node_failed": showStep(event, turn, event.nodeId, `${event.nodeId} ✗ ${event.error?.message ?? ""}`); break;
    case "node_retrying": markInterrupted(event, turn); showStep(event, turn, event.nodeId, `${event.nodeId} tries again`); break;
    case "tool_call": showStep(event, turn, event.toolCallId, `${event.name} ${JSON.stringify(event.arguments)}`); break;
    case "tool_result": showStep(event, turn, event.toolCallId, null, event.error ? " ✗" : " ✓"); break;
    case "message_delta": bubbleOf(event, turn).append(event.delta); break;
    case "message": case "message_replaced": finishBubble(bubbleOf(event, turn)).textContent = turn.lastMessage = event.content; break;
    case "interrupt": showInterrupt(event, turn.chain); break;
    case "done": showEnd(event, turn); break;
    case "error": appendElement($("log"), "div", event.error.message, "bubble failed"); break;
    case "cancelled": appendElement($("log"), "p", "Cancelled.", "quiet"); break;
  }
}

function bubbleOf(event, turn) {
  const key = JSON.stringify([event.path, event.items, event.messageId]);
  turn.chain.messageShown = true;
  if (!turn.bubbles.has(key)) {
    if (event.path?.length) appendElement($("log"), "p", event.path.join(" / "), "quiet who");
    turn.bubbles.set(key, appendElement($("log"), "div", "", event.path?.length ? "bubble helper" : "bubble"));
    turn.bubbles.get(key).dataset.unfinished = event.nodeId;
  }
  return turn.bubbles.get(key);
}

function finishBubble(element) {
  delete element.dataset.unfinished;
  return element;
}

function markInterrupted(event, turn) {
  for (const one of turn.bubbles.values()) {
    if (one.dataset.unfinished === event.nodeId) finishBubble(one).classList.add("interrupted");
  }
}

function showStep(event, turn, name, text, mark = "") {
  if (!turn.list) {
    const box = appendElement($("log"), "details");
    appendElement(box, "summary", "Steps");
    box.setAttribute("aria-live", "off");
    turn.list = appendElement(box, "ol");
  }
  const key = JSON.stringify([event.path, event.items, name]);
  if (!turn.steps.has(key)) turn.steps.set(key, appendElement(turn.list, "li"));
  const line = turn.steps.get(key);
  line.textContent = (text ?? line.textContent) + mark;
}

function showEnd(event, turn) {
  if (event.status === "interrupted") {
    for (const one of event.interrupts ?? []) showInterrupt({ ...one, runId: event.runId }, turn.chain);
    watchInterrupted(turn.chain, event.runId);
  } else if (typeof event.output === "string") {
    if (event.output !== turn.lastMessage) appendElement($("log"), "div", event.output, "bubble");
  } else if (event.output !== null) {
    const box = appendElement($("log"), "details");
    appendElement(box, "summary", "Result");
    appendElement(box, "pre", pretty(event.output)).tabIndex = 0;
    box.open = !turn.chain.messageShown;
  }
}

// Interrupts

function showInterrupt(interrupt, chain) {
  const before = cards.get(interrupt.interruptId);
  if (before?.run === interrupt.runId) return;
  before?.card.remove();
  const card = appendElement($("log"), "form", "", "card");
  cards.set(interrupt.interruptId, { card, run: interrupt.runId });
  const missing = interrupt.requiredApprovals - interrupt.approvals;
  appendElement(card, "p", interrupt.message || (interrupt.type === "connect" ? "A connection is needed." : "Continue?"));
  if (interrupt.type === "connect") appendElement(card, "p", `${interrupt.toolId ?? ""} ${interrupt.provider ?? ""}`, "quiet");
  else if (interrupt.toolId) {
    appendElement(card, "p", interrupt.toolId, "quiet");
    appendElement(card, "pre", pretty(interrupt.arguments)).tabIndex = 0;
  }
  if (missing > 1) appendElement(card, "p", `${missing} approvals are missing.`, "quiet");
  const form = formOf(card, interrupt.formSchema, interrupt.interruptId);
  const buttons = appendElement(card, "div", "", "buttons");
  const choices = interrupt.type === "connect"
    ? [["connected", "It is connected"], ["cancelled", "Go on without"]]
    : [["approve", "Approve"], ["deny", "Deny"]];
  for (const [decision, label] of choices) {
    const button = appendElement(buttons, "button", label, decision === choices[0][0] ? "main" : "");
    button.type = "submit";
    button.value = decision;
    button.formNoValidate = decision !== choices[0][0];
  }
  card.addEventListener("submit", (event) => {
    event.preventDefault();
    const decision = event.submitter?.value ?? choices[0][0];
    decide(card, interrupt, chain, decision, form);
  });
}

async function decide(card, interrupt, chain, decision, form) {
  const controls = [...card.querySelectorAll("button, input, select, textarea")];
  const lock = (locked) => { for (const one of controls) one.disabled = locked; };
  const note = appendElement(card, "p", "", "quiet");
  const done = await attempt(async () => {
    const data = decision === "approve" ? form.read() : undefined;
    const body = { interruptId: interrupt.interruptId, decision, data, origin: "chatapp", streamProtocolVersion: 2 };
    lock(true);
    note.textContent = { approve: "Approved.", deny: "Denied." }[decision] ?? "Answered.";
    const key = randomKey();
    chain.ownKeys.add(key);
    await follow(`${runPath(chain.run)}/resume`, body, key, chain);
  }, form.showErrors);
  if (done) { $("message").focus(); return; }
  note.remove();
  lock(false);
  form.focusError();
}

// An interrupt can be resolved elsewhere, expire or be cancelled: the page then follows the next turn

async function watchInterrupted(chain, run) {
  for (let wait = 0; chain.run === run; wait = Math.min(wait + 1000, 15000)) {
    await pause(wait);
    let record;
    try {
      record = await (await checkStatus(await request("GET", runPath(run)))).json();
    } catch (error) {
      if (isFinal(error)) return;
      continue;
    }
    if (chain.run !== run || chain.ownKeys.has(record.resumedBy)) return;
    if (record.resumedBy || TERMINAL.includes(record.status)) {
      for (const one of cards.values()) if (one.run === run) closeCard(one.card);
      if (record.resumedBy) await attempt(() => follow(`${runPath(record.resumedBy)}/events`, null, null, chain));
      else keepScrolledToEnd(() => appendElement($("log"), "p", "Cancelled.", "quiet"));
      return;
    }
  }
}

function closeCard(card) {
  for (const one of card.querySelectorAll("button, input, select, textarea")) one.disabled = true;
  appendElement(card, "p", "This was decided elsewhere.", "quiet");
}

// Sign-in

async function openChat() {
  $("error").textContent = "";
  try {
    app = await (await checkStatus(await request("GET", `${pagePath.slice(root.length)}/workflow`))).json();
  } catch (error) {
    if (error.status === 401 && !stored("token")) { showSignedIn(false); return; }
    if (error.status) store("token", null);
    $("error").textContent = error.status === 401 ? "This access token is not valid." : error.message;
    showSignedIn(false);
    return;
  }
  document.title = $("title").textContent = app.name;
  showSignedIn(true);
  const pending = JSON.parse(stored("pending"));
  await showHistory(pending);
  if ($("chats")) showChats();
  if (pending) await sendMessage(pending.text, pending.key);
  else if (app.description && !$("log").firstChild) appendElement($("log"), "p", app.description, "quiet");
}

$("credentials").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = $("token").value.trim();
  $("token").value = "";
  if (!/^[!-~]+$/.test(token)) { $("error").textContent = "This is not a valid access token."; return; }
  store("token", token);
  openChat();
});

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("message").value.trim();
  if (!text || turns) return;
  $("message").value = "";
  $("message").style.height = "";
  sendMessage(text, randomKey());
});

$("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); $("composer").requestSubmit(); }
});
$("message").addEventListener("input", () => {
  $("message").style.height = "";
  $("message").style.height = `${$("message").scrollHeight + 2}px`;
});

$("stop").addEventListener("click", () => {
  if (latest?.run) attempt(async () => checkStatus(await request("POST", `${runPath(latest.run)}/cancel`)));
});
$("new-chat").addEventListener("click", () => {
  store("session", null);
  store("pending", null);
  location.reload();
});
$("sign-out").addEventListener("click", () => {
  for (const name of ["token", "session", "pending"]) store(name, null);
  location.reload();
});

openChat();
