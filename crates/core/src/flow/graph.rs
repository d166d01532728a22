//! A graph as it is submitted, and everything that can be wrong with one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::model::{Check, Code, Limits, Need, Rest, When};
use crate::submit::NewExecution;

/// One node of a flow: an execution, and what it waits for.
///
/// ```
/// # use everloom_core::{After, NewExecution, NewNode, Upstream};
/// let report = NewNode::new("report", NewExecution::new("render"))
///     .after(After::all(["fetch", "price"]).bind("price", "prices"));
/// let fallback = NewNode::new("apology", NewExecution::new("mail"))
///     .after(After::all([Upstream::new("report").failure()]));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewNode {
    /// Its name, unique in the flow.
    pub name: String,
    /// What is to be done.
    pub execution: NewExecution,
    /// What it waits for; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
}

impl NewNode {
    /// A node that waits for nothing.
    pub fn new(name: impl Into<String>, execution: NewExecution) -> Self {
        Self { name: name.into(), execution, after: None }
    }

    /// Lets it wait.
    #[must_use]
    pub fn after(mut self, after: After) -> Self {
        self.after = Some(after);
        self
    }
}

/// What a node waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// How many of them it needs.
    #[serde(default)]
    pub need: Need,
    /// The nodes.
    pub of: Vec<Upstream>,
    /// What happens to those it no longer needs once it is decided: by default they are cancelled,
    /// or run on when all of them are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
}

impl After {
    /// All of these.
    pub fn all<U: Into<Upstream>>(of: impl IntoIterator<Item = U>) -> Self {
        Self::of(Need::All, of)
    }

    /// Any one of these; the others are cancelled.
    pub fn any<U: Into<Upstream>>(of: impl IntoIterator<Item = U>) -> Self {
        Self::of(Need::Any, of)
    }

    /// That many of these; the others are cancelled.
    pub fn count<U: Into<Upstream>>(count: u32, of: impl IntoIterator<Item = U>) -> Self {
        Self::of(Need::Count(count), of)
    }

    fn of<U: Into<Upstream>>(need: Need, of: impl IntoIterator<Item = U>) -> Self {
        Self { need, of: of.into_iter().map(Into::into).collect(), rest: None }
    }

    /// Hands the result of one of them over under a name.
    #[must_use]
    pub fn bind(mut self, node: &str, name: impl Into<String>) -> Self {
        if let Some(upstream) = self.of.iter_mut().find(|upstream| upstream.node == node) {
            upstream.bind = Some(name.into());
        }
        self
    }

    /// Hands the results of all of them over under their nodes' names.
    #[must_use]
    pub fn bind_all(mut self) -> Self {
        for upstream in &mut self.of {
            upstream.bind = Some(upstream.node.clone());
        }
        self
    }

    /// Lets those it no longer needs run on.
    #[must_use]
    pub fn run_rest(mut self) -> Self {
        self.rest = Some(Rest::Run);
        self
    }

    /// Cancels those it no longer needs.
    #[must_use]
    pub fn cancel_rest(mut self) -> Self {
        self.rest = Some(Rest::Cancel);
        self
    }

    /// What happens to those it no longer needs.
    pub fn rest(&self) -> Rest {
        self.rest.unwrap_or_else(|| default_rest(self.need))
    }
}

pub(crate) fn default_rest(need: Need) -> Rest {
    match need {
        Need::All => Rest::Run,
        Need::Any | Need::Count(_) => Rest::Cancel,
    }
}

/// One node that another waits for. As JSON, a name alone will do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "UpstreamForm")]
pub struct Upstream {
    /// The node's name.
    pub node: String,
    /// Which outcome counts.
    #[serde(default)]
    pub when: When,
    /// Under which name its result is handed over; not at all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum UpstreamForm {
    Name(String),
    Whole(UpstreamFields),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpstreamFields {
    node: String,
    #[serde(default)]
    when: When,
    #[serde(default)]
    bind: Option<String>,
}

impl From<UpstreamForm> for Upstream {
    fn from(form: UpstreamForm) -> Self {
        match form {
            UpstreamForm::Name(node) => Self::new(node),
            UpstreamForm::Whole(UpstreamFields { node, when, bind }) => Self { node, when, bind },
        }
    }
}

impl Upstream {
    /// A node that must complete.
    pub fn new(node: impl Into<String>) -> Self {
        Self { node: node.into(), when: When::Success, bind: None }
    }

