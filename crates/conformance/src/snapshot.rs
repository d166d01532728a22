use everloom_core::*;

use crate::Lab;
use crate::fixtures::{in_namespace, lanes, workers};
use crate::limit_lab::{list_budgets, list_quotas};
use crate::mail_lab::*;

/// What tells that something lies beside an execution.
const MAIL: [EventKind; 2] = [EventKind::WaitpointCreated, EventKind::SignalDelivered];

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
    beside: Vec<Beside>,
    keys: SigningKeys,
    budgets: Vec<BudgetStatus>,
    quotas: Vec<QuotaStatus>,
}

/// What can be observed beside one execution.
#[derive(Debug, PartialEq)]
struct Beside {
    suspensions: SuspensionPage,
    waitpoints: WaitpointPage,
    signals: SignalPage,
    steps: StepPage,
    stream: StreamPage,
    summary: Option<SummaryView>,
    ledger: Ledger,
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

    /// What lies beside those executions that can have something beside them: whatever waits or
    /// was signalled is told by an event, and only who was claimed records steps.
    fn beside(&mut self, namespace: &str, executions: &[ExecutionView]) -> Vec<Beside> {
        let filter = EventFilter { kinds: MAIL.into(), ..in_namespace(namespace) };
        let told = self.events(filter);
        let mut seen = Vec::new();
        for &ExecutionView { id, attempt, .. } in executions {
            if attempt == 0 && told.iter().all(|event| event.execution != Some(id)) {
                continue;
            }
            let name = || namespace.to_owned();
            let waitpoints = ListWaitpoints { closed: true, ..list_waitpoints(id) };
            let stream = ReadStream { backward: true, limit: Limits::PAGE, ..ReadStream::new(id) };
            seen.push(Beside {
                suspensions: self
                    .see(ListSuspensions { namespace: name(), ..list_suspensions(id) }),
                waitpoints: self.see(ListWaitpoints { namespace: name(), ..waitpoints }),
                signals: self.see(ListSignals { namespace: name(), ..list_signals(id) }),
                steps: self.see(ListSteps { namespace: name(), ..list_steps(id) }),
                stream: self.see(ReadStream { namespace: name(), ..stream }),
                summary: self.see(ReadSummary { namespace: name(), execution: id }),
                ledger: self.see(GetLedger { namespace: name(), execution: id }),
            });
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
            beside: self.beside(namespace, &executions),
            keys: self.see(ListSigningKeys { namespace: name() }),
            budgets: self.see(list_budgets(namespace)).budgets,
            quotas: self.see(list_quotas(namespace)).quotas,
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
