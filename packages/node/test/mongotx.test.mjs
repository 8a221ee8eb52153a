// The installed package: transactions through its gateways, and nothing left behind.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import readline from "node:readline";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import mongoose from "mongoose";
import { binary, gateway, local, MongoTxError } from "mongotx";

// The longest that anything here is waited for.
const LIMIT_MS = 60_000;
const NO_SERVER = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100";
const Account = mongoose.model("Account", new mongoose.Schema({ _id: Number, balance: Number }));

let mongo;

before(async () => {
  mongo = await local();
  await mongoose.connect(mongo.uri, { dbName: "bank" });
});

after(async () => {
  await mongoose.disconnect();
  await mongo.stop();
});

async function transfer(session) {
  await Account.updateOne({ _id: 1 }, { $inc: { balance: -10 } }).session(session);
  await Account.updateOne({ _id: 2 }, { $inc: { balance: 10 } }).session(session);
}

async function balances() {
  return (await Account.find().sort({ _id: 1 })).map((account) => account.balance);
}

test("a transaction commits, and one that throws is rolled back", async () => {
  await Account.create([{ _id: 1, balance: 100 }, { _id: 2, balance: 0 }]);
  await mongoose.connection.transaction(transfer);
  assert.deepEqual(await balances(), [90, 10]);
  const failed = mongoose.connection.transaction(async (session) => {
    await transfer(session);
    throw new Error("changed my mind");
  });
  await assert.rejects(failed, /changed my mind/);
  assert.deepEqual(await balances(), [90, 10]);
});

test("a gateway shows a replica set when asked, and stops", async () => {
  const other = await local({ replicaSet: "rs0", isolation: "serializable" });
  const connection = await mongoose.createConnection(other.uri).asPromise();
  assert.equal((await connection.db.admin().command({ hello: 1 })).setName, "rs0");
  await connection.close();
  await other.stop();
});

test("an error has the log", async () => {
  await assert.rejects(gateway(NO_SERVER), (error) => error instanceof MongoTxError && error.message.includes("--uri"));
});

test("everything ends when the process is killed", async () => {
  const script = 'require("mongotx").local().then(({ uri }) => { console.log(uri); setInterval(() => {}, 1000); });';
  const parent = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve) => readline.createInterface({ input: parent.stdout }).once("line", resolve));
  const gateways = children(parent.pid);
  const started = gateways.concat(gateways.flatMap(children));
  assert.ok(gateways.length === 1 && started.length >= 2, `${started}`);
  parent.kill("SIGKILL");
  const deadline = Date.now() + LIMIT_MS;
  while (started.some(isRunning)) {
    assert.ok(Date.now() < deadline, "something is left behind");
    await sleep(50);
  }
});

test("a gateway keeps no process alive", () => {
  const script = 'require("mongotx").local().then(({ uri }) => console.log(uri));';
  const said = execFileSync(process.execPath, ["-e", script], { encoding: "utf8", timeout: LIMIT_MS });
  assert.match(said, /^mongodb:\/\/127\.0\.0\.1:\d+/);
});

test("the command is the binary", () => {
  const [command, own] = ["node_modules/.bin/mongotx", binary()].map((file) => execFileSync(file, ["--version"], { encoding: "utf8" }));
  assert.match(own, /^mongotx /);
  assert.equal(command, own);
});

/** State and parent of a process. */
function stat(pid) {
  const text = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
  const [state, parent] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { state, parent: Number(parent) };
}

function children(parent) {
  const isChild = (pid) => {
    try {
      return stat(pid).parent === parent;
    } catch {
      return false;
    }
  };
  return fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number).filter(isChild);
}

function isRunning(pid) {
  try {
    return stat(pid).state !== "Z";
  } catch {
    return false;
  }
}
