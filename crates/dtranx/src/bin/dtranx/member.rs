//! Adding a member to a group, and removing one (decision 0088). The command goes on asking until
//! the change is over: an election may take it back, and then it is asked for again. It ends when
//! no member that leads has answered within the time limit of a request.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use dtranx::client::{Client, Error, greet};
use dtranx::cluster::{Place, Role};
use dtranx::core::{ServerId, StoreId};
use dtranx::remark;
use dtranx::wire::{GroupStatus, Welcome};

use crate::connect::Connect;
use crate::failure::Failure;
use crate::say::say;

/// Time between two looks at how far a change is.
const LOOK: Duration = Duration::from_millis(100);
/// Time that a new store has to say who it is.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Subcommand)]
pub(crate) enum Member {
    /// Adds a new store, which waits at this address, and gives it a vote once it has caught up
    Add(Add),
    /// Removes a member, for good; if it leads, clients wait for an election
    Remove(Remove),
}

#[derive(Args)]
pub(crate) struct Add {
    /// Address of the new store: as `dtranx serve --join` was told
    address: SocketAddr,
    #[command(flatten)]
    of: Of,
}

#[derive(Args)]
pub(crate) struct Remove {
    /// Number of the member, as `dtranx status` shows it
    member: u8,
    #[command(flatten)]
    of: Of,
}

/// The group that changes.
#[derive(Args)]
struct Of {
    /// Number of the group's server in the cluster; it need not be given if there is one server
    #[arg(long, value_name = "ID")]
    group: Option<u16>,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) fn change(options: &Member) -> Result<(), Failure> {
    match options {
        Member::Add(options) => add(options),
        Member::Remove(options) => remove(options),
    }
}

impl Of {
    fn find(&self) -> Result<(Client, ServerId), Failure> {
        let client = self.connect.client()?;
        let only = Some(client.cluster()).filter(|cluster| cluster.servers.len() == 1).map(|of| of.servers[0].id);
        let server = self.group.map(ServerId).or(only);
        let server = server.ok_or_else(|| Failure::Failed("--group: the cluster has several servers".to_owned()))?;
        Ok((client, server))
    }
}

fn add(options: &Add) -> Result<(), Failure> {
    let (client, server) = options.of.find()?;
    let address = options.address;
    let mut status = members(&client, server)?;
    match status.told.places.places.iter().find(|place| place.address == address) {
        Some(place) => not_another(place, options)?,
        None => {
            let store = waiting(&client, server, address, options)?;
            client.add_member(server, address, store)?;
            status = look(&client, server, status)?;
        }
    }
    let mut said = String::new();
    loop {
        let place = status.told.places.places.iter().find(|place| place.address == address).copied();
        match place {
            Some(place) if place.role == Role::Votes && status.told.is_settled => {
                say!("member {} of server {server} is at {address}, and has a vote", place.number);
                return Ok(());
            }
            Some(place) => report(&status, &place, &mut said),
            // An election has taken it back, or the group is about to say that it has begun: then
            // the store does not wait any more.
            None if status.told.is_settled => match waiting(&client, server, address, options) {
                Ok(store) => begin(client.add_member(server, address, store), &mut said)?,
                Err(Failure::Failed(why) | Failure::No(why) | Failure::Removed(why)) => tell_once(why, &mut said),
            },
            None => {}
        }
        thread::sleep(LOOK);
        status = look(&client, server, status)?;
    }
}

fn remove(options: &Remove) -> Result<(), Failure> {
    let (client, server) = options.of.find()?;
    let number = options.member;
    let mut status = members(&client, server)?;
    client.remove_member(server, number)?;
    let mut said = String::new();
    loop {
        if status.told.is_settled {
            if status.told.places.get(number).is_none() && status.told.places.given >= number {
                say!("member {number} of server {server} is removed: its folder can be deleted");
                return Ok(());
            }
            begin(client.remove_member(server, number), &mut said)?;
        } else {
            tell_once(format!("member {number} is being removed: a majority of the members has to know it"), &mut said);
        }
        thread::sleep(LOOK);
        status = look(&client, server, status)?;
    }
}

/// Says how far a new member is, if that is something else than was said last.
fn report(status: &GroupStatus, place: &Place, said: &mut String) {
    let reached = status.reached.iter().find(|(number, _)| *number == place.number).map_or(0, |(_, index)| *index);
    let text = match place.role {
        Role::Learns => format!("has entry {reached} of {}", status.committed),
        _ => "gets a vote".to_owned(),
    };
    tell_once(format!("member {} {text}", place.number), said);
}

/// Says something, if that is something else than was said last.
fn tell_once(text: String, said: &mut String) {
    if text != *said {
        remark::say(&text);
        *said = text;
    }
}

/// Takes an answer to a change that is asked for again: a refusal may be that of another moment.
fn begin(answer: Result<u8, Error>, said: &mut String) -> Result<(), Failure> {
    match answer {
        Ok(_) => Ok(()),
        Err(error @ (Error::Unchanged { .. } | Error::Unavailable { .. })) => {
            tell_once(format!("{error}; it is asked for again"), said);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The members of a group that serves.
fn members(client: &Client, server: ServerId) -> Result<GroupStatus, Failure> {
    if client.cluster().address(server).is_none() {
        return Err(Failure::Failed(format!("server {server}: it is not of this cluster")));
    }
    if !client.cluster().is_group(server) {
        let what = format!("server {server} runs alone, and cannot become a group: it has no members");
        return Err(Failure::No(what));
    }
    loop {
        // The member that leads has just been elected: it says in a moment who the members are.
        match client.status(server)?.group {
            Some(group) => return Ok(group),
            None => thread::sleep(LOOK),
        }
    }
}

/// The members by now, of a change that was asked for; those that were known before while a leader
/// has just been elected.
fn look(client: &Client, server: ServerId, before: GroupStatus) -> Result<GroupStatus, Failure> {
    match client.status(server) {
        Ok(status) => Ok(status.group.unwrap_or(before)),
        Err(error @ Error::Unavailable { .. }) => Err(Failure::Failed(format!(
            "{error}; the change was asked for, and may be carried out once a majority of the members is up: the same \
             command goes on with it"
        ))),
        Err(error) => Err(error.into()),
    }
}

/// Refuses the address of a member that is there already if another store waits there.
fn not_another(place: &Place, options: &Add) -> Result<(), Failure> {
    let Place { number, address, .. } = *place;
    match greet(address, options.of.connect.secret()?.as_ref(), PATIENCE) {
        Ok(Welcome::Waiting { store, .. }) if store != place.store => Err(Failure::No(format!(
            "{address} is the address of member {number}, and another store waits there: remove that member first"
        ))),
        _ => Ok(()),
    }
}

/// The store that waits at this address to be added.
fn waiting(client: &Client, server: ServerId, address: SocketAddr, options: &Add) -> Result<StoreId, Failure> {
    let secret = options.of.connect.secret()?;
    let welcome = greet(address, secret.as_ref(), PATIENCE);
    let (here, cluster) = (server, client.cluster());
    let name = &cluster.name;
    match welcome.map_err(|error| Failure::Failed(format!("{address}: {error}")))? {
        Welcome::Waiting { cluster, server, store } if cluster == *name && server == here => Ok(store),
        Welcome::Waiting { cluster, server, .. } => Err(Failure::No(format!(
            "the store at {address} waits for server {server} of {cluster:?}, not for server {here} of {name:?}"
        ))),
        Welcome::Refused { why, .. } => Err(Failure::No(format!("{address}: {why}"))),
        _ => Err(Failure::No(format!("{address} is the address of a server that runs: no new store waits there"))),
    }
}
