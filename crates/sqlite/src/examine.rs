//! A look at a file and at what it lies on, which changes nothing.

use std::path::{Path, PathBuf};

use everloom_core::{Error, Examination, Finding, Result, StoreInfo};
use rusqlite::{Connection, OpenFlags};

use crate::connect::refusal;
use crate::location::Location;
use crate::migrate::{self, SCHEMA_VERSION};

/// A write-ahead log is reset long before it is so large, unless a reader never lets go.
const LARGE_LOG: u64 = 256 << 20;

/// Less room than this is soon used up.
const LITTLE_ROOM: u64 = 512 << 20;

/// With less room than this the next checkpoint may fail.
const NO_ROOM: u64 = 32 << 20;

/// A file that could be so much smaller is worth a word.
const MUCH_UNUSED: u64 = 256 << 20;

/// Looks at a file. Works also where no store could be opened: an absent file has no schema.
pub fn examine(location: &Location) -> Result<Examination> {
    let path = location.path();
    let (schema, mut findings) = match path {
        Some(path) if path.exists() => examine_file(location, path)?,
        _ => (0, Vec::new()),
    };
    findings.insert(0, Finding::about_schema(schema, SCHEMA_VERSION));
    findings.extend(path.map(place).unwrap_or_default());
    Ok(Examination {
        store: StoreInfo { store: "sqlite".into(), version: rusqlite::version().into(), schema },
        wanted_schema: SCHEMA_VERSION,
        pending: migrate::pending(schema),
        findings,
    })
}

fn examine_file(location: &Location, path: &Path) -> Result<(u32, Vec<Finding>)> {
    let failed = |error: rusqlite::Error| refusal(location, &error);
    let conn = connect(location).map_err(failed)?;
    let schema = migrate::version_of(&conn, location)?;
    let mut findings = vec![integrity(&conn).map_err(failed)?, journal(&conn).map_err(failed)?];
    // A choice of each program and not of the file.
    findings.push(Finding::new("synchronous", "full, unless opened with Durability::Normal"));
    findings.push(size(&conn).map_err(failed)?);
    findings.push(log(path));
    findings.extend(other_processes(path));
    findings.push(writable(path)?);
    Ok((schema, findings))
}

fn connect(location: &Location) -> rusqlite::Result<Connection> {
    let (target, is_uri) = location.target();
    let mut flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if is_uri {
        flags |= OpenFlags::SQLITE_OPEN_URI;
    }
    Connection::open_with_flags(target, flags)
}

fn integrity(conn: &Connection) -> rusqlite::Result<Finding> {
    let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    let broken = verdict != "ok";
    Ok(Finding::new("integrity", verdict).problem_if(
        broken,
        "The file is damaged: stop all programs, keep a copy of it, and go back to a backup.",
    ))
}

fn journal(conn: &Connection) -> rusqlite::Result<Finding> {
    let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    let slow = mode != "wal";
    Ok(Finding::new("journal_mode", mode).warn_if(
        slow,
        "Without a write-ahead log commits are slower and reads wait: open it with `wal` on, \
         unless its file system can not share memory.",
    ))
}

fn size(conn: &Connection) -> rusqlite::Result<Finding> {
    let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, u32>(0)).map(u64::from);
    let page = number("PRAGMA page_size")?;
    let bytes = number("PRAGMA page_count")? * page;
    let unused = number("PRAGMA freelist_count")? * page;
    Ok(Finding::new("size", format!("{}, of which {} unused", mib(bytes), mib(unused))).warn_if(
        unused > MUCH_UNUSED && unused > bytes / 2,
        "Most of the file is unused: it is used again as work comes; run VACUUM while no program \
         has it open if the room is needed elsewhere.",
    ))
}

fn log(path: &Path) -> Finding {
    let bytes = beside(path, "-wal").metadata().map_or(0, |metadata| metadata.len());
    Finding::new("write-ahead log", mib(bytes)).warn_if(
        bytes > LARGE_LOG,
        "Someone reads from an old state and keeps the log from being reset: end long reads and \
         copies of the file that other programs make.",
    )
}

