// A bank: one transfer that is committed, and one that is rolled back. Ends with 1 when an account
// holds what it should not.

import assert from "node:assert/strict";
import mongoose from "mongoose";

const Account = mongoose.model("Account", new mongoose.Schema({ _id: String, balance: { type: Number, min: 0 } }));

/** Both accounts change, or neither. */
async function transfer(payer, payee, amount) {
  // Runs the function again when another transaction came in between, and sends the commit again
  // when its answer was lost.
  await mongoose.connection.transaction(async (session) => {
    await Account.updateOne({ _id: payee }, { $inc: { balance: amount } }).session(session);
    const account = await Account.findById(payer).session(session);
    account.balance -= amount;
    await account.save(); // in the session that it was found in; refuses what the schema forbids
  });
}

async function mustBe(alice, bob) {
  const found = Object.fromEntries((await Account.find()).map(({ _id, balance }) => [_id, balance]));
  assert.deepEqual(found, { alice, bob });
  console.log(found);
}

await mongoose.connect(process.env.MONGODB_URI ?? "mongodb://127.0.0.1:27117", { dbName: "bank_node" });
try {
  await Account.collection.drop().catch(() => {});
  await Account.create([{ _id: "alice", balance: 100 }, { _id: "bob", balance: 0 }]);
  await transfer("alice", "bob", 30);
  await mustBe(70, 30);
  await assert.rejects(transfer("alice", "bob", 1000), mongoose.Error.ValidationError);
  console.log("rolled back: alice has less than 1000");
  await mustBe(70, 30);
  await Account.collection.drop();
} finally {
  await mongoose.disconnect();
}
