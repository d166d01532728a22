//! Who is let in and who is believed: passwords and certificates, on servers of their own.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;

use common::{Admin, run, submit};
use everloom_conformance::Cluster;
use everloom_core::{Code, Error};
use everloom_postgres::{Options, PgStore};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

fn open(url: &str) -> Result<PgStore, Error> {
    PgStore::open(url, &Options::default())
}

/// Why the URL is wrong.
fn refused(url: &str) -> String {
    let error = open(url).err().expect("it is refused");
    assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("url")), "{error}");
    error.message().to_owned()
}

/// A server that asks `ann` for her password and does not know `bob`.
fn guarded() -> Cluster {
    let mut server = Cluster::start();
    Admin::at(server.url()).run(
        "SET password_encryption TO 'scram-sha-256';
         CREATE ROLE ann LOGIN PASSWORD 'right';
         CREATE ROLE bob LOGIN PASSWORD 'right';
         CREATE SCHEMA anns AUTHORIZATION ann",
    );
    let rules = "host all everloom all trust\nhost all ann all scram-sha-256";
    Admin::at(server.url()).write_file("pg_hba.conf", rules);
    server.ctl("restart -m fast");
    server
}

#[test]
fn passwords_are_checked_and_what_is_wrong_with_them_is_said() {
    let server = guarded();
    let url = |who: &str| format!("postgres://{who}@{}/postgres?schema=anns", server.address());
    run(&mut open(&url("ann:right")).expect("she is let in"), submit(1)).expect("and may write");
    assert!(refused(&url("ann:wrong")).contains("refuses the password; correct it"));
    assert!(refused(&url("ann")).contains("asks for a password; add it"));
    assert!(refused(&url("nobody:right")).contains("does not let this user in"));
    assert!(refused(&url("bob:right")).contains("does not let this user in"));
    assert!(!refused(&url("ann:wrong")).contains("wrong"), "the password is not repeated");
}

/// An authority and whom it vouches for.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Self { issuer: Issuer::new(params, key), folder };
        std::fs::write(authority.file(), certificate.pem()).expect("it can be written");
        authority
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("root.crt")
    }

    /// A server with a certificate for a name.
    fn server(&self, name: &str) -> Cluster {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        encrypted(&certificate.pem(), &key)
    }

    fn url(&self, server: &Cluster, mode: &str) -> String {
        format!("{}?sslmode={mode}&sslrootcert={}", server.url(), self.file().display())
    }
}

fn encrypted(certificate: &str, key: &KeyPair) -> Cluster {
    let mut server = Cluster::start();
    let admin = Admin::at(server.url());
    admin.write_file("server.crt", certificate);
    admin.write_file("server.key", &key.serialize_pem());
    admin.run("ALTER SYSTEM SET ssl TO on");
    server.ctl("restart -m fast");
    server
}

fn is_encrypted(store: PgStore, server: &Cluster) -> bool {
    let sql = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE application_name = 'everloom' AND ssl";
    let encrypted = Admin::at(server.url()).number(sql) > 0;
    drop(store);
    encrypted
}

#[test]
fn a_server_that_is_vouched_for_is_believed() {
    let authority = Authority::new();
    let server = authority.server("127.0.0.1");
    for mode in ["prefer", "require", "verify-ca", "verify-full"] {
        let store = open(&authority.url(&server, mode)).expect(mode);
        assert!(is_encrypted(store, &server), "{mode}");
    }
    let plain = open(&format!("{}?sslmode=disable", server.url())).expect("it opens");
    assert!(!is_encrypted(plain, &server));
    let strangers = Authority::new();
    for mode in ["require", "verify-ca", "verify-full"] {
        let why = refused(&strangers.url(&server, mode));
        assert!(why.contains("no known authority"), "{mode}: {why}");
    }
}

#[test]
fn a_certificate_of_another_server_is_not_believed() {
    let authority = Authority::new();
    let server = authority.server("db.example");
    open(&authority.url(&server, "verify-ca")).expect("only the authority is asked for");
    let why = refused(&authority.url(&server, "verify-full"));
    assert!(why.contains("certificate of another server; correct the host"), "{why}");
    assert!(why.contains("db.example"), "{why}");
}

#[test]
fn a_server_that_vouches_for_itself_is_believed_only_by_those_who_do_not_ask() {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
    let server = encrypted(&params.self_signed(&key).expect("a certificate").pem(), &key);
    let authority = Authority::new();
    open(&format!("{}?sslmode=require", server.url())).expect("nobody is asked");
    for mode in ["verify-ca", "verify-full"] {
        let why = refused(&authority.url(&server, mode));
        assert!(why.contains("name the authority's with sslrootcert"), "{mode}: {why}");
        // Whom the machine believes is not whom the server names.
        let why = refused(&format!("{}?sslmode={mode}&sslrootcert=system", server.url()));
        assert!(why.contains("no known authority"), "{mode}: {why}");
    }
}

#[test]
fn a_file_without_certificates_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (absent, other) = (folder.path().join("absent"), folder.path().join("other"));
    std::fs::write(&other, "not a certificate").expect("it can be written");
    for file in [absent, other] {
        let file = file.display();
        let url = format!("{}?sslmode=verify-full&sslrootcert={file}", common::server());
        assert!(refused(&url).contains(&format!("sslrootcert {file}")));
    }
}

#[test]
fn a_server_without_tls_is_refused_by_those_who_ask_for_it() {
    let authority = Authority::new();
    for mode in ["require", "verify-ca", "verify-full"] {
        let file = authority.file();
        let url = format!("{}?sslmode={mode}&sslrootcert={}", common::server(), file.display());
        assert!(refused(&url).contains("offers no TLS, which sslmode asks for"), "{mode}");
    }
}

/// Someone in between may say that there is no TLS; nothing may be said to them then.
#[test]
fn nothing_is_said_in_the_open_where_secrecy_is_asked_for() {
    const ASKS_FOR_TLS: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let authority = Authority::new();
    for mode in ["require", "verify-ca", "verify-full"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let between = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a connection");
            let mut heard = vec![0; 8];
            client.read_exact(&mut heard).expect("a request");
            client.write_all(b"N").expect("an answer");
            client.read_to_end(&mut heard).expect("the end");
            heard
        });
        let file = authority.file();
        let url = format!(
            "postgres://ann:secret@127.0.0.1:{port}/app?sslmode={mode}&sslrootcert={}",
            file.display()
        );
        assert!(refused(&url).contains("offers no TLS"), "{mode}");
        assert_eq!(between.join().expect("it was asked"), ASKS_FOR_TLS, "{mode}");
    }
}
