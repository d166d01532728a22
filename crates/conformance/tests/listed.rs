//! Nothing that is written as a behaviour is forgotten in the list.

use std::fs;
use std::path::Path;

use everloom_conformance::BEHAVIOURS;

#[test]
fn every_behaviour_is_listed_once_and_every_listed_one_exists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/topics");
    let mut written = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let topic = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let source = fs::read_to_string(&path).unwrap();
        let behaviours = source.split("\npub fn ").skip(1).filter_map(|rest| {
            let (name, signature) = rest.split_once('(')?;
            signature.starts_with("lab: &mut Lab)").then_some(name)
        });
        written.extend(behaviours.map(|name| format!("{topic}::{name}")));
    }
    let mut listed: Vec<_> = BEHAVIOURS.iter().map(ToString::to_string).collect();
    written.sort_unstable();
    listed.sort_unstable();
    assert_eq!(written, listed);
}
