// After the build: budgets of sizes, licences, the compressed copies and the manifest.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { constants, gzipSync } from "node:zlib";
import { sha256, sourcesDigest } from "./sources.mjs";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const OUT = join(ROOT, "../src/wfcore/adapters/http/studio/static");
/** The most bytes before use, compressed, of each entry with what it loads to show its page. */
const BUDGETS = { run: 200_000, runs: 180_000, inbox: 180_000, chat: 180_000, skill: 180_000, builder: 300_000, administration: 180_000, app: 300_000 };
const LICENCES = new Set(["MIT", "ISC", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD"]);

const built = JSON.parse(readFileSync(join(OUT, "vite.json"), "utf8"));
rmSync(join(OUT, "vite.json"));

const files = {};
for (const entry of readdirSync(OUT, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const path = join(entry.parentPath, entry.name);
  const data = readFileSync(path);
  const packed = gzipSync(data, { level: constants.Z_BEST_COMPRESSION });
  writeFileSync(`${path}.gz`, packed);
  files[path.slice(OUT.length + 1)] = { sha256: sha256(data), bytes: data.length, gzip: packed.length };
}

// A product chooses the prefix of tags and events, and the name of the module: nothing else may have the default one.
for (const name of Object.keys(files)) {
  if (name !== "wfcore.js" && /wfcore/i.test(name)) throw new Error(`${name} is named after the library`);
  if (/wfcore/i.test(readFileSync(join(OUT, name), "utf8"))) throw new Error(`${name} names the library`);
}

const key = (file) => Object.keys(built).find((name) => built[name].src === file || name === file);
function closure(name, found = new Set()) {
  const chunk = built[name];
  if (!chunk || found.has(chunk.file)) return found;
  found.add(chunk.file);
  for (const css of chunk.css ?? []) found.add(css);
  for (const next of chunk.imports ?? []) closure(next, found);
  return found;
}
const loaded = (...sources) => new Set(sources.flatMap((source) => [...closure(key(source))]));
const size = (names) => [...names].reduce((sum, name) => sum + files[name].gzip, 0);

const MODULE = "src/elements/wfcore.ts";
const APP = "src/app/main.ts";
const page = (name) => `src/pages/${name}.tsx`;
// An element in the page of a product needs nothing of the application: its styles are not allowed there.
for (const name of Object.keys(built).filter((one) => one !== key(APP) && built[one].src !== APP)) {
  if ([...closure(name)].includes(built[key(APP)].file)) throw new Error(`${name} loads the application`);
}
const sizes = {
  run: size(loaded(MODULE, page("RunPage"))),
  runs: size(loaded(MODULE, page("RunsPage"))),
  inbox: size(loaded(MODULE, page("InboxPage"))),
  chat: size(loaded(MODULE, page("ChatPage"))),
  skill: size(loaded(MODULE, page("SkillPage"))),
  builder: size(loaded(MODULE, page("BuilderPage"), page("RunPage"))),
  administration: size(loaded(MODULE, page("admin/AdministrationPage"))),
  app: size(loaded(APP, page("RunPage"), page("RunsPage"), page("InboxPage"))),
};
for (const [name, most] of Object.entries(BUDGETS)) {
  if (sizes[name] > most) throw new Error(`${name} needs ${sizes[name]} bytes, more than ${most}`);
}

const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8"));
for (const [name, one] of Object.entries(lock.packages)) {
  if (one.resolved) throw new Error(`package-lock.json has an address for ${name}`);
  if (name && !one.dev && !LICENCES.has(one.license)) throw new Error(`${name} has the licence ${one.license}`);
}

const app = [...loaded(APP)];
const manifest = {
  sources: sourcesDigest(ROOT),
  app: { script: built[key(APP)].file, style: app.find((name) => name.endsWith(".css")) ?? null,
         preload: app.filter((name) => name.endsWith(".js") && name !== built[key(APP)].file).sort() },
  sizes,
  files: Object.fromEntries(Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1))),
};
writeFileSync(join(OUT, "manifest.json"), `${JSON.stringify(manifest, null, 1)}\n`);
for (const [name, bytes] of Object.entries(sizes)) console.log(`${name.padEnd(14)} ${(bytes / 1000).toFixed(1)} kB gz`);
const total = Object.values(files).reduce((sum, one) => sum + one.gzip, 0);
console.log(`total  ${(total / 1000).toFixed(1)} kB gz in ${Object.keys(files).length} files`);
