// A bank with eight tellers at once, with Payload. Ends with 1 when a transfer is lost or made
// twice, or Payload does without transactions, as it does where the connection string names no
// replica set.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { mongooseAdapter } from "@payloadcms/db-mongodb";
import { MongoClient } from "mongodb";
import { buildConfig, getPayload } from "payload";

const TELLERS = 8, TRANSFERS = 10, ACCOUNTS = 4, BALANCE = 1_000, ATTEMPTS = 1_000;

const uri = new URL(process.env.MONGODB_URI ?? "mongodb://127.0.0.1:27117/?replicaSet=rs0");
uri.pathname = "/bank_payload";

const number = (name) => ({ name, type: "number", required: true });
const config = buildConfig({
  secret: "nobody logs in here",
  db: mongooseAdapter({ url: uri.href }),
  telemetry: false,
  typescript: { autoGenerate: false },
  collections: [
    { slug: "accounts", fields: [number("balance")] }, // who has how much
    { slug: "transfers", fields: [number("made")] }, // how many were made
  ],
});

const below = (bound) => Math.floor(Math.random() * bound);

/** Reads three documents, changes them, and saves them: in the transaction of `req`. */
async function transfer(payload, accounts, counter, req) {
  const from = below(ACCOUNTS), to = (from + 1 + below(ACCOUNTS - 1)) % ACCOUNTS, amount = 1 + below(10);
  const read = (collection, id) => payload.findByID({ collection, id, req });
  const save = (collection, { id }, data) => payload.update({ collection, id, data, req });
  const transfers = await read("transfers", counter);
  const payer = await read("accounts", accounts[from]);
  const payee = await read("accounts", accounts[to]);
  await save("transfers", transfers, { made: transfers.made + 1 });
  await save("accounts", payer, { balance: payer.balance - amount });
  await save("accounts", payee, { balance: payee.balance + amount });
}

/**
 * Runs it again when another transaction came in between. Payload's transactions do not do that by
 * themselves.
 */
async function inTransaction(payload, run) {
  for (let attempt = 1; ; attempt++) {
    const transactionID = await payload.db.beginTransaction();
    try {
      await run({ transactionID });
      await payload.db.commitTransaction(transactionID);
      return;
    } catch (error) {
      await payload.db.rollbackTransaction(transactionID);
      if (!error.errorLabels?.includes("TransientTransactionError") || attempt === ATTEMPTS) {
        throw error;
      }
      await pause(below(20));
    }
  }
}

const client = await new MongoClient(uri.href).connect();
await client.db().dropDatabase();
const payload = await getPayload({ config });
try {
  assert.ok(payload.db.transactionOptions, "Payload has switched transactions off");
  const create = async (collection, data) => (await payload.create({ collection, data })).id;
  const accounts = await Promise.all(Array.from({ length: ACCOUNTS }, () => create("accounts", { balance: BALANCE })));
  const counter = await create("transfers", { made: 0 });
  const teller = async () => {
    for (let done = 0; done < TRANSFERS; done++) {
      await inTransaction(payload, (req) => transfer(payload, accounts, counter, req));
    }
  };
  await Promise.all(Array.from({ length: TELLERS }, teller));
  const { made } = await payload.findByID({ collection: "transfers", id: counter });
  const { docs } = await payload.find({ collection: "accounts", pagination: false });
  const total = docs.reduce((sum, { balance }) => sum + balance, 0);
  console.log(`${made} transfers, ${total} in all accounts`);
  assert.deepEqual({ made, total }, { made: TELLERS * TRANSFERS, total: ACCOUNTS * BALANCE });
  await client.db().dropDatabase();
} finally {
  await payload.destroy();
  await client.close();
}
