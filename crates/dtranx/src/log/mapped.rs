//! A file mapped into memory, and the instructions that write its cache lines back. The one file of
//! the crate with unsafe code.
//!
//! On a DAX file system the mapping is made with `MAP_SYNC`: a line that was written back and
//! fenced is then durable. Elsewhere the same instructions run on ordinary memory: an emulation,
//! which survives the process and not the power.
#![allow(unsafe_code, reason = "mapping memory and writing cache lines back; each block says why it is sound")]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr;
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Instruction that writes cache lines back on this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteBack {
    /// `clwb`: the line stays in the cache.
    Clwb,
    /// `clflushopt`: the line leaves it, unordered.
    ClflushOpt,
    /// `clflush`: the line leaves it, one after another.
    Clflush,
    /// `msync`: no such instruction is known on this processor.
    #[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "every x86-64 processor has one of the others"))]
    Msync,
}

const CACHE_LINE_BYTES: usize = 64;

/// A shared, writable mapping of a whole file.
pub(super) struct Mapped {
    start: *mut u8,
    length: usize,
    synchronous: bool,
    write_back: WriteBack,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps `length` bytes of a file that has them all reserved.
    pub(super) fn new(file: &File, length: usize) -> io::Result<Self> {
        let map = |flags| {
            // SAFETY: the kernel chooses the place, so no memory of this process is replaced. The
            // file is the log's own and no process shortens it; reads and writes go through this
            // value only.
            unsafe { mmap(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0) }
        };
        let (start, synchronous) = match map(MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
            Ok(start) => (start, true),
            // The file system refuses `MAP_SYNC`, because it is not DAX: what is written back is
            // durable after a sync only.
            Err(_) => (map(MapFlags::SHARED)?, false),
        };
        Ok(Self { start: start.cast(), length, synchronous, write_back: detect() })
    }

    /// Returns true if a line that was written back is durable: the file system took `MAP_SYNC`.
    pub(super) fn is_synchronous(&self) -> bool {
        self.synchronous
    }

    pub(super) fn write_back(&self) -> WriteBack {
        self.write_back
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is `length` bytes long and lives as long as this value; writes need
        // `&mut self`.
        unsafe { slice::from_raw_parts(self.start, self.length) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only way in.
        unsafe { slice::from_raw_parts_mut(self.start, self.length) }
    }

    /// Writes the lines of a range back and waits for them. The range is inside the mapping:
    /// callers have sliced it.
    pub(super) fn persist(&self, offset: usize, length: usize) -> io::Result<()> {
        let Some(range) = self.bytes().get(offset..offset.saturating_add(length)) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the range is not inside the mapping"));
        };
        match self.write_back {
            WriteBack::Msync => self.msync(offset, length),
            instruction => {
                write_back_lines(instruction, range);
                Ok(())
            }
        }
    }

    fn msync(&self, offset: usize, length: usize) -> io::Result<()> {
        let page = rustix::param::page_size();
        let first = offset / page * page;
        // SAFETY: the range begins at a page of the mapping and ends inside it.
        unsafe {
            let start = self.start.add(first).cast::<c_void>();
            rustix::mm::msync(start, offset + length - first, rustix::mm::MsyncFlags::SYNC)?;
        }
        Ok(())
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by this value, whole, and nothing borrows from it any more.
        let unmapped = unsafe { munmap(self.start.cast::<c_void>(), self.length) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> WriteBack {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const CLFLUSHOPT_BIT: u32 = 1 << 23;
    const CLWB_BIT: u32 = 1 << 24;
    if __cpuid(0).eax < 7 {
        return WriteBack::Clflush;
    }
    let features = __cpuid_count(7, 0).ebx;
    if features & CLWB_BIT != 0 {
        WriteBack::Clwb
    } else if features & CLFLUSHOPT_BIT != 0 {
        WriteBack::ClflushOpt
    } else {
        WriteBack::Clflush
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> WriteBack {
    WriteBack::Msync
}

#[cfg(target_arch = "x86_64")]
fn write_back_lines(instruction: WriteBack, range: &[u8]) {
    use std::arch::asm;
    use std::arch::x86_64::{_mm_clflush, _mm_sfence};
    let bounds = range.as_ptr_range();
    let mut line = bounds.start.map_addr(|address| address & !(CACHE_LINE_BYTES - 1));
    while line < bounds.end {
        // SAFETY: `line` is in a line of memory that `range` reaches into, and `detect` found the
        // instruction. None of them changes what the memory holds.
        unsafe {
            match instruction {
                WriteBack::Clwb => asm!("clwb [{0}]", in(reg) line, options(nostack, preserves_flags)),
                WriteBack::ClflushOpt => asm!("clflushopt [{0}]", in(reg) line, options(nostack, preserves_flags)),
                WriteBack::Clflush | WriteBack::Msync => _mm_clflush(line),
            }
        }
        line = line.wrapping_add(CACHE_LINE_BYTES);
    }
    // SAFETY: every x86-64 processor has it; it only orders stores.
    unsafe { _mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn write_back_lines(_: WriteBack, _: &[u8]) {
    // `detect` chooses `msync` here.
    let _ = CACHE_LINE_BYTES;
}
