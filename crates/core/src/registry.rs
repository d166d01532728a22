//! Every command and query there is, so that nothing lists them by hand.

use crate::command::{Command, Query};

macro_rules! names {
    ($trait:ident: $($type:ty),* $(,)?) => { &[$(<$type as $trait>::NAME),*] };
}

/// The names of all commands.
pub const COMMANDS: &[&str] = names![Command:
    crate::Submit,
    crate::Claim,
    crate::ClaimExecution,
    crate::RedeemGrant,
    crate::Renew,
    crate::ReportProgress,
    crate::Complete,
    crate::Fail,
    crate::Delay,
    crate::Release,
    crate::Cancel,
    crate::AcknowledgeCancel,
    crate::RevokeLease,
    crate::ChangePriority,
    crate::Hold,
    crate::Unhold,
    crate::PutNamespace,
    crate::PutLane,
    crate::PauseLane,
    crate::ResumeLane,
    crate::DrainLane,
    crate::Replay,
    crate::SetTags,
    crate::Delete,
    crate::SubmitFlow,
    crate::ExtendFlow,
    crate::CreateFlow,
    crate::AddExecution,
    crate::StageEdge,
    crate::ApplyEdge,
    crate::SetJoin,
    crate::CancelFlow,
    crate::HoldFlow,
    crate::UnholdFlow,
    crate::ReplayFlow,
    crate::SetFlowTags,
    crate::DeleteFlow,
    crate::Spawn,
    crate::WaitChildren,
    crate::Suspend,
    crate::CreateWaitpoint,
    crate::CloseWaitpoint,
    crate::DeliverSignal,
    crate::Approve,
    crate::Reject,
    crate::Resume,
    crate::SeedSigningKey,
    crate::RotateSigningKey,
    crate::RevokeSigningKey,
    crate::RecordStep,
    crate::Append,
    crate::CloseStream,
    crate::CreateBudget,
    crate::UpdateBudget,
    crate::ResetBudget,
    crate::ReleaseBudget,
    crate::DeleteBudget,
    crate::CreateQuota,
    crate::UpdateQuota,
    crate::DeleteQuota,
    crate::AttachLimit,
    crate::DetachLimit,
    crate::Spend,
    crate::RegisterWorker,
    crate::HeartbeatWorker,
    crate::MarkWorkerDead,
    crate::ApplyInbox,
    crate::RetryRequest,
    crate::DeleteRequest,
    crate::Prepare,
    crate::Tick,
];

/// The names of all queries.
pub const QUERIES: &[&str] = names![Query:
    crate::GetExecution,
    crate::GetInput,
    crate::GetResult,
    crate::ListExecutions,
    crate::CountExecutions,
    crate::ListAttempts,
    crate::Explain,
    crate::ListLanes,
    crate::ListNamespaces,
    crate::ListWorkers,
    crate::ListExpiredLeases,
    crate::GetFlow,
    crate::ListNodes,
    crate::ListFlows,
    crate::DrawFlow,
    crate::ExplainNode,
    crate::ObserveSignals,
    crate::ListSignals,
    crate::ListSuspensions,
    crate::ListWaitpoints,
    crate::ListInbox,
    crate::ListSigningKeys,
    crate::ListSteps,
    crate::ReadStream,
    crate::ReadSummary,
    crate::ReadEvents,
    crate::ListRefusedRequests,
    crate::CountRequests,
    crate::GetAbout,
    crate::GetBudget,
    crate::ListBudgets,
    crate::GetQuota,
    crate::ListQuotas,
    crate::GetLedger,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_commands_or_queries_share_a_name() {
        let mut names: Vec<_> = COMMANDS.iter().chain(QUERIES).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
