// A bank with eight tellers at once, with Mongoose. Ends with 1 when a transfer is lost or made
// twice.

import assert from "node:assert/strict";
import mongoose from "mongoose";

const TELLERS = 8, TRANSFERS = 25, ACCOUNTS = 4, BALANCE = 1_000;

/** Who has how much. */
const Account = mongoose.model("Account", new mongoose.Schema({ _id: Number, balance: Number }));
/** How many were made. */
const Transfers = mongoose.model("Transfers", new mongoose.Schema({ _id: Number, made: Number }));

const below = (bound) => Math.floor(Math.random() * bound);

/** Reads three documents, changes them, and saves them. */
async function transfer(session) {
  const from = below(ACCOUNTS), to = (from + 1 + below(ACCOUNTS - 1)) % ACCOUNTS, amount = 1 + below(10);
  const transfers = await Transfers.findById(0).session(session);
  const payer = await Account.findById(from).session(session);
  const payee = await Account.findById(to).session(session);
  transfers.made += 1;
  payer.balance -= amount;
  payee.balance += amount;
  for (const document of [transfers, payer, payee]) {
    await document.save(); // in the session that it was found in
  }
}

async function teller() {
  for (let done = 0; done < TRANSFERS; done++) {
    // Runs it again when another transaction came in between, and sends the commit again when its
    // answer was lost.
    await mongoose.connection.transaction(transfer);
  }
}

await mongoose.connect(process.env.MONGODB_URI ?? "mongodb://127.0.0.1:27117", { dbName: "bank_mongoose" });
try {
  await mongoose.connection.dropDatabase();
  await Account.create(Array.from({ length: ACCOUNTS }, (_, id) => ({ _id: id, balance: BALANCE })));
  await Transfers.create({ _id: 0, made: 0 });
  await Promise.all(Array.from({ length: TELLERS }, teller));
  const { made } = await Transfers.findById(0);
  const total = (await Account.find()).reduce((sum, account) => sum + account.balance, 0);
  console.log(`${made} transfers, ${total} in all accounts`);
  assert.deepEqual({ made, total }, { made: TELLERS * TRANSFERS, total: ACCOUNTS * BALANCE });
  await mongoose.connection.dropDatabase();
} finally {
  await mongoose.disconnect();
}
