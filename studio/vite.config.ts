import { defineConfig } from "vite";

// Relative addresses: the output works below any path prefix. The output is committed, so it has no source maps.
export default defineConfig({
  base: "./",
  publicDir: false,
  oxc: { jsx: { runtime: "automatic" } },
  build: {
    outDir: "../src/wfcore/adapters/http/studio/static",
    emptyOutDir: true,
    assetsDir: "assets",
    assetsInlineLimit: 0,
    target: "es2022",
    modulePreload: false,
    reportCompressedSize: false,
    manifest: "vite.json",
    cssCodeSplit: true,
    rolldownOptions: {
      onLog: (level, log, handle) => void (log.code === "MODULE_LEVEL_DIRECTIVE" || handle(level, log)),
      input: { wfcore: "src/elements/wfcore.ts", app: "src/app/main.ts" },
      output: {
        entryFileNames: (chunk) => (chunk.name === "wfcore" ? "wfcore.js" : "assets/[name]-[hash].js"),
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  worker: { format: "es" },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
} as never);
