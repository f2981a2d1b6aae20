import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

// The output is committed, with the digest of its sources: tests need no Node.
const sources = ["product.js", "package-lock.json"].map((name) => readFileSync(name));
const digest = createHash("sha256").update(Buffer.concat(sources)).digest("hex");
const stamp = {
  name: "stamp",
  generateBundle: (_, bundle) => void (bundle["page.js"].code = `/*! ${digest} */\n${bundle["page.js"].code}`),
};

export default {
  plugins: [stamp],
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    outDir: "built", reportCompressedSize: false, modulePreload: false,
    rolldownOptions: { input: "product.js", output: { entryFileNames: "page.js" } },
  },
};