    /// It must fail, expire or be cancelled instead.
    #[must_use]
    pub fn failure(mut self) -> Self {
        self.when = When::Failure;
        self
    }

    /// It must be over, however it ended.
    #[must_use]
    pub fn done(mut self) -> Self {
        self.when = When::Done;
        self
    }

    /// Hands its result over under a name.
    #[must_use]
    pub fn bind(mut self, name: impl Into<String>) -> Self {
        self.bind = Some(name.into());
        self
    }
}

impl<S: Into<String>> From<S> for Upstream {
    fn from(node: S) -> Self {
        Self::new(node)
    }
}

/// An edge between two nodes of a flow, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewEdge {
    /// The node that is waited for.
    pub from: String,
    /// The node that waits; it must not have started.
    pub to: String,
    /// Which outcome counts.
    #[serde(default)]
    pub when: When,
    /// Under which name the result is handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<String>,
}

impl NewEdge {
    /// The second waits for the first to complete.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into(), when: When::Success, bind: None }
    }
}

/// Checks nodes as far as they alone tell: names, joins and sizes. What they name outside of
/// themselves is answered by `exists`, which is also asked whether a name is taken.
pub(super) fn check_nodes(check: &mut Check, nodes: &[NewNode], exists: &dyn Fn(&str) -> bool) {
    let mut names = HashMap::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        check.item("nodes", index);
        check.name("name", &node.name);
        if let Some(first) = names.insert(node.name.as_str(), index) {
            let place = format!("`{}` is the name of nodes[{first}] too", node.name);
            check.violate(Code::InvalidInput, "name", place);
        } else if exists(&node.name) {
            let place = format!("`{}` is the name of a node that is in the flow", node.name);
            check.violate(Code::InvalidInput, "name", place);
        }
        check.that(node.execution.key.is_none(), "execution.key", || {
            "a node has no key of its own; give the flow one".into()
        });
    }
    let known = |name: &str| names.contains_key(name) || exists(name);
    for (index, node) in nodes.iter().enumerate() {
        if let Some(after) = &node.after {
            check.item("nodes", index);
            check_after(check, &node.name, after, &known);
        }
    }
    check.whole();
    let edges: usize =
        nodes.iter().filter_map(|node| node.after.as_ref()).map(|a| a.of.len()).sum();
    check.at_most("nodes", nodes.len(), Limits::FLOW_NODES);
    check.at_most("edges", edges, Limits::FLOW_EDGES);
}

fn check_after(check: &mut Check, node: &str, after: &After, known: &dyn Fn(&str) -> bool) {
    let mut sources = BTreeMap::<&str, usize>::new();
    let mut bound = BTreeSet::new();
    for upstream in &after.of {
        let name = upstream.node.as_str();
        *sources.entry(name).or_default() += 1;
        if name == node {
            check.violate(Code::SelfEdge, "after", format!("`{node}` can not wait for itself"));
        } else if !known(name) {
            let what = format!("there is no node `{}` in the flow", name.escape_debug());
            check.violate(Code::InvalidInput, "after", what);
        }
        if let Some(bind) = &upstream.bind {
            check.name("after.bind", bind);
            check.that(bound.insert(bind), "after.bind", || format!("`{bind}` is bound twice"));
        }
    }
    check.that(!sources.is_empty(), "after.of", || {
        "names no node; leave `after` out to wait for nothing".into()
    });
    check.at_most("after.of", sources.len(), Limits::FAN_IN);
    if let Some((name, _)) = sources.iter().find(|(_, edges)| **edges > Limits::PARALLEL_EDGES) {
        check.violate(
            Code::InvalidInput,
            "after.of",
            format!("names `{name}` more than {} times", Limits::PARALLEL_EDGES),
        );
    }
    check_need(check, "after.need", after.need, sources.len());
}

/// Refuses a count that can never be reached.
pub(super) fn check_need(check: &mut Check, field: &str, need: Need, sources: usize) {
    if let Need::Count(count) = need {
        check.that(count > 0 && count as usize <= sources, field, || {
            format!("needs {count} of {sources} distinct nodes; use 1 to {sources}")
        });
    }
}

