// The guide's script for the shell, word for word (`docs/code` compares them), and what it has to
// do. Ends with 1 when an account holds what it should not.

const assert = require("node:assert/strict");

db.getSiblingDB("bank").accounts.drop();
db.getSiblingDB("bank").accounts.insertMany([{ _id: "ann", balance: 100 }, { _id: "bob", balance: 0 }])

const session = db.getMongo().startSession();
session.withTransaction(() => {
  const accounts = session.getDatabase("bank").accounts;
  accounts.updateOne({ _id: "ann" }, { $inc: { balance: -10 } });
  accounts.updateOne({ _id: "bob" }, { $inc: { balance: 10 } });
});

const found = Object.fromEntries(db.getSiblingDB("bank").accounts.find().toArray().map(({ _id, balance }) => [_id, balance]));
assert.deepEqual(found, { ann: 90, bob: 10 });
print(found);
db.getSiblingDB("bank").accounts.drop();
