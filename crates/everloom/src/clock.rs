//! Time: the clocks an engine may go by, and the task that does what is due.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everloom_core::{Clock, Result, Timestamp};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::hub::Alarm;

/// A clock one can wait for.
pub trait Timekeeper: Clock {
    /// Completes when that moment has come.
    fn until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// The longest sleep in one piece: the machine's clock may be set meanwhile.
const NAP: Duration = Duration::from_secs(30);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(0) + since
    }
}

impl Timekeeper for SystemClock {
    fn until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            loop {
                let left = at.since(self.now());
                if left.is_zero() {
                    return;
                }
                sleep(left.min(NAP)).await;
            }
        })
    }
}

/// A clock that is moved by hand; clones show the same time.
///
/// ```
/// # use std::time::Duration;
/// # use everloom::ManualClock;
/// # use everloom_core::{Clock, Timestamp};
/// let clock = ManualClock::new(Timestamp::from_millis(1_000));
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(clock.now(), Timestamp::from_millis(3_000));
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<watch::Sender<Timestamp>>);

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(watch::Sender::new(start)))
    }

    /// Moves on, and wakes who waits for what has come.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now = *now + by);
    }

    /// Moves to a moment, and wakes who waits for what has come.
    pub fn set(&self, to: Timestamp) {
        self.0.send_replace(to);
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({})", self.now())
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }
}

impl Timekeeper for ManualClock {
    fn until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            // It fails only when the clock is gone, and this borrows the clock.
            let _ = self.0.subscribe().wait_for(|now| *now >= at).await;
        })
    }
}

/// What doing a slice of the due work came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticked {
    /// Whether more is due already.
    pub(crate) more: bool,
    /// When something is due next.
    pub(crate) next_due: Option<Timestamp>,
    /// Whether requests wait in the inbox.
    pub(crate) requests: bool,
}

/// How long to wait before trying again what did not work: longer every time.
struct Patience(Duration);

impl Patience {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(5);

    fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (wait * 2).min(Self::LONGEST);
        wait
    }
}

/// Does what is due in slices, then sleeps until something is. Never gives up.
pub(crate) async fn run<F>(clock: &dyn Timekeeper, alarm: &Alarm, tick: impl Fn() -> F)
where
    F: Future<Output = Result<Ticked>>,
{
    let mut patience = Patience(Patience::FIRST);
    let mut last_due = None;
    loop {
        // Between two slices others have their turn.
        yield_now().await;
        // Before the tick, so that what is noted while it runs is not forgotten.
        alarm.forget();
        match tick().await {
            Ok(Ticked { more: true, .. }) => {
                patience = Patience(Patience::FIRST);
                last_due = None;
            }
            Ok(Ticked { next_due, .. }) => {
                let stuck = next_due.filter(|due| *due <= clock.now() && last_due == next_due);
                last_due = next_due;
                if let Some(due) = stuck {
                    tracing::warn!(%due, "what was due has not been done; trying again");
                    sleep(patience.next()).await;
                    continue;
                }
                patience = Patience(Patience::FIRST);
                alarm.set(next_due);
                rest(clock, alarm).await;
            }
            Err(error) => {
                tracing::warn!(%error, "what is due could not be done; trying again");
                sleep(patience.next()).await;
            }
        }
    }
}

