//! Table g: from the start of a server that was killed to its first answer (section 4.4), by what
//! was written before, with the log collected and not. Both take turns in being killed.

use benchkit::run::{Turn, turns};

use super::{Table, persistent};
use crate::{
    args::TablesArgs,
    error::BenchError,
    figures::Restart,
    report,
    restart::{Filling, Restarted},
    settings::Settings,
    turns::tell,
};

const NAMES: [&str; 2] = ["collected", "not collected"];
const VALUE_BYTES: u32 = 1000;
const SEGMENT_MIB: u32 = 16;
/// Segments of a collected log: the one in use, the one made ahead, and one that is being filled
/// meanwhile.
const COLLECTED_SEGMENTS: u64 = 3;
const OFTEN_MS: u32 = 200;
/// Time between two collections, in milliseconds: longer than any run, so there is none.
const NEVER_MS: u32 = 3_600_000;

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let often = Settings { segment_mib: SEGMENT_MIB, gc_interval_ms: OFTEN_MS, ..persistent(&args.log_folder) };
    let never = Settings { gc_interval_ms: NEVER_MS, ..often.clone() };
    let mut servers = [Restarted::start(&often).await?, Restarted::start(&never).await?];
    let filling = Filling { keys: args.keys, value_bytes: VALUE_BYTES };
    let mut rows = Vec::new();
    for written_mib in args.log_sizes() {
        let bytes = u64::from(written_mib) << 20;
        eprintln!("dtranx-bench: {written_mib} MiB are written to a log");
        for server in &servers {
            server.fill(filling, bytes).await?;
        }
        servers[0].until_collected(COLLECTED_SEGMENTS).await?;
        let mut pair = Vec::new();
        for (name, server) in NAMES.into_iter().zip(&servers) {
            pair.push(Restart { name, written_mib, log_bytes: server.log_bytes().await?, rounds_ms: vec![] });
        }
        for Turn { round, rival } in turns(args.pace.rounds, servers.len()) {
            tell(round, args.pace.rounds, &format!("{}, killed after {written_mib} MiB", NAMES[rival]));
            pair[rival].rounds_ms.push(servers[rival].kill_and_start().await?.as_secs_f64() * 1000.0);
        }
        rows.extend(pair);
    }
    Ok(Table::new("(g) From the start of a killed server to its first answer", report::restarts(&rows), rows))
}
