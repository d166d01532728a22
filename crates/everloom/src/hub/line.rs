//! Claims that found nothing and wait for work.
//!
//! Each lane has its line. As many are called as pieces of work became claimable, those who have
//! stood longest first. A call is good for one try; who was called and leaves without having
//! tried passes the call on, so that no work lies unnoticed while others wait for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use everloom_core::{ReadyWork, Route};
use tokio::sync::Notify;

use crate::sync::lock;

/// What a worker would take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    /// From this namespace.
    pub(crate) namespace: String,
    /// From any of these lanes.
    pub(crate) lanes: Vec<String>,
    /// Of these kinds; none means all.
    pub(crate) kinds: Vec<String>,
    /// What it has.
    pub(crate) capabilities: Vec<String>,
}

impl Interest {
    fn covers(&self, route: Option<&Route>) -> bool {
        route.is_none_or(|route| route.served_by(&self.kinds, &self.capabilities))
    }
}

#[derive(Default)]
pub(crate) struct Line {
    state: Mutex<State>,
}

type Ticket = u64;

/// The work someone is called for; none when the call is to all.
type Call = Option<ReadyWork>;

#[derive(Default)]
struct State {
    next: Ticket,
    /// Who stands where, by namespace and lane, in the order they came.
    lanes: HashMap<String, HashMap<String, BTreeMap<Ticket, Arc<Standing>>>>,
    /// Who was called and has not heard it yet.
    called: HashMap<Ticket, Call>,
}

struct Standing {
    interest: Arc<Interest>,
    bell: Notify,
}

impl State {
    fn join(&mut self, interest: &Arc<Interest>) -> (Ticket, Arc<Standing>) {
        self.next += 1;
        let standing = Arc::new(Standing { interest: Arc::clone(interest), bell: Notify::new() });
        let lanes = self.lanes.entry(interest.namespace.clone()).or_default();
        for lane in &interest.lanes {
            lanes.entry(lane.clone()).or_default().insert(self.next, Arc::clone(&standing));
        }
        (self.next, standing)
    }

    fn leave(&mut self, ticket: Ticket, interest: &Interest) {
        let Some(lanes) = self.lanes.get_mut(&interest.namespace) else { return };
        for lane in &interest.lanes {
            if let Some(line) = lanes.get_mut(lane) {
                line.remove(&ticket);
                if line.is_empty() {
                    lanes.remove(lane);
                }
            }
        }
        if lanes.is_empty() {
            self.lanes.remove(&interest.namespace);
        }
    }

    fn choose(&self, work: &ReadyWork) -> Vec<(Ticket, Arc<Standing>)> {
        let lanes = self.lanes.get(&work.namespace.name);
        let Some(line) = lanes.and_then(|lanes| lanes.get(&work.lane.name)) else { return vec![] };
        line.iter()
            .filter(|(_, standing)| standing.interest.covers(work.route.as_deref()))
            .take(work.count)
            .map(|(ticket, standing)| (*ticket, Arc::clone(standing)))
            .collect()
    }
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.state).lanes.is_empty()
    }

    /// Calls as many as there is work for.
    pub(crate) fn call(&self, work: &ReadyWork) {
        let mut state = lock(&self.state);
        let chosen = state.choose(work);
        for (ticket, standing) in &chosen {
            state.leave(*ticket, &standing.interest);
            state.called.insert(*ticket, Some(ReadyWork { count: 1, ..work.clone() }));
        }
        drop(state);
        chosen.iter().for_each(|(_, standing)| standing.bell.notify_one());
    }

    /// Calls everyone.
    pub(crate) fn call_everyone(&self) {
        let mut state = lock(&self.state);
        let lanes = std::mem::take(&mut state.lanes);
        let everyone: BTreeMap<_, _> =
            lanes.into_values().flat_map(HashMap::into_values).flatten().collect();
        state.called.extend(everyone.keys().map(|ticket| (*ticket, None)));
        drop(state);
        everyone.values().for_each(|standing| standing.bell.notify_one());
    }
}

