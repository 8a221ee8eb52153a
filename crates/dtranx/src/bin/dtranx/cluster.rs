//! A whole cluster on this machine: one process per server, or per member of a group. They end with
//! this one, however it ends: each waits for the end of its standard input.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use dtranx::cluster::HeldPort;

use crate::failure::{Failure, REMOVED};
use crate::say::tell;

#[derive(Args)]
pub(crate) struct ClusterOptions {
    /// Number of servers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    servers: u16,
    /// Number of members of one server that is a group, instead of several servers: 3, 5 or 7
    #[arg(long, value_name = "NUMBER", conflicts_with = "servers", value_parser = members)]
    members: Option<u16>,
    /// Folder of the servers' data; kept when the cluster ends
    #[arg(long, default_value = "dtranx-cluster")]
    folder: PathBuf,
    /// The first server's port; the others' follow. 0 takes free ones
    #[arg(long, default_value_t = 7101)]
    port: u16,
    /// Medium of the logs
    #[arg(long, value_enum, default_value_t = Medium::Disk)]
    medium: Medium,
    /// Folder of the logs, instead of the one of the data: persistent memory, or tmpfs to emulate
    /// it
    #[arg(long)]
    log_folder: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Medium {
    Disk,
    PersistentMemory,
}

pub(crate) fn run_cluster(options: &ClusterOptions) -> Result<(), Failure> {
    std::fs::create_dir_all(&options.folder)?;
    let _lock = lock(options)?;
    expect_the_same_cluster(options)?;
    // While this process runs, no other program gets the port of a server that does not listen yet.
    let held = held(options)?;
    let ports = ports(options, &held)?;
    let mut servers = Vec::new();
    for at in 0..options.processes() {
        let file = options.folder.join(format!("{}-{}.toml", options.part(), at + 1));
        std::fs::write(&file, config(options, at + 1, &ports))?;
        servers.push(start(&file)?);
    }
    tell(format_args!(
        "cluster of {} {}s; the first listens on 127.0.0.1:{}",
        options.processes(),
        options.part(),
        ports[0]
    ));
    tell(format_args!("configurations and data: {}; end with Ctrl-C", options.folder.display()));
    watch(servers, options.part())
}

fn members(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| [3, 5, 7].contains(number));
    number.ok_or_else(|| "a group begins with 3, 5 or 7 members".to_owned())
}

/// Takes the folder for this cluster, as long as the file is open: another one would write over its
/// configurations.
fn lock(options: &ClusterOptions) -> Result<File, Failure> {
    let file = OpenOptions::new().create(true).append(true).open(options.folder.join("cluster.lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::Failed(format!("{}: a cluster that runs has this folder", options.folder.display())))
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Refuses the folder of a cluster that has other servers, or members, before anything is written.
fn expect_the_same_cluster(options: &ClusterOptions) -> Result<(), Failure> {
    let count = |part: &str| {
        let is_there = |number: &u16| options.folder.join(format!("{part}-{number}.toml")).exists();
        (1..=16).filter(is_there).count()
    };
    let (servers, members) = (count("server"), count("member"));
    let number = usize::from(options.processes());
    let wanted = if options.members.is_some() { (0, number) } else { (number, 0) };
    if (servers, members) == (0, 0) || (servers, members) == wanted {
        return Ok(());
    }
    let there = if servers > 0 { format!("{servers} servers") } else { format!("{members} members") };
    Err(Failure::Failed(format!(
        "{}: it has a cluster of {there}, and not of {} {}s: `--folder` names another folder",
        options.folder.display(),
        options.processes(),
        options.part()
    )))
}

impl ClusterOptions {
    /// Number of processes: servers, or members of the one that is a group.
    fn processes(&self) -> u16 {
        self.members.unwrap_or(self.servers)
    }

    /// Word for what each process of the cluster is, in messages to the user.
    fn part(&self) -> &'static str {
        if self.members.is_some() { "member" } else { "server" }
    }
}

/// Free ports, if they are to be found.
fn held(options: &ClusterOptions) -> Result<Vec<HeldPort>, Failure> {
    let servers = if options.port == 0 { options.processes() } else { 0 };
    Ok((0..servers).map(|_| HeldPort::pick()).collect::<Result<_, _>>()?)
}

fn ports(options: &ClusterOptions, held: &[HeldPort]) -> Result<Vec<u16>, Failure> {
    if options.port == 0 {
        return Ok(held.iter().map(|held| held.address().port()).collect());
    }
    let last = options.port.checked_add(options.processes().saturating_sub(1));
    let last = last.ok_or_else(|| Failure::Failed(format!("--port {}: there are not so many", options.port)))?;
    Ok((options.port..=last).collect())
}

/// Configuration of a server, or of a member, with this number.
fn config(options: &ClusterOptions, number: u16, ports: &[u16]) -> String {
    let quoted = |path: PathBuf| format!("{:?}", path.display().to_string());
    let medium = match options.medium {
        Medium::Disk => "disk",
        Medium::PersistentMemory => "persistent-memory",
    };
    let own = format!("{}-{number}", options.part());
    let folder = quoted(options.folder.join(&own));
    let which = if options.members.is_some() { format!("1\nmember = {number}") } else { number.to_string() };
    let mut text = format!("cluster = \"local\"\nserver = {which}\nfolder = {folder}\nmedium = \"{medium}\"\n");
    // Writing to a string cannot fail.
    if let Some(log) = &options.log_folder {
        let _ = writeln!(text, "log_folder = {}", quoted(log.join(&own)));
    }
    let _ = writeln!(text, "servers = [");
    if options.members.is_some() {
        let members: Vec<String> = ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        let _ = writeln!(text, "  {{ id = 1, members = [{}] }},", members.join(", "));
    } else {
        for (at, port) in ports.iter().enumerate() {
            let _ = writeln!(text, "  {{ id = {}, address = \"127.0.0.1:{port}\" }},", at + 1);
        }
    }
    // Several servers share the machine's cores: none may claim them.
    let _ = writeln!(text, "]\n[threads]\npinned = {}", ports.len() == 1);
    text
}

fn start(file: &std::path::Path) -> Result<Child, Failure> {
    let child = Command::new(std::env::current_exe()?)
        .args(["serve", "--until-stdin-closes", "--config"])
        .arg(file)
        .stdin(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// Waits until a server ends: then the cluster does. A member that was removed from its group does
/// not end the others.
fn watch(mut servers: Vec<Child>, part: &str) -> Result<(), Failure> {
    let mut removed = vec![false; servers.len()];
    loop {
        for at in 0..servers.len() {
            let Some(status) = servers[at].try_wait()?.filter(|_| !removed[at]) else { continue };
            removed[at] = status.code() == Some(REMOVED.into());
            if removed[at] && removed.contains(&false) {
                tell(format_args!("{part} {} was removed from its group; the others go on", at + 1));
                continue;
            }
            for server in &mut servers {
                // An error means that the server has ended already.
                let _ = server.kill();
                let _ = server.wait();
            }
            return Err(Failure::Failed(format!("{} {} has ended: {status}", part, at + 1)));
        }
        thread::sleep(Duration::from_millis(100));
    }
}
