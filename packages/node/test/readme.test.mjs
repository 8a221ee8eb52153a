// The programs of README.md, run as they stand there.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import mongoose from "mongoose";
import { binary } from "mongotx";

const LIMIT_MS = 120_000;
const ADDRESS = "127.0.0.1:27017";
const README = fs.readFileSync("node_modules/mongotx/README.md", "utf8");
const PROGRAMS = [...README.matchAll(/^```js\n(.*?)^```$/gms)].map(([, program]) => program);

let server, address, data;

before(async () => {
  const port = await freePort();
  address = `127.0.0.1:${port}`;
  data = fs.mkdtempSync(path.join(os.tmpdir(), "mongotx-readme-"));
  const mongod = execFileSync(binary(), ["mongod-path"], { encoding: "utf8", timeout: LIMIT_MS }).trim();
  const options = ["--dbpath", data, "--port", `${port}`, "--bind_ip", "127.0.0.1", "--nounixsocket"];
  server = spawn(mongod, options, { stdio: "ignore" });
  const connection = mongoose.createConnection(`mongodb://${address}`, { serverSelectionTimeoutMS: LIMIT_MS });
  await (await connection.asPromise()).close();
});

after(async () => {
  if (server?.exitCode === null) {
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGKILL");
    await ended;
  }
  fs.rmSync(data, { recursive: true, force: true });
});

test("there are two programs", () => assert.equal(PROGRAMS.length, 2));

test("a server and a gateway for a test", () => {
  run("local.mjs", PROGRAMS[0]);
});

test("a gateway in front of a server", () => {
  assert.ok(PROGRAMS[1].includes(ADDRESS));
  const said = run("gateway.mjs", PROGRAMS[1].replace(ADDRESS, address));
  assert.match(said, /^mongodb:\/\/127\.0\.0\.1:\d+/);
});

/** Runs a program beside the installed packages; what it says. */
function run(name, program) {
  fs.writeFileSync(name, program);
  return execFileSync(process.execPath, [name], { encoding: "utf8", timeout: LIMIT_MS });
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = net.createServer().once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
