use everloom_core::*;

use crate::Lab;
use crate::fixtures::{lanes, workers};

/// Everything that can be observed through reads, to tell whether anything has changed.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    namespaces: Vec<NamespaceView>,
    places: Vec<Inside>,
    events: Vec<Event>,
    requests: RequestCounts,
    refused: Vec<RefusedRequest>,
}

/// What can be observed of one namespace.
#[derive(Debug, PartialEq)]
struct Inside {
    executions: Vec<ExecutionView>,
    results: Vec<ExecutionResult>,
    attempts: Vec<Vec<AttemptView>>,
    counts: Counts,
    lanes: Vec<LaneView>,
    workers: Vec<WorkerView>,
    flows: Vec<(FlowView, Vec<NodeView>)>,
}

impl Lab {
    /// Everything there is to see now.
    #[track_caller]
    pub fn snapshot(&mut self) -> Snapshot {
        let namespaces = self.see(ListNamespaces { after: None, limit: Limits::PAGE }).namespaces;
        let places = namespaces.iter().map(|one| self.inside(&one.namespace)).collect();
        let events = self.events(EventFilter::default());
        let (requests, refused) = (self.see(CountRequests {}), self.refused_requests());
        Snapshot { namespaces, places, events, requests, refused }
    }

    fn flows(&mut self, namespace: &str) -> Vec<(FlowView, Vec<NodeView>)> {
        let all = ListFlows { namespace: namespace.to_owned(), ..ListFlows::default() };
        let flows = self.see(ListFlows { limit: Limits::PAGE, ..all }).flows;
        let mut seen = Vec::with_capacity(flows.len());
        for flow in flows {
            let query = ListNodes { namespace: namespace.to_owned(), ..ListNodes::new(flow.id) };
            let nodes = self.see(query).nodes;
            seen.push((flow, nodes));
        }
        seen
    }

    fn inside(&mut self, namespace: &str) -> Inside {
        let name = || namespace.to_owned();
        let executions = self.list(ListExecutions {
            namespace: name(),
            limit: Limits::PAGE,
            ..ListExecutions::default()
        });
        let results = executions
            .iter()
            .map(|one| self.see(GetResult { namespace: name(), execution: one.id }))
            .collect();
        let attempts = executions
            .iter()
            .map(|one| {
                let query = ListAttempts {
                    namespace: name(),
                    execution: one.id,
                    after: Epoch(0),
                    limit: Limits::PAGE,
                };
                self.see(query).attempts
            })
            .collect();
        let flows = self.flows(namespace);
        Inside {
            flows,
            results,
            attempts,
            counts: self.see(CountExecutions { namespace: name(), lane: None }),
            lanes: self.see(ListLanes { namespace: name(), ..lanes() }).lanes,
            workers: self.see(ListWorkers { namespace: name(), ..workers() }).workers,
            executions,
        }
    }
}
