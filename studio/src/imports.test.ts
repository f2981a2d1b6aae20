import { expect, it } from "vitest";

const files = import.meta.glob<string>("./**/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });

const resolve = (from: string, to: string) => new URL(to, `file://${from.slice(1)}`).pathname;

/** The modules that each module imports, also for types only. */
const imported = new Map(Object.entries(files).map(([name, text]) => [
  name, [...text.matchAll(/(?:from|import) "(\.[^"]+)"/g)].flatMap((found) => [".ts", ".tsx"].map((end) => `.${resolve(name, found[1]!)}${end}`)).filter((one) => one in files),
]));

it("no module imports itself through others", () => {
  const reached = (from: string) => {
    const found = new Set<string>();
    const waiting = [from];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      for (const one of imported.get(next) ?? []) {
        if (!found.has(one)) waiting.push(one);
        found.add(one);
      }
    }
    return found;
  };
  expect(imported.get("./app/main.ts")).toContain("./elements/elements.ts");
  expect([...imported.keys()].filter((name) => reached(name).has(name))).toEqual([]);
});
