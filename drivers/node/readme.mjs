// The JavaScript of the project's README, word for word (`docs/code` compares them), and what it
// has to do. Ends with 1 when an account holds what it should not.
//
// `drivers/run` puts the addresses of its gateways into a copy of this file.

import assert from "node:assert/strict";
import { mongo } from "mongoose";

const client = await mongo.MongoClient.connect("mongodb://127.0.0.1:27117");
const bank = client.db("bank");
await bank.dropDatabase();

import mongoose from "mongoose";

const Account = mongoose.model("Account", new mongoose.Schema({ _id: Number, balance: Number }));
await mongoose.connect("mongodb://127.0.0.1:27117/bank");
await Account.create([{ _id: 1, balance: 100 }, { _id: 2, balance: 0 }]);
await mongoose.connection.transaction(async (session) => {
  await Account.updateOne({ _id: 1 }, { $inc: { balance: -10 } }).session(session);
  await Account.updateOne({ _id: 2 }, { $inc: { balance: 10 } }).session(session);
});
await mongoose.disconnect();

const found = await bank.collection("accounts").find().sort({ _id: 1 }).toArray();
assert.deepEqual(found.map(({ _id, balance }) => [_id, balance]), [[1, 90], [2, 10]]);
console.log(found);
await bank.dropDatabase();
await client.close();