fn writable(path: &Path) -> Result<Finding> {
    let metadata = |path: &Path| {
        path.metadata().map_err(|error| {
            Error::invalid("location", format!("{} can not be looked at: {error}", path.display()))
        })
    };
    let fixed = metadata(path)?.permissions().readonly()
        || metadata(folder(path))?.permissions().readonly();
    Ok(Finding::new("writable", if fixed { "no" } else { "yes" })
        .problem_if(fixed, "Make the file and its directory writable for the programs."))
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Who else has the file open, as far as this user may know.
#[cfg(target_os = "linux")]
fn other_processes(path: &Path) -> Option<Finding> {
    let path = path.canonicalize().ok()?;
    let own = std::process::id().to_string();
    let has_it_open = |process: &Path| {
        let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.into_iter().any(|file| std::fs::read_link(file.path()).is_ok_and(|to| to == path))
    };
    let mut others: Vec<String> = std::fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|process| process.file_name().into_string().ok().map(|id| (id, process)))
        .filter(|(id, _)| id.bytes().all(|byte| byte.is_ascii_digit()) && *id != own)
        .filter(|(_, process)| has_it_open(&process.path()))
        .map(|(id, _)| id)
        .collect();
    others.sort_by_key(|id| id.parse::<u32>().unwrap_or(u32::MAX));
    let value = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
    Some(Finding::new("open in processes", value))
}

#[cfg(not(target_os = "linux"))]
fn other_processes(_: &Path) -> Option<Finding> {
    None
}

/// What the file lies on.
#[cfg(target_os = "linux")]
fn place(path: &Path) -> Vec<Finding> {
    let folder = folder(path);
    let (Ok(room), Ok(system)) = (rustix::fs::statvfs(folder), rustix::fs::statfs(folder)) else {
        return Vec::new();
    };
    let free = room.f_bavail * room.f_frsize;
    let mut findings = vec![
        Finding::new("free on its disk", mib(free))
            .problem_if(free < NO_ROOM, "The disk is as good as full: make room.")
            .warn_if(free < LITTLE_ROOM, "The disk is nearly full: make room."),
    ];
    if let Some(name) = network_file_system(system.f_type as u64) {
        findings.push(Finding::new("file system", name).problem_if(
            true,
            "SQLite can not rely on the locks and the shared memory of a network file system, and \
             a file may be destroyed: put it on a local disk, or use PostgreSQL.",
        ));
    }
    findings
}

#[cfg(not(target_os = "linux"))]
fn place(_: &Path) -> Vec<Finding> {
    Vec::new()
}

/// The names of file systems on other machines, by the numbers that Linux gives them.
#[cfg(target_os = "linux")]
fn network_file_system(number: u64) -> Option<&'static str> {
    Some(match number & 0xffff_ffff {
        0x6969 => "NFS",
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => "SMB",
        0x00c3_6400 => "Ceph",
        0x0102_1997 => "9P",
        0x5346_414f => "AFS",
        0x0bd0_0bd0 => "Lustre",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use everloom_core::Level;

    use super::*;
    use crate::options::Options;
    use crate::store::SqliteStore;

    fn level(examination: &Examination, about: &str) -> Level {
        let found = examination.findings.iter().find(|finding| finding.about == about);
        found.unwrap_or_else(|| panic!("nothing about {about}: {examination:?}")).level
    }

    #[test]
    fn an_absent_file_needs_migrating_and_stays_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.db");
        let found = examine(&Location::parse(path.to_str().unwrap()).unwrap()).unwrap();
        assert_eq!((found.store.schema, found.pending.len()), (0, SCHEMA_VERSION as usize));
        assert_eq!(level(&found, "schema"), Level::Problem);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_in_use_is_fine_and_one_with_a_broken_page_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        let location = Location::parse(path.to_str().unwrap()).unwrap();
        let store = SqliteStore::open(&location, &Options::default()).unwrap();
        let found = examine(&location).unwrap();
        assert!(!found.has_problems(), "{found:?}");
        assert_eq!(level(&found, "journal_mode"), Level::Fine);
        drop(store);

        let mut bytes = std::fs::read(&path).unwrap();
        let second_page = 4096;
        bytes[second_page..2 * second_page].fill(0xff);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(level(&examine(&location).unwrap(), "integrity"), Level::Problem);
    }

    #[test]
    fn a_file_without_a_write_ahead_log_is_worth_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        let location = Location::parse(path.to_str().unwrap()).unwrap();
        let options = Options { wal: false, ..Options::default() };
        drop(SqliteStore::open(&location, &options).unwrap());
        assert_eq!(level(&examine(&location).unwrap(), "journal_mode"), Level::Warning);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn file_systems_of_other_machines_are_known() {
        assert_eq!(network_file_system(0x6969), Some("NFS"));
        // As a signed number, which some machines have it as.
        assert_eq!(network_file_system(0xff53_4d42_u32 as i32 as u64), Some("SMB"));
        assert_eq!(network_file_system(0xef53), None);
    }
}
