//! Copies of a live database, made in slices between the writer's transactions.
//!
//! What the writer changes between two slices is carried into the copy by SQLite itself; what
//! another process changes makes the copy start over.

use std::ffi::{CStr, c_int};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use everloom_core::{BackupProgress, Code, Error, Result};
use rusqlite::{Connection, OpenFlags, ffi};

use crate::error::translate;

const MAIN: &CStr = c"main";

/// The connection that writes, together with the copy that is under way.
pub(crate) struct Writer {
    // Before the connection it copies from, so that it is dropped first.
    copy: Option<Copying>,
    conn: Connection,
}

impl Writer {
    pub(crate) fn new(conn: Connection) -> Self {
        Self { copy: None, conn }
    }

    /// Copies some pages to the file `to`, beginning a copy when none is under way.
    pub(crate) fn backup(&mut self, to: &Path, pages: usize) -> Result<BackupProgress> {
        let copy = match &mut self.copy {
            Some(copy) if copy.to == to => copy,
            Some(copy) => {
                let other = copy.to.display();
                return Err(Error::new(
                    Code::InUse,
                    format!("a backup to {other} is under way; wait for it or abandon it"),
                ));
            }
            None => self.copy.insert(Copying::begin(&self.conn, to)?),
        };
        match copy.step(pages) {
            Ok(progress) if !progress.is_complete() => Ok(progress),
            Ok(progress) => {
                if let Some(copy) = self.copy.take() {
                    copy.finish()?;
                }
                Ok(progress)
            }
            Err(error) => {
                self.copy = None;
                Err(error)
            }
        }
    }

    pub(crate) fn abandon_backup(&mut self) {
        self.copy = None;
    }
}

impl Deref for Writer {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.conn
    }
}

/// A copy under way. Dropped before it is finished, it removes what it has written.
struct Copying {
    handle: *mut ffi::sqlite3_backup,
    target: Option<Connection>,
    to: PathBuf,
    whole: bool,
}

// SAFETY: the handle belongs to two connections that may both change threads, and it is only used
// through `&mut`.
#[allow(unsafe_code, reason = "a raw handle of SQLite moves with its connections")]
unsafe impl Send for Copying {}

impl Copying {
    fn begin(source: &Connection, to: &Path) -> Result<Self> {
        if to.metadata().is_ok_and(|metadata| metadata.is_dir() || metadata.len() > 0) {
            return Err(Error::new(
                Code::InUse,
                format!("{} exists already; choose another path for the backup", to.display()),
            ));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let target = Connection::open_with_flags(to, flags).map_err(|error| failed(to, &error))?;
        let handle = init(source, &target);
        let copy = Self { handle, target: Some(target), to: to.into(), whole: false };
        if handle.is_null() {
            let code = copy.target.as_ref().map_or(ffi::SQLITE_ERROR, last_error);
            return Err(failed(to, &sqlite_error(code)));
        }
        Ok(copy)
    }

    fn step(&mut self, pages: usize) -> Result<BackupProgress> {
        let pages = c_int::try_from(pages.max(1)).unwrap_or(c_int::MAX);
        let (code, remaining, total) = step(self.handle, pages);
        match code & 0xff {
            ffi::SQLITE_DONE => Ok(BackupProgress { done: total, total }),
            // A lock of someone else: nothing was copied this time.
            ffi::SQLITE_OK | ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => {
                let total = total.max(1);
                let done = total.saturating_sub(remaining).min(total - 1);
                Ok(BackupProgress { done, total })
            }
            _ => Err(failed(&self.to, &sqlite_error(code))),
        }
    }

    /// Makes the copy a file that stands alone.
    fn finish(mut self) -> Result<()> {
        let code = finish(std::mem::replace(&mut self.handle, std::ptr::null_mut()));
        if code != ffi::SQLITE_OK {
            return Err(failed(&self.to, &sqlite_error(code)));
        }
        if let Some(Err((_, error))) = self.target.take().map(Connection::close) {
            return Err(failed(&self.to, &error));
        }
        self.whole = true;
        Ok(())
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        finish(self.handle);
        drop(self.target.take());
        if self.whole {
            return;
        }
        let mut journal = self.to.clone().into_os_string();
        journal.push("-journal");
        for path in [self.to.as_path(), Path::new(&journal)] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(%error, path = %path.display(), "a partial backup stays behind");
                }
                _ => {}
            }
        }
    }
}

fn failed(to: &Path, error: &rusqlite::Error) -> Error {
    translate(error, &format!("the backup {}", to.display()))
}

fn sqlite_error(code: c_int) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

#[allow(unsafe_code, reason = "rusqlite ties a backup to a borrow, and ours outlives many")]
fn init(source: &Connection, target: &Connection) -> *mut ffi::sqlite3_backup {
    // SAFETY: both handles are open; `Writer` drops the copy before the source, and `Copying`
    // finishes it before it closes the target.
    unsafe {
        ffi::sqlite3_backup_init(target.handle(), MAIN.as_ptr(), source.handle(), MAIN.as_ptr())
    }
}

/// The answer, the pages left and the pages in all.
#[allow(unsafe_code, reason = "see `init`")]
fn step(handle: *mut ffi::sqlite3_backup, pages: c_int) -> (c_int, u64, u64) {
    // SAFETY: the handle comes from `init` and is not finished.
    unsafe {
        let code = ffi::sqlite3_backup_step(handle, pages);
        let remaining = ffi::sqlite3_backup_remaining(handle);
        let total = ffi::sqlite3_backup_pagecount(handle);
        (code, u64::try_from(remaining).unwrap_or(0), u64::try_from(total).unwrap_or(0))
    }
}

#[allow(unsafe_code, reason = "see `init`")]
fn finish(handle: *mut ffi::sqlite3_backup) -> c_int {
    // SAFETY: the handle comes from `init` and is used no more, or is null, which is allowed.
    unsafe { ffi::sqlite3_backup_finish(handle) }
}

#[allow(unsafe_code, reason = "see `init`")]
fn last_error(conn: &Connection) -> c_int {
    // SAFETY: the handle is that of an open connection.
    unsafe { ffi::sqlite3_errcode(conn.handle()) }
}
