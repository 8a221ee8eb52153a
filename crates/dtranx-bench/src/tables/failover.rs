//! Table j: the pause of a group when a member is killed (SIGKILL), the leader or another one.

use benchkit::run::{Turn, turns};

use super::Table;
use crate::{
    args::TablesArgs,
    error::BenchError,
    failover::{Failover, Lost},
    figures::Pause,
    report,
    turns::tell,
};

const LOST: [(Lost, &str); 2] = [(Lost::Leader, "the leader"), (Lost::Follower, "a follower")];
/// Number of kills of each kind of member in one round.
const KILLS: u32 = 3;

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let mut group = Failover::start().await?;
    let mut rows = LOST.map(|(_, name)| Pause { name, pauses_ms: vec![] });
    let kills = args.pace.rounds * KILLS;
    for Turn { round, rival } in turns(kills, LOST.len()) {
        let (lost, name) = LOST[rival];
        tell(round, kills, &format!("{name} is killed"));
        rows[rival].pauses_ms.push(group.lose(lost).await?.as_secs_f64() * 1000.0);
    }
    let title = "(j) From the kill of a member of a group to the next commit";
    Ok(Table::new(title, report::pauses(&rows), rows.to_vec()))
}
