// The digest of the files that decide the output. The Python test of the manifest computes the same one.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ROOTS = ["build", "src"];
const FILES = ["package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"];

export const sha256 = (data) => createHash("sha256").update(data).digest("hex");

export function sourcesDigest(root) {
  const below = ROOTS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !/\.test\.tsx?$/.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1)),
  );
  const names = [...below, ...FILES].sort();
  return sha256(names.map((name) => `${name} ${sha256(readFileSync(join(root, name)))}\n`).join(""));
}
