// Clients of the soak with the Node driver, a loop each. See README.md for what all three programs
// do.

import { MongoClient, MongoError, MongoServerError } from "mongodb";

const env = process.env;
const [accounts, pause, name] = [Number(env.SOAK_ACCOUNTS), 1000 * Number(env.SOAK_PAUSE_S), env.SOAK_NAME];
const client = new MongoClient(env.MONGODB_URI, { maxPoolSize: 0, serverSelectionTimeoutMS: 20_000 });
const bank = client.db("soak");
const counts = { committed: 0, failed: 0, unknown: 0, read: 0 };
let isOver = false;
const wakers = new Set();

/** Less when the program is to end. */
function sleep(ms) {
  return new Promise((resolve) => {
    const wake = () => (clearTimeout(timer), wakers.delete(wake), resolve());
    const timer = setTimeout(wake, ms);
    wakers.add(wake);
  });
}

async function transfer(which, n) {
  const payer = Math.floor(Math.random() * accounts);
  const payee = (payer + 1 + Math.floor(Math.random() * (accounts - 1))) % accounts;
  const entry = { _id: `${name}-${which}-${n}`, by: name, from: payer, to: payee, amount: 1 };
  const session = client.startSession();
  try {
    await session.withTransaction(async () => {
      await bank.collection("accounts").updateOne({ _id: payer }, { $inc: { balance: -1 } }, { session });
      await bank.collection("accounts").updateOne({ _id: payee }, { $inc: { balance: 1 } }, { session });
      await bank.collection("ledger").insertOne(entry, { session });
    });
    counts.committed += 1;
  } catch (error) {
    // Only the ledger shows whether it was committed.
    const isUnknown =
      !(error instanceof MongoServerError) ||
      (error instanceof MongoError && error.hasErrorLabel("UnknownTransactionCommitResult"));
    counts[isUnknown ? "unknown" : "failed"] += 1;
  } finally {
    await session.endSession();
  }
}

async function read() {
  // Some cursors are left in the middle.
  const cursor = bank.collection("ledger").find({}, { batchSize: 20 }).limit(100);
  try {
    const most = [1, 30, 100][Math.floor(Math.random() * 3)];
    for (let n = 0; n < most && (await cursor.hasNext()); n += 1) await cursor.next();
    counts.read += 1;
  } catch {
    counts.failed += 1;
  } finally {
    await cursor.close().catch(() => {});
  }
}

async function live(which) {
  await sleep(Math.random() * pause);
  for (let n = 1; !isOver; n += 1) {
    await (Math.random() < 0.8 ? transfer(which, n) : read());
    if (!isOver) await sleep((0.5 + Math.random()) * pause);
  }
}

process.on("SIGTERM", () => {
  isOver = true;
  for (const wake of [...wakers]) wake();
});
const reports = setInterval(() => console.log(JSON.stringify(counts)), 500);
await Promise.all(Array.from({ length: Number(env.SOAK_CLIENTS) }, (_, which) => live(which)));
clearInterval(reports);
await client.close();
console.log(JSON.stringify(counts));
