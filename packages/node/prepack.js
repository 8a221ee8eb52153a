// Puts the `mongotx` binary and the licence into the package before it is packed: the binary that
// MONGOTX_BINARY names, or one that cargo builds. Puts into package.json what that binary runs on,
// so that npm installs it nowhere else. npm runs this for `npm pack` and `npm publish`, and
// afterwards with `--undo`, which takes that out of package.json again.
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

/** The package's description: with the processor and C library of this machine, or without. */
function describe(folder, withPlatform) {
  const file = path.join(folder, "package.json");
  const plain = fs.readFileSync(file, "utf8").replace(/^  "cpu": .*\n/m, "");
  const libc = process.report.getReport().header.glibcVersionRuntime ? "glibc" : "musl";
  const platform = `  "cpu": ["${process.arch}"], "libc": ["${libc}"],\n`;
  const described = plain.replace(/^  "os": .*\n/m, (line) => line + platform);
  if (described === plain) throw new Error(`${file} names no "os"`);
  fs.writeFileSync(file, withPlatform ? described : plain);
}

if (process.argv[2] === "--undo") {
  describe(__dirname, false);
  process.exit();
}

const folder = process.argv[2] ?? __dirname;
const target = path.join(folder, "bin", "mongotx");
fs.mkdirSync(path.dirname(target), { recursive: true });
fs.rmSync(target, { force: true });
fs.copyFileSync(binary(), target);
fs.chmodSync(target, 0o755);
fs.copyFileSync(path.join(ROOT, "LICENSE"), path.join(folder, "LICENSE"));
describe(folder, true);
