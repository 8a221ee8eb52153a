//! Disks that fill up, cannot be written, or go away under a real server: it ends with the reason,
//! which names folder and error; what was acknowledged is there when it is started again, and of
//! nothing else a half.
//!
//! Small disks are file systems in memory, mounted where nobody else sees them; that needs no
//! privileges on most systems. Where it is not allowed, a limit on the size of files stands in for
//! them.
mod folders;
mod full;
mod in_process;
mod ledger;
mod limited;
mod process;
mod room_again;
mod small;
