// The JavaScript of the guide, word for word (`docs/code` compares them), and what it has to do.
// Ends with 1 when an account holds what it should not.
//
// `drivers/run` puts the addresses of its gateways into a copy of this file.

import assert from "node:assert/strict";
import { mongo } from "mongoose";

const client = await mongo.MongoClient.connect("mongodb://127.0.0.1:27117");
await client.db("bank").dropDatabase();
const accounts = client.db("bank").collection("accounts");
await accounts.insertMany([{ _id: "ann", balance: 100 }, { _id: "bob", balance: 0 }]);

import mongoose from "mongoose";

const Account = mongoose.model("Account", new mongoose.Schema({ _id: String, balance: Number }));
await mongoose.connect("mongodb://127.0.0.1:27117/bank");

await mongoose.connection.transaction(async (session) => {
  await Account.updateOne({ _id: "ann" }, { $inc: { balance: -10 } }).session(session);
  await Account.updateOne({ _id: "bob" }, { $inc: { balance: 10 } }).session(session);
});
await mongoose.disconnect();

const found = Object.fromEntries((await accounts.find().toArray()).map(({ _id, balance }) => [_id, balance]));
assert.deepEqual(found, { ann: 90, bob: 10 });
console.log(found);
await accounts.drop();
await client.close();
