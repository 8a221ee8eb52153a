// A bank: one transfer that is committed, and one that is rolled back. Ends with 1 when an account
// holds what it should not.

const assert = require("node:assert/strict");

const bank = "bank_mongosh";
const accounts = db.getSiblingDB(bank).accounts;

/** Both accounts change, or neither. */
function transfer(payer, payee, amount) {
  const session = db.getMongo().startSession();
  try {
    const inside = session.getDatabase(bank).accounts;
    session.startTransaction();
    inside.updateOne({ _id: payee }, { $inc: { balance: amount } });
    inside.updateOne({ _id: payer }, { $inc: { balance: -amount } });
    if (inside.findOne({ _id: payer }).balance < 0) {
      session.abortTransaction();
      return false;
    }
    assert.equal(accounts.findOne({ _id: payee }).balance, balanceBefore[payee], "seen before the commit");
    session.commitTransaction();
    return true;
  } finally {
    session.endSession();
  }
}

function mustBe(alice, bob) {
  const found = Object.fromEntries(accounts.find().toArray().map(({ _id, balance }) => [_id, balance]));
  assert.deepEqual(found, { alice, bob });
  print(found);
}

const balanceBefore = { alice: 100, bob: 0 };
accounts.drop();
accounts.insertMany(Object.entries(balanceBefore).map(([_id, balance]) => ({ _id, balance })));
assert(transfer("alice", "bob", 30));
mustBe(70, 30);
assert(!transfer("alice", "bob", 1000));
print("rolled back: alice has less than 1000");
mustBe(70, 30);
accounts.drop();
