// Gateways as child processes.
//
// A gateway ends when its standard input is closed (`--end-with-stdin`). Only this process holds
// the other end of that pipe, so the gateway, and the server that it has started, end with this
// process, also when it is killed.

"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");

// No server listens there: `--start-server` starts one at once.
const NO_SERVER = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100";
const LISTENING = "listening on ";
// Lines of the gateway's log that an error shows.
const LINES = 20;
// A first start may have to fetch a mongod.
const START_LIMIT_MS = 300_000;
const STOP_LIMIT_MS = 40_000;

/** A gateway could not be started. The message has the end of its log. */
class MongoTxError extends Error {
  name = "MongoTxError";
}

/**
 * The path of the `mongotx` binary: the one that the variable MONGOTX_BINARY names, or the
 * package's own.
 */
function binary() {
  const file = process.env.MONGOTX_BINARY || path.join(__dirname, "bin", "mongotx");
  if (!fs.existsSync(file)) {
    throw new MongoTxError(`there is no mongotx binary at ${file}: install the package for this platform, or set MONGOTX_BINARY`);
  }
  return file;
}

/** Starts a gateway in front of the server of `uri`. */
async function gateway(uri, options = {}) {
  const { isolation, replicaSet, options: more = [], startLimitMs = START_LIMIT_MS } = options;
  const command = ["serve", "--listen", "127.0.0.1:0", "--end-with-stdin", "--log-level", "error", "--uri", uri];
  if (isolation !== undefined) command.push("--isolation", isolation);
  if (replicaSet !== undefined) command.push("--as-replica-set", replicaSet);
  return Gateway.start([...command, ...more], startLimitMs);
}

/** Starts a standalone server and a gateway in front of it, for tests. */
async function local(options = {}) {
  return gateway(NO_SERVER, { ...options, options: ["--start-server", ...(options.options ?? [])] });
}

/** A gateway that runs. */
class Gateway {
  #process;
  #ended;

  /** The connection string of the gateway. */
  uri;

  constructor(child, ended) {
    this.#process = child;
    this.#ended = ended;
  }

  static async start(command, limitMs) {
    const child = spawn(binary(), command, { stdio: "pipe" });
    const ended = new Promise((resolve) => child.once("close", resolve));
    const log = [];
    readline.createInterface({ input: child.stderr }).on("line", (line) => {
      log.push(line);
      if (log.length > LINES) log.shift();
    });
    const started = new Gateway(child, ended);
    try {
      started.uri = await address(child, ended, log, limitMs);
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
    // A gateway that runs keeps no process alive.
    for (const handle of [child, child.stdin, child.stdout, child.stderr]) handle.unref();
    return started;
  }

  /**
   * Ends the gateway, and the server that it has started: its commands are answered first, for a
   * while.
   */
  async stop() {
    for (const handle of [this.#process, this.#process.stdout, this.#process.stderr]) handle.ref();
    this.#process.stdin.end();
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), STOP_LIMIT_MS);
    await this.#ended;
    clearTimeout(timer);
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.stop();
  }
}

/** The address that a gateway says it listens on. */
function address(child, ended, log, limitMs) {
  return new Promise((resolve, reject) => {
    const fail = (reason) => reject(new MongoTxError(`${reason}:\n${log.join("\n")}`));
    const timer = setTimeout(() => fail(`the gateway does not listen after ${limitMs} ms`), limitMs);
    child.once("error", (error) => fail(`the gateway cannot be started: ${error.message}`));
    ended.then(() => fail(`the gateway ended with ${child.exitCode}`)).finally(() => clearTimeout(timer));
    readline.createInterface({ input: child.stdout }).once("line", (line) => {
      clearTimeout(timer);
      resolve(line.trim().slice(LISTENING.length));
    });
  });
}

exports.gateway = gateway;
exports.local = local;
exports.binary = binary;
exports.MongoTxError = MongoTxError;
