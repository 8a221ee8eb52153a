// Puts the `mongotx` binary and the licence into the package before it is packed: the binary that
// MONGOTX_BINARY names, or one that cargo builds. npm runs this for `npm pack` and `npm publish`.
// An argument names another folder than this one.

"use strict";

const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");

const ROOT = path.resolve(__dirname, "../..");

function binary() {
  const given = process.env.MONGOTX_BINARY;
  if (given) return path.resolve(given);
  const build = ["build", "--release", "--locked", "-p", "mongotx-cli"];
  execFileSync("cargo", build, { cwd: ROOT, stdio: "inherit" });
  return path.join(process.env.CARGO_TARGET_DIR ?? path.join(ROOT, "target"), "release", "mongotx");
}

const folder = process.argv[2] ?? __dirname;
const target = path.join(folder, "bin", "mongotx");
fs.mkdirSync(path.dirname(target), { recursive: true });
fs.rmSync(target, { force: true });
fs.copyFileSync(binary(), target);
fs.chmodSync(target, 0o755);
fs.copyFileSync(path.join(ROOT, "LICENSE"), path.join(folder, "LICENSE"));
