//! DTranx's servers, each a process: this program is run once more for it, with a configuration
//! file. Clients of them are in `crate::store`.

use std::{
    ffi::OsString,
    fmt::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use child_processes::{Process, Start};
use dtranx::{
    cluster::HeldPort,
    server::{Server, ServerConfig},
};
use tempfile::TempDir;

use super::folder;
use crate::{error::BenchError, settings::Settings};

const NAME: &str = "dtranx";
/// Commits that one client may have under way: all transactions of a run are one client's, and
/// answers are remembered.
const CLIENT_WINDOW: u32 = 65_536;

/// Servers that run, or that were killed.
pub(crate) struct Dtranx {
    addresses: Vec<SocketAddr>,
    /// Ports of the servers, which no other program is given, even while a server is down.
    _ports: Vec<HeldPort>,
    program: PathBuf,
    processes: Vec<Process>,
    folder: TempDir,
    _logs: Option<TempDir>,
}

impl Dtranx {
    /// Starts so many of them as one cluster, or one group; they do not answer yet.
    pub(crate) fn start(servers: u16, settings: &Settings) -> Result<Self, BenchError> {
        let failed = |error: std::io::Error| BenchError::Missing { rival: NAME, reason: error.to_string() };
        let program = std::env::current_exe().map_err(failed)?;
        let folder = folder(NAME)?;
        let logs = settings.log_folder.as_ref().map(|logs| tempfile::tempdir_in(logs).map_err(failed)).transpose()?;
        let ports = (0..servers).map(|_| HeldPort::pick()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let addresses: Vec<SocketAddr> = ports.iter().map(HeldPort::address).collect();
        for number in 1..=addresses.len() {
            let data = folder.path().join(format!("server-{number}"));
            let log = logs.as_ref().map_or(data.join("log"), |logs| logs.path().join(format!("server-{number}")));
            let file = folder.path().join(format!("server-{number}.toml"));
            std::fs::write(file, config(number, &addresses, &data, &log, settings)).map_err(failed)?;
        }
        let mut servers = Self { addresses, _ports: ports, program, processes: Vec::new(), folder, _logs: logs };
        servers.start_again()?;
        Ok(servers)
    }

    /// Kills all of them (SIGKILL), and waits until they are gone.
    pub(crate) fn kill(&mut self) -> Result<(), BenchError> {
        Ok(self.processes.drain(..).try_for_each(|mut process| process.kill())?)
    }

    /// Starts servers that were killed, with what they left; they do not answer yet.
    pub(crate) fn start_again(&mut self) -> Result<(), BenchError> {
        for at in 0..self.addresses.len() {
            let process = self.process(at)?;
            self.processes.push(process);
        }
        Ok(())
    }

    /// Kills the server at this place (SIGKILL), and waits until it is gone.
    pub(crate) fn kill_one(&mut self, at: usize) -> Result<(), BenchError> {
        Ok(self.processes.get_mut(at).map_or(Ok(()), Process::kill)?)
    }

    /// Starts the server at this place again.
    pub(crate) fn start_one(&mut self, at: usize) -> Result<(), BenchError> {
        let process = self.process(at)?;
        if let Some(place) = self.processes.get_mut(at) {
            *place = process;
        }
        Ok(())
    }

    fn process(&self, at: usize) -> Result<Process, BenchError> {
        let (folder, number) = (self.folder.path(), at + 1);
        let args: [OsString; 2] = ["serve-dtranx".into(), folder.join(format!("server-{number}.toml")).into()];
        let console = folder.join(format!("server-{number}.log"));
        Ok(Process::start(&Start { program: &self.program, args: &args, console: &console, folder })?)
    }

    /// Addresses at which the servers listen.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// Writing to a string cannot fail.
fn config(number: usize, addresses: &[SocketAddr], data: &Path, log: &Path, settings: &Settings) -> String {
    let quoted = |path: &Path| format!("{:?}", path.display().to_string());
    let mut text = format!("cluster = \"bench\"\nfolder = {}\n", quoted(data));
    let _ = writeln!(text, "log_folder = {}\nmedium = \"{}\"", quoted(log), settings.medium.name());
    text.push_str(&servers(number, addresses, settings.is_group));
    let Settings { segment_mib, gc_interval_ms, is_pinned, item_cache_mib, acknowledgement_delay_ms, .. } = settings;
    let _ = writeln!(text, "[limits]\nclient_window = {CLIENT_WINDOW}\nsegment_mib = {segment_mib}");
    let _ = writeln!(text, "gc_interval_ms = {gc_interval_ms}\nitem_cache_mib = {item_cache_mib}");
    let _ = writeln!(text, "acknowledgement_delay_ms = {acknowledgement_delay_ms}\n[threads]\npinned = {is_pinned}");
    text
}

/// The lines that say who the servers are, and which of them this one is.
fn servers(number: usize, addresses: &[SocketAddr], is_group: bool) -> String {
    let quoted: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    if is_group {
        return format!("server = 1\nmember = {number}\nservers = [{{ id = 1, members = [{}] }}]\n", quoted.join(", "));
    }
    let each =
        quoted.iter().enumerate().map(|(at, address)| format!("  {{ id = {}, address = {address} }},\n", at + 1));
    format!("server = {number}\nservers = [\n{}]\n", each.collect::<String>())
}

/// Runs as one of the servers, until it is killed.
pub(crate) fn serve(file: &Path) -> Result<(), BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::store(NAME, error);
    let config = ServerConfig::read(file, None).map_err(|error| failed(&error))?;
    let server = Server::start(&config).map_err(|error| failed(&error))?;
    loop {
        server.wait(Duration::from_secs(3600)).map_err(|error| failed(&error))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_group_are_one_server_and_others_are_one_each() {
        let addresses = [7101, 7102, 7103].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let group = servers(2, &addresses, true);
        assert!(group.starts_with("server = 1\nmember = 2\n") && group.matches("id = ").count() == 1, "{group}");
        let each = servers(2, &addresses, false);
        assert!(each.starts_with("server = 2\n") && each.matches("id = ").count() == 3, "{each}");
        for address in addresses {
            assert!(group.contains(&address.to_string()) && each.contains(&address.to_string()));
        }
    }
}
