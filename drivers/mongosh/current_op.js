// What runs: `db.currentOp()` shows an open transaction with its application and its query, and
// without values. Ends with 1 when it does not.

const assert = require("node:assert/strict");

const name = "current_op_mongosh";
db.getSiblingDB(name).orders.drop();
const session = db.getMongo().startSession();
session.startTransaction();
session.getDatabase(name).orders.insertOne({ _id: 1, owner: "a secret" });
session.getDatabase(name).orders.findOne({ owner: "a secret" });

const { inprog } = db.currentOp({ ns: `${name}.orders` });
assert.equal(inprog.length, 1);
const [operation] = inprog;
assert.equal(operation.type, "idleSession");
assert.match(operation.appName, /^mongosh/);
assert.equal(operation.lastCommand.filter.owner, "?string");
assert(!EJSON.stringify(inprog).includes("a secret"));
assert(db.currentOp().inprog.some(({ desc }) => desc === operation.desc));
assert(db.currentOp(true).inprog.length > db.currentOp().inprog.length, "idle connections, too");
assert.equal(db.currentOp({ $ownOps: true, appName: "nobody's" }).inprog.length, 0);
print(operation);

session.abortTransaction();
assert.equal(db.currentOp({ ns: `${name}.orders` }).inprog.length, 0);
