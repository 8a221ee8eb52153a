//! Rules that a plan can break on purpose, each in one place of the model. A test expects the
//! checker to find a violation with each; an invariant that none of them violates proves nothing.

/// Rules that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// `writeConcernError` is taken for success: every command counts as soon as one primary has
    /// it.
    WriteConcernErrorIgnored,
    /// A prepared write counts as soon as one primary has it, and the epoch of the connection is
    /// its evidence.
    PreparedAtOne,
    /// A decision counts as soon as one primary has it, and is finished from memory on the next.
    DecisionAtOne,
    /// A finished document counts as clean as soon as one primary has it.
    FinishAtOne,
    /// A repair by a sweep counts as soon as one primary has it.
    RepairAtOne,
    /// A sweep takes a document for clean as soon as one primary shows it so.
    LookAtOne,
    /// A record that is not in the majority's data, as a new primary knows them, is taken for a
    /// removed one.
    AbsentAtMajority,
    /// A client acts on the content of a record as soon as one primary has answered with it.
    RecordReadAtOne,
    /// A process goes back to a primary that is older than one that has answered it.
    OlderPrimary,
}