/// Sleeps until the earliest moment anyone has noted.
async fn rest(clock: &dyn Timekeeper, alarm: &Alarm) {
    loop {
        match alarm.earliest() {
            Some(due) if due <= clock.now() => return,
            Some(due) => tokio::select! {
                () = clock.until(due) => return,
                () = alarm.rung() => {}
            },
            None => alarm.rung().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use everloom_core::{Code, Error};
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;
    use crate::sync::lock;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn due(next: Option<i64>) -> Result<Ticked> {
        Ok(Ticked { next_due: next.map(at), ..Ticked::default() })
    }

    fn more() -> Result<Ticked> {
        Ok(Ticked { more: true, ..Ticked::default() })
    }

    fn failure() -> Result<Ticked> {
        Err(Error::new(Code::Unavailable, "as asked"))
    }

    /// A clock task whose ticks come to what the script says; tells when each one was.
    struct Rig {
        clock: ManualClock,
        alarm: Arc<Alarm>,
        ticks: mpsc::UnboundedReceiver<(i64, Duration)>,
    }

    impl Rig {
        fn new(script: Vec<Result<Ticked>>) -> Self {
            let clock = ManualClock::new(at(0));
            let alarm = Arc::new(Alarm::default());
            let (tell, ticks) = mpsc::unbounded_channel();
            let script = Arc::new(Mutex::new(script.into_iter()));
            let began = Instant::now();
            let (task_clock, task_alarm) = (clock.clone(), Arc::clone(&alarm));
            tokio::spawn(async move {
                let tick = || {
                    let _ = tell.send((task_clock.now().as_millis(), began.elapsed()));
                    let came_to = lock(&script).next().unwrap_or_else(|| due(None));
                    async { came_to }
                };
                run(&task_clock, &task_alarm, tick).await;
            });
            Self { clock, alarm, ticks }
        }

        async fn tick(&mut self) -> i64 {
            self.ticks.recv().await.unwrap().0
        }

        /// Lets the task do everything it can do now.
        async fn settle(&self) {
            for _ in 0..10 {
                yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn it_sleeps_until_something_is_due() {
        let mut rig = Rig::new(vec![due(Some(100)), due(Some(250))]);
        assert_eq!(rig.tick().await, 0);
        for now in [50, 99, 100, 180, 250] {
            rig.settle().await;
            rig.clock.set(at(now));
        }
        assert_eq!(rig.tick().await, 100);
        assert_eq!(rig.tick().await, 250);
    }

    #[tokio::test]
    async fn an_earlier_moment_wakes_it_and_a_later_one_does_not() {
        let mut rig = Rig::new(vec![due(Some(100)), due(None)]);
        assert_eq!(rig.tick().await, 0);
        rig.settle().await;
        rig.alarm.note(at(200));
        rig.alarm.note(at(60));
        rig.settle().await;
        rig.clock.set(at(59));
        rig.settle().await;
        rig.clock.set(at(60));
        assert_eq!(rig.tick().await, 60);
        rig.settle().await;
        rig.alarm.note(at(70));
        rig.settle().await;
        rig.clock.advance(Duration::from_millis(10));
        assert_eq!(rig.tick().await, 70);
    }

    #[tokio::test]
    async fn a_moment_noted_during_a_tick_is_not_forgotten() {
        let clock = ManualClock::new(at(0));
        let alarm = Alarm::default();
        let ticks = Mutex::new(Vec::new());
        let tick = || {
            lock(&ticks).push(clock.now().as_millis());
            if clock.now() < at(40) {
                alarm.note(at(40));
            }
            async { due(Some(100)) }
        };
        tokio::select! {
            biased;
            () = run(&clock, &alarm, tick) => {}
            () = async {
                while lock(&ticks).is_empty() {
                    yield_now().await;
                }
                clock.set(at(40));
                while lock(&ticks).len() < 2 {
                    yield_now().await;
                }
            } => {}
        }
        assert_eq!(*lock(&ticks), [0, 40]);
    }

    #[tokio::test]
    async fn it_goes_on_at_once_while_there_is_more() {
        let mut rig = Rig::new(vec![more(), more(), more(), due(Some(100))]);
        for _ in 0..4 {
            assert_eq!(rig.tick().await, 0);
        }
        rig.settle().await;
        assert!(rig.ticks.is_empty());
    }

    #[tokio::test]
    async fn a_change_nobody_knows_makes_it_look() {
        let mut rig = Rig::new(vec![due(Some(100))]);
        assert_eq!(rig.tick().await, 0);
        rig.settle().await;
        rig.alarm.ring_now();
        assert_eq!(rig.tick().await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn it_never_gives_up_and_tries_less_and_less_often() {
        let mut script: Vec<_> = (0..9).map(|_| failure()).collect();
        script.extend([more(), failure()]);
        let mut rig = Rig::new(script);
        let mut waits = Vec::new();
        let mut before = Duration::ZERO;
        for _ in 0..12 {
            let (_, at) = rig.ticks.recv().await.unwrap();
            waits.push((at - before).as_millis());
            before = at;
        }
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_due_and_never_done_does_not_keep_it_busy() {
        let mut rig = Rig::new((0..5).map(|_| due(Some(-1))).collect());
        let mut waits = Vec::new();
        for _ in 0..5 {
            waits.push(rig.ticks.recv().await.unwrap().1.as_millis());
        }
        assert_eq!(waits, [0, 0, 100, 300, 700]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_the_machine_can_be_waited_for() {
        let clock = SystemClock;
        clock.until(clock.now()).await;
        assert!(clock.now() > at(1_700_000_000_000));
    }
}