/// Someone who looks for work until there is some:
///
/// ```text
/// loop {
///     seat.stand();
///     try to claim
///     if there was work: seat.took(…) and done
///     seat.tried();
///     seat.called().await;
/// }
/// ```
pub(crate) struct Seat {
    line: Arc<Line>,
    interest: Arc<Interest>,
    place: Option<(Ticket, Arc<Standing>)>,
    /// The call that the present try follows.
    following: Option<Call>,
}

impl Seat {
    pub(crate) fn new(line: Arc<Line>, interest: Interest) -> Self {
        Self { line, interest: Arc::new(interest), place: None, following: None }
    }

    /// Stands in line, before a try. Who was not called keeps the place.
    pub(crate) fn stand(&mut self) {
        let mut state = lock(&self.line.state);
        if let Some((ticket, _)) = &self.place {
            match state.called.remove(ticket) {
                Some(call) => self.following = Some(call),
                None => return,
            }
        }
        self.place = Some(state.join(&self.interest));
    }

    /// The try is over, and with it the call that led to it.
    pub(crate) fn tried(&mut self) {
        self.following = None;
    }

    /// The try got work; `included` says whether what the call was for is part of it. If not,
    /// because there was something better, the call is for someone else.
    pub(crate) fn took(&mut self, included: impl FnOnce(&ReadyWork) -> bool) {
        if self.following.as_ref().is_some_and(|call| call.as_ref().is_none_or(included)) {
            self.following = None;
        }
    }

    /// Completes when called since the last [`Seat::stand`]. Dropping it loses nothing.
    pub(crate) async fn called(&self) {
        let Some((ticket, standing)) = &self.place else { return };
        while !lock(&self.line.state).called.contains_key(ticket) {
            standing.bell.notified().await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let unused = self.following.take();
        let mut unheard = None;
        if let Some((ticket, _)) = &self.place {
            let mut state = lock(&self.line.state);
            unheard = state.called.remove(ticket);
            if unheard.is_none() {
                state.leave(*ticket, &self.interest);
            }
        }
        for work in [unused, unheard].into_iter().flatten().flatten() {
            self.line.call(&work);
        }
    }
}

#[cfg(test)]
mod tests {
    use everloom_core::{Defaults, Lane, LaneId, Namespace, NamespaceId, NamespaceLimits, RouteId};

    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn seat(line: &Arc<Line>, lanes: &[&str], kinds: &[&str], capabilities: &[&str]) -> Seat {
        let interest = Interest {
            namespace: "ns".into(),
            lanes: owned(lanes),
            kinds: owned(kinds),
            capabilities: owned(capabilities),
        };
        let mut seat = Seat::new(Arc::clone(line), interest);
        seat.stand();
        seat
    }

    fn work(lane: &str, route: Option<(&str, &[&str])>, count: usize) -> ReadyWork {
        let id = NamespaceId(1);
        let route = route.map(|(kind, capabilities)| {
            let capabilities = owned(capabilities);
            Arc::new(Route { id: RouteId(1), kind: kind.into(), capabilities })
        });
        ReadyWork {
            namespace: Arc::new(Namespace {
                id,
                name: "ns".into(),
                defaults: Defaults::default(),
                limits: NamespaceLimits::default(),
            }),
            lane: Arc::new(Lane::new(LaneId(1), id, lane)),
            route,
            count,
        }
    }

    fn is_called(seat: &Seat) -> bool {
        let (ticket, _) = seat.place.as_ref().unwrap();
        lock(&seat.line.state).called.contains_key(ticket)
    }

    fn called(seats: &[Seat]) -> Vec<usize> {
        (0..seats.len()).filter(|index| is_called(&seats[*index])).collect()
    }

