//! Where a database is: the URL, and what of it is ours and not the driver's.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use everloom_core::{Error, Result};
use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::options::Options;
use crate::tls::{Roots, Verify};

/// A database and the schema in it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) config: Config,
    pub(crate) verify: Verify,
    pub(crate) roots: Roots,
    pub(crate) schema: String,
    pub(crate) options: Options,
    /// For messages: without user and password.
    pub(crate) place: String,
}

/// The schema that is meant when none is given.
pub(crate) const DEFAULT_SCHEMA: &str = "everloom";

impl Target {
    pub(crate) fn parse(url: &str, options: &Options) -> Result<Self> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        if !["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme)) {
            return Err(Error::invalid("url", "must begin with postgres://"));
        }
        let mut schema = DEFAULT_SCHEMA.to_owned();
        let mut ssl = "prefer".to_owned();
        let mut roots = Roots::System;
        let mut rest = Vec::new();
        for item in query.split('&').filter(|item| !item.is_empty()) {
            match item.split_once('=') {
                Some(("schema", value)) => schema = value.to_owned(),
                Some(("sslmode", value)) => ssl = value.to_owned(),
                Some(("sslrootcert", value)) => roots = root_certificates(value)?,
                _ => rest.push(item),
            }
        }
        check_schema(&schema).map_err(|problem| Error::invalid("url", problem))?;
        let (mode, verify) = ssl_mode(&ssl, &roots)?;
        let url = match rest.is_empty() {
            true => address.to_owned(),
            false => format!("{address}?{}", rest.join("&")),
        };
        let mut config = Config::from_str(&url)
            .map_err(|error| Error::invalid("url", crate::error::cause(&error)))?;
        config.ssl_mode(mode);
        config.connect_timeout(options.connect_timeout);
        if !query.contains("keepalives") && !query.contains("tcp_user_timeout") {
            notice_silence(&mut config);
        }
        if config.get_application_name().is_none() {
            config.application_name("everloom");
        }
        let place = place(&config);
        Ok(Self { config, verify, roots, schema, options: options.clone(), place })
    }

    /// The channel of this schema.
    pub(crate) fn channel(&self) -> String {
        channel(&self.schema)
    }
}

/// The channel of a schema.
pub(crate) fn channel(schema: &str) -> String {
    // A channel's name may have 63 bytes, as a schema's may: a longer one is cut off alike
    // everywhere, which at worst wakes too many.
    format!("everloom_{schema}").chars().take(63).collect()
}

/// It is written into statements, so it must be a plain name.
pub(crate) fn check_schema(schema: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts && schema.len() <= 48 && schema.chars().all(plain) && !schema.starts_with("pg_") {
        return Ok(());
    }
    Err(format!(
        "the schema `{schema}` must be up to 48 lower-case letters, digits and underscores, and \
         begin with a letter"
    ))
}

/// A server whose machine has vanished says nothing, and would be waited for for hours.
fn notice_silence(config: &mut Config) {
    config
        .keepalives_idle(Duration::from_secs(30))
        .keepalives_interval(Duration::from_secs(10))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(60));
}

fn root_certificates(value: &str) -> Result<Roots> {
    let path = percent_decode_str(value)
        .decode_utf8()
        .map_err(|_| Error::invalid("url", "sslrootcert must be UTF-8"))?;
    Ok(match path.as_ref() {
        "system" => Roots::System,
        path => Roots::File(PathBuf::from(path)),
    })
}

fn ssl_mode(text: &str, roots: &Roots) -> Result<(SslMode, Verify)> {
    Ok(match text {
        "disable" => (SslMode::Disable, Verify::Nothing),
        "prefer" => (SslMode::Prefer, Verify::Nothing),
        // As libpq has it: whoever names an authority wants it to be asked.
        "require" if *roots != Roots::System => (SslMode::Require, Verify::Chain),
        "require" => (SslMode::Require, Verify::Nothing),
        "verify-ca" => (SslMode::Require, Verify::Chain),
        "verify-full" => (SslMode::Require, Verify::ChainAndName),
        other => {
            return Err(Error::invalid(
                "url",
                format!(
                    "sslmode `{other}` is none of disable, prefer, require, verify-ca and \
                     verify-full"
                ),
            ));
        }
    })
}

fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".into(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
    format!("the database {database} at {host}:{port}")
}

#[cfg(test)]
mod tests {
    use everloom_core::Code;

    use super::*;

    fn parse(url: &str) -> Result<Target> {
        Target::parse(url, &Options::default())
    }

    #[test]
    fn our_own_items_are_not_handed_to_the_driver() {
        let target =
            parse("postgres://ann@db:5433/app?schema=jobs&sslmode=verify-full&application_name=x")
                .unwrap();
        assert_eq!(target.schema, "jobs");
        assert_eq!(target.verify, Verify::ChainAndName);
        assert_eq!(target.config.get_application_name(), Some("x"));
        assert_eq!(target.place, "the database app at db:5433");
    }

    #[test]
    fn naming_an_authority_asks_it() {
        let target =
            parse("postgres://db/app?sslmode=require&sslrootcert=%2Fetc%2Fmy%20ca").unwrap();
        assert_eq!(target.verify, Verify::Chain);
        assert_eq!(target.roots, Roots::File("/etc/my ca".into()));
        let target = parse("postgres://db/app?sslmode=require&sslrootcert=system").unwrap();
        assert_eq!(target.verify, Verify::Nothing);
    }

    #[test]
    fn a_url_that_can_not_be_meant_is_refused() {
        for url in [
            "sqlite://app.db",
            "postgres://ann@db/app?schema=Jobs",
            "postgres://ann@db/app?schema=pg_jobs",
            "postgres://ann@db/app?sslmode=maybe",
            "postgres://ann@db/app?colour=red",
        ] {
            let error = parse(url).err().expect(url);
            assert_eq!(error.code(), Code::InvalidInput, "{url}");
            assert_eq!(error.field(), Some("url"), "{url}");
        }
    }
}