/// Finds nodes that wait for each other in a circle, and tells one such circle.
///
/// The edges go from what is waited for to what waits. Linear in their number.
pub(super) fn find_cycle(nodes: usize, edges: &[(usize, usize)]) -> Option<Vec<usize>> {
    let mut waits_for = vec![0_usize; nodes];
    let mut out = vec![Vec::new(); nodes];
    for (from, to) in edges {
        out[*from].push(*to);
        waits_for[*to] += 1;
    }
    let mut free: Vec<usize> = (0..nodes).filter(|node| waits_for[*node] == 0).collect();
    while let Some(node) = free.pop() {
        for next in &out[node] {
            waits_for[*next] -= 1;
            if waits_for[*next] == 0 {
                free.push(*next);
            }
        }
    }
    // Whoever is left waits for someone who is left too: going back along these must return.
    let stuck = |node: &usize| waits_for[*node] > 0;
    let mut back = vec![usize::MAX; nodes];
    for (from, to) in edges {
        if stuck(from) && stuck(to) {
            back[*to] = *from;
        }
    }
    let mut seen = vec![false; nodes];
    let mut node = (0..nodes).find(stuck)?;
    while !seen[node] {
        seen[node] = true;
        node = back[node];
    }
    let mut cycle = vec![node];
    let mut at = back[node];
    while at != node {
        cycle.push(at);
        at = back[at];
    }
    cycle.reverse();
    // From the least on, so that the same graph is told in the same words.
    let least = cycle.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(at, _)| at);
    cycle.rotate_left(least);
    Some(cycle)
}

/// A circle in words: `a -> b -> a`. A long one is shortened in the middle.
pub(super) fn tell_cycle(cycle: &[&str]) -> String {
    const SHOWN: usize = 20;
    let mut names: Vec<String> = cycle.iter().map(|name| (*name).to_owned()).collect();
    if names.len() > SHOWN {
        let left_out = names.len() - SHOWN;
        names.splice(SHOWN / 2..SHOWN / 2 + left_out, [format!("… {left_out} more …")]);
    }
    names.extend(cycle.first().map(|name| (*name).to_owned()));
    names.join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(nodes: &[NewNode]) -> Vec<String> {
        let mut check = Check::default();
        check_nodes(&mut check, nodes, &|_| false);
        match check.finish() {
            Ok(()) => vec![],
            Err(error) => error.violations().iter().map(ToString::to_string).collect(),
        }
    }

    fn node(name: &str, after: After) -> NewNode {
        NewNode::new(name, NewExecution::new("k")).after(after)
    }

    #[test]
    fn everything_wrong_with_a_graph_is_listed_at_once() {
        let root = NewNode::new("a", NewExecution::new("k"));
        let found = violations(&[
            root.clone(),
            root,
            node("b", After::all(["b", "nobody"])),
            node("c", After::count(3, ["a", "a"])),
            node("d", After::all::<&str>([])),
            node(
                "e",
                After {
                    of: vec![Upstream::new("a").bind("x"), Upstream::new("b").bind("x")],
                    ..After::default()
                },
            ),
        ]);
        let has = |text: &str| found.iter().any(|one| one.contains(text));
        assert!(has("`a` is the name of nodes[0] too"), "{found:?}");
        assert!(has("`b` can not wait for itself"));
        assert!(has("there is no node `nobody`"));
        assert!(has("needs 3 of 1 distinct nodes"));
        assert!(has("names no node"));
        assert!(has("`x` is bound twice"));
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn a_circle_is_told_with_its_path() {
        assert_eq!(find_cycle(3, &[(0, 1), (1, 2)]), None);
        assert_eq!(find_cycle(1, &[(0, 0)]), Some(vec![0]));
        assert_eq!(find_cycle(4, &[(0, 1), (1, 2), (2, 3), (3, 1)]), Some(vec![1, 2, 3]));
        let ring: Vec<_> = (0..1001).map(|node| (node, (node + 1) % 1001)).collect();
        assert_eq!(find_cycle(1001, &ring).unwrap().len(), 1001);
        assert_eq!(tell_cycle(&["a", "b"]), "a -> b -> a");
    }

    #[test]
    fn an_upstream_may_be_written_as_its_name() {
        let after: After =
            serde_json::from_str(r#"{"of":["a",{"node":"b","when":"done","bind":"x"}]}"#).unwrap();
        assert_eq!(after.of, [Upstream::new("a"), Upstream::new("b").done().bind("x")]);
        assert!(serde_json::from_str::<After>(r#"{"of":[{"node":"b","wehn":"done"}]}"#).is_err());
    }
}
