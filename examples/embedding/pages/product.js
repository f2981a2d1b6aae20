const [signIn, work, detail, leave] = ["sign-in", "work", "detail", "leave"].map((id) => document.getElementById(id));
const runs = document.querySelector("wfcore-runs");

const post = (path, body) =>
  fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
const fields = (form) => Object.fromEntries(new FormData(form));

// The words of the product replace those of the elements.
for (const element of document.querySelectorAll("wfcore-inbox, wfcore-runs, wfcore-run")) {
  element.labels = { "inbox.title": "Waiting for you", "runs.title": "Activity", "run.retry": "Try the rest again" };
}

async function show() {
  const { user, company } = await (await fetch("session")).json();
  document.getElementById("who").textContent = user ? `${user}, ${company}` : "";
  signIn.hidden = Boolean(user);
  work.hidden = leave.hidden = !user;
  if (user) await import("./automation/studio/wfcore.js"); // the elements begin to work
}

function open(runId) {
  detail.hidden = runId === null;
  runs.parentElement.hidden = runId !== null;
  if (runId !== null) detail.querySelector("wfcore-run").setAttribute("run-id", runId);
}

signIn.addEventListener("submit", async (event) => {
  event.preventDefault();
  const response = await post("login", fields(event.target));
  signIn.querySelector("[role=alert]").textContent = response.ok ? "" : (await response.json()).error;
  if (response.ok) location.reload();
});

work.addEventListener("submit", async (event) => {
  event.preventDefault();
  const response = await post("invoices", fields(event.target));
  work.querySelector("[role=status]").textContent = response.ok ? "The invoice is on its way." : "This did not work.";
  if (response.ok) event.target.reset();
});

leave.addEventListener("click", async () => {
  await post("logout", {});
  location.reload();
});

// The elements report where the user wants to go; the page decides what to show.
addEventListener("wfcore-navigate", ({ detail: place }) => {
  if (place.page === "run") open(place.id);
});
addEventListener("wfcore-auth-required", show);
document.getElementById("close").addEventListener("click", () => open(null));

await show();
