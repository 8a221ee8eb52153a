//! Tests of disks that fill up, cannot be written, or disappear under a real server. The server
//! ends with an error that names the folder and the cause. After a restart, every acknowledged
//! transaction is there, and no other transaction is there in part.
//!
//! Small disks are file systems in memory, in a mount namespace of their own; that needs no
//! privileges on most systems. Where such mounts are not allowed, a limit on the size of files
//! takes their place.
mod folders;
mod full;
mod in_process;
mod ledger;
mod limited;
mod process;
mod room_again;
mod small;
