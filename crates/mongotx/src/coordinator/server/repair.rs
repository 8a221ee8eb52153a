//! The one way to change documents that decided transactions have left. A message that arrives late
//! does what was to be done anyway, so its answer need not be waited for: see `protocol::decided`.

use bson::{Document, doc};
use sd2v::statement::RepairStatement;

use super::{Server, WriteAnswer};
use crate::{error::Result, options::Namespace};

fn documents(statements: Vec<RepairStatement>) -> Vec<Document> {
    statements.into_iter().map(RepairStatement::into_document).collect()
}

impl Server {
    /// Carries out these statements, in order. They must not fail because a document breaks the
    /// collection's validator: it was judged when it was written, or is older than the validator.
    pub(crate) async fn repair(&self, ns: &Namespace, statements: Vec<RepairStatement>) -> Result<WriteAnswer> {
        let command = doc! {"update": &ns.coll, "updates": documents(statements), "ordered": true};
        let answer = self.prepare(ns, command.clone()).await?;
        if answer.breaks_validator() { self.prepare(ns, Self::unjudged(command)).await } else { Ok(answer) }
    }

    /// Repairs by statements that remove documents.
    pub(crate) async fn repair_by_delete(
        &self,
        ns: &Namespace,
        statements: Vec<RepairStatement>,
    ) -> Result<WriteAnswer> {
        self.prepare(ns, doc! {"delete": &ns.coll, "deletes": documents(statements)}).await
    }
}
