// A product that bundles its own React 18, whose pages show elements of the studio. Built into `page.js`: `make react18`.
import { createElement as h, StrictMode, useEffect, useRef, useState, version } from "react";
import { createRoot } from "react-dom/client";

/** React 18 sets attributes of custom elements only: properties and listeners are set with a reference. */
function Element({ tag, properties = {}, events = {}, ...attributes }) {
  const ref = useRef(null);
  useEffect(() => void Object.assign(ref.current, properties));
  useEffect(() => {
    const element = ref.current;
    for (const [name, listen] of Object.entries(events)) element.addEventListener(name, listen);
    return () => {
      for (const [name, listen] of Object.entries(events)) element.removeEventListener(name, listen);
    };
  });
  return h(tag, { ref, ...attributes });
}

function Product() {
  const [locale, setLocale] = useState("en");
  const [title, setTitle] = useState("Waiting");
  const [isClosed, setClosed] = useState(false);
  const [run, setRun] = useState(null);
  const [decided, setDecided] = useState([]);
  const events = {
    "acme-before-decide": (event) => isClosed && event.preventDefault(),
    "acme-decided": (event) => setDecided((all) => [...all, event.detail.decision]),
    "acme-navigate": (event) => setRun(event.detail.page === "run" ? event.detail.id : null),
  };
  return h("main", null,
    h("h1", null, `React ${version}`),
    h("label", null, "Title ", h("input", { value: title, onChange: (event) => setTitle(event.target.value) })),
    h("button", { onClick: () => setLocale(locale === "en" ? "de" : "en") }, "Language"),
    h("label", null, h("input", { type: "checkbox", checked: isClosed, onChange: () => setClosed(!isClosed) }), " Closed"),
    h("output", null, decided.join()),
    h(Element, { tag: "acme-inbox", locale, properties: { labels: { "inbox.title": title } }, events }),
    h(Element, { tag: "acme-runs", events }),
    run && h(Element, { key: run, tag: "acme-run", "run-id": run }),
  );
}

createRoot(document.getElementById("root")).render(h(StrictMode, null, h(Product)));
