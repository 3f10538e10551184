import { defineConfig } from "vitest/config";

// Each test has a sandbox of its own, so all of them can run at once.
export default defineConfig({ test: { sequence: { concurrent: true }, maxConcurrency: 4, testTimeout: 15_000 } });