    #[test]
    fn as_many_are_called_as_there_is_work_those_who_stand_longest_first() {
        let line = Arc::new(Line::default());
        let seats: Vec<_> = (0..100).map(|_| seat(&line, &["a"], &[], &[])).collect();
        line.call(&work("a", Some(("mail", &[])), 3));
        assert_eq!(called(&seats), [0, 1, 2]);
        line.call(&work("a", None, 2));
        assert_eq!(called(&seats), [0, 1, 2, 3, 4]);
        line.call(&work("a", None, usize::MAX));
        assert_eq!(called(&seats).len(), 100);
    }

    #[test]
    fn only_those_who_can_do_it_are_called() {
        let line = Arc::new(Line::default());
        let seats = [
            seat(&line, &["b"], &[], &["gpu"]),
            seat(&line, &["a"], &["mail"], &["gpu"]),
            seat(&line, &["a"], &["render"], &[]),
            seat(&line, &["b", "a"], &["render"], &["gpu"]),
            seat(&line, &["a"], &[], &["gpu"]),
        ];
        line.call(&work("a", Some(("render", &["gpu"])), 9));
        assert_eq!(called(&seats), [3, 4]);
    }

    #[test]
    fn who_leaves_without_having_tried_passes_the_call_on() {
        let line = Arc::new(Line::default());
        let mut seats: Vec<_> = (0..4).map(|_| seat(&line, &["a"], &[], &[])).collect();
        line.call(&work("a", None, 1));
        // Called, and has not heard it.
        drop(seats.remove(0));
        assert_eq!(called(&seats), [0]);
        // Has heard it, and stands for the try it leads to.
        seats[0].stand();
        assert_eq!(called(&seats), [0; 0]);
        drop(seats.remove(0));
        assert_eq!(called(&seats), [0]);
        // Has tried.
        seats[0].stand();
        seats[0].tried();
        drop(seats.remove(0));
        assert_eq!(called(&seats), [0; 0]);
    }

    #[test]
    fn who_was_called_and_got_something_better_passes_the_call_on() {
        let line = Arc::new(Line::default());
        let mut seats: Vec<_> = (0..3).map(|_| seat(&line, &["a"], &[], &[])).collect();
        line.call(&work("a", None, 1));
        seats[0].stand();
        seats[0].took(|work| work.lane.name == "b");
        drop(seats.remove(0));
        assert_eq!(called(&seats), [0]);
        seats[0].stand();
        seats[0].took(|work| work.lane.name == "a");
        drop(seats.remove(0));
        assert_eq!(called(&seats), [0; 0]);
    }

    #[test]
    fn a_call_during_a_try_is_kept_for_after_it() {
        let line = Arc::new(Line::default());
        let mut first = seat(&line, &["a"], &[], &[]);
        line.call(&work("a", None, 1));
        first.tried();
        assert!(is_called(&first));
    }

    #[test]
    fn who_was_not_called_keeps_the_place() {
        let line = Arc::new(Line::default());
        let mut seats: Vec<_> = (0..3).map(|_| seat(&line, &["a"], &[], &[])).collect();
        seats[0].tried();
        seats[0].stand();
        line.call(&work("a", None, 1));
        assert_eq!(called(&seats), [0]);
    }

    #[test]
    fn a_call_to_all_is_not_passed_on() {
        let line = Arc::new(Line::default());
        let mut seats: Vec<_> = (0..3).map(|_| seat(&line, &["a", "b"], &[], &[])).collect();
        line.call_everyone();
        assert_eq!(called(&seats), [0, 1, 2]);
        for seat in &mut seats {
            seat.stand();
        }
        drop(seats.remove(0));
        assert_eq!(called(&seats), [0; 0]);
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let line = Arc::new(Line::default());
        let mut seats: Vec<_> = (0..3).map(|_| seat(&line, &["a", "b"], &[], &[])).collect();
        line.call(&work("b", None, 1));
        seats[0].stand();
        drop(seats);
        let state = lock(&line.state);
        assert!(state.lanes.is_empty() && state.called.is_empty());
    }
}
