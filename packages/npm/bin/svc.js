#!/usr/bin/env node
"use strict";

const { spawn } = require("node:child_process");

const { findBinary } = require("../binary.js");

const fail = (error) => {
  console.error(`svc: ${error.message}`);
  process.exit(1);
};

let binary;
try {
  binary = findBinary();
} catch (error) {
  fail(error);
}
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
child.on("error", fail);
const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
const hasTerminal = [process.stdin, process.stdout, process.stderr].some(({ isTTY }) => isTTY);
for (const signal of signals) {
  // A terminal sends Ctrl-C to both.
  process.on(signal, () => (signal === "SIGINT" && hasTerminal) || child.kill(signal));
}
// npm starts this below a shell, which a signal ends without passing it on.
const parent = process.ppid;
if (process.env.npm_command) setInterval(() => process.ppid === parent || child.kill(), 500).unref();
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  signals.forEach((name) => process.removeAllListeners(name));
  process.kill(process.pid, signal);
});
