//! What is around the machine.

use super::*;

/// What at least a twentieth of all runs has to reach.
pub(super) const REACHED: [&str; 16] = [
    "attached",
    "attached again",
    "attached in passing",
    "clearing",
    "cut off",
    "cut off while a device was made",
    "daemon killed",
    "daemon stopped",
    "detached",
    "detached while the coordinator was away",
    "evicted",
    "given up",
    "not made",
    "shown late",
    "shown otherwise",
    "told later",
];

const DEVICE: Shown = Shown { device: true, nbd: None, nvme: None, mount: None };

/// A primary as the engine has it.
#[derive(Debug)]
struct Primary {
    id: Incarnation,
    serves: bool,
    ends: bool,
}

/// What the engine tells, in this order.
#[derive(Debug)]
enum Reported {
    Serves(Incarnation),
    Ended(Incarnation, EndReason),
}

/// What a client or a task of the daemon wants.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Aim {
    Attach(Shown),
    Adopt,
    Detach,
    /// Something that leaves the attachment alone.
    Other,
    Retry,
    Report,
    Clear,
    Save,
}

/// What a task does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Begin,
    Wait,
    Look,
    Serving(Incarnation),
    Show(Incarnation),
    /// A device is being made: it goes on without who asked.
    Device(Incarnation),
    Establish(Incarnation),
    Withdraw(Incarnation),
    TakeDevice(Incarnation),
    Unexport(Incarnation),
    End,
    Ended,
    Save(bool),
    News(bool),
    Done(bool),
}

#[derive(Debug)]
struct Task {
    aim: Aim,
    next: Next,
    turn: Option<TurnId>,
    /// How it is to be shown.
    how: Shown,
    /// Steps for which it stands still.
    stands: u32,
    /// Whoever asked has gone; only what cannot be stopped goes on.
    is_orphan: bool,
    /// In the order in which turns were asked for.
    asked: u64,
}

impl Task {
    /// It makes a device, or takes one away: that cannot be stopped.
    fn makes_device(&self) -> bool {
        matches!(self.next, Next::Device(_) | Next::TakeDevice(_))
    }
}

/// What the last answer promised of the volume, if nothing has contradicted it since.
type Promise = Option<Option<Shown>>;

#[derive(Debug)]
pub(super) struct World {
    random: Random,
    machine: Lifecycle,
    tasks: Vec<Task>,
    granted: Vec<TurnId>,
    engine: Option<Primary>,
    orders: VecDeque<(Incarnation, bool)>,
    reported: VecDeque<Reported>,
    /// For which primary there is a device, and an export.
    device: Option<Incarnation>,
    nbd: Option<Incarnation>,
    is_away: bool,
    in_view: Option<Incarnation>,
    wanted_here: Option<Shown>,
    file: Kept,
    is_stopping: bool,
    promise: Promise,
    last_asked: u64,
    next_primary: u64,
    is_quiet: bool,
    pub(super) reached: BTreeMap<&'static str, u32>,
}

impl World {
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            machine: Lifecycle::new(VOLUME),
            tasks: Vec::new(),
            granted: Vec::new(),
            engine: None,
            orders: VecDeque::new(),
            reported: VecDeque::new(),
            device: None,
            nbd: None,
            is_away: false,
            in_view: None,
            wanted_here: None,
            file: Kept::default(),
            is_stopping: false,
            promise: Some(None),
            last_asked: 0,
            next_primary: 0,
            is_quiet: false,
            reached: BTreeMap::new(),
        }
    }

    fn reach(&mut self, what: &'static str) {
        *self.reached.entry(what).or_default() += 1;
    }

    // Faults, and new clients.

    pub(super) fn disturb(&mut self) {
        match self.random.below(40) {
            0..4 if self.tasks.len() < 6 => self.begin_client(),
            4 | 5 => self.cut_off(),
            6 => self.is_away = !self.is_away,
            7 if self.random.once_in(3) => self.lose_primary(),
            8 if self.random.once_in(6) => self.kill(),
            9 if self.random.once_in(6) => self.stop(),
            10 => {
                let (index, steps) = (self.random.below(self.tasks.len()), self.random.below(60));
                if let Some(task) = self.tasks.get_mut(index) {
                    task.stands = steps as u32;
                }
            }
            11 if self.tasks.iter().any(Task::makes_device) => self.cut_off(),
            _ => {}
        }
    }

    fn begin_client(&mut self) {
        let aim = match self.random.below(8) {
            0 => Aim::Attach(BY_NBD),
            1 | 2 => Aim::Attach(DEVICE),
            3 => Aim::Attach(NOT_SHOWN),
            4..6 => Aim::Detach,
            6 => Aim::Adopt,
            _ => Aim::Other,
        };
        self.promise = None;
        self.begin(aim);
    }

    fn begin(&mut self, aim: Aim) {
        let how = if let Aim::Attach(how) = &aim { how.clone() } else { NOT_SHOWN };
        let (next, asked) = (Next::Begin, u64::MAX);
        let task = Task { aim, next, turn: None, how, stands: 0, is_orphan: false, asked };
        self.tasks.push(task);
    }

    fn cut_off(&mut self) {
        // What cannot be stopped is rare.
        let device = self.tasks.iter().position(Task::makes_device);
        let any = self.random.below(self.tasks.len());
        let index = device.filter(|_| self.random.once_in(2)).unwrap_or(any);
        let Some(task) = self.tasks.get_mut(index) else { return };
        // The daemon's own tasks end with it.
        if matches!(task.aim, Aim::Save | Aim::Retry | Aim::Report | Aim::Clear) {
            return;
        }
        task.is_orphan = true;
        let goes_on = task.makes_device();
        let turn = task.turn;
        self.reach("cut off");
        if goes_on {
            return self.reach("cut off while a device was made");
        }
        self.tasks.remove(index);
        self.let_go(turn);
    }

    fn lose_primary(&mut self) {
        if self.engine.as_ref().is_some_and(|primary| primary.serves) {
            let reasons = [EndReason::Evicted, EndReason::Evicted, EndReason::Fenced];
            let reason = reasons[self.random.below(3)];
            if reason != EndReason::Evicted {
                self.promise = None;
            }
            self.in_view = None;
            self.end_primary(reason);
            self.reach("evicted");
        }
    }

    fn kill(&mut self) {
        self.reach("daemon killed");
        self.start_anew();
    }

    /// As at SIGTERM: what is attached is detached, for the next daemon.
    fn stop(&mut self) {
        self.reach("daemon stopped");
        self.machine.close();
        self.is_stopping = true;
        self.begin(Aim::Detach);
        for _ in 0..self.random.below(60) {
            self.go_on();
        }
        self.start_anew();
    }

    fn start_anew(&mut self) {
        self.machine = Lifecycle::new(VOLUME);
        self.is_stopping = false;
        self.tasks.clear();
        self.granted.clear();
        self.orders.clear();
        self.reported.clear();
        self.engine = None;
        (self.device, self.nbd) = (None, None);
        if self.file.unreported {
            self.machine.unwant();
        }
        if let Some(how) = self.file.remembered.clone() {
            self.machine.note_earlier(Incarnation(how.incarnation));
            self.machine.await_again(how, "restarted");
        }
        let is_known = self.machine.awaited().is_some() || self.machine.is_unreported();
        if let Some(shown) = self.wanted_here.clone().filter(|_| !is_known) {
            self.machine.await_again(wanted(0, shown), "restarted");
        }
        self.advance();
    }

    // Steps.

    /// Something that is under way goes a step further.
    pub(super) fn go_on(&mut self) {
        match self.random.below(5) {
            0 => self.engine_step(),
            1 => self.report_step(),
            _ => {
                let index = self.random.below(self.tasks.len());
                if index < self.tasks.len() {
                    self.task_step(index);
                }
            }
        }
    }

    fn advance(&mut self) {
        for output in self.machine.advance() {
            match output {
                Output::Granted(turn) => {
                    let asked =
                        |turn| self.tasks.iter().find(|t| t.turn == Some(turn)).map(|t| t.asked);
                    let mine = asked(turn);
                    let waiting = self.tasks.iter().filter(|task| task.next == Next::Wait);
                    let first = waiting.map(|task| task.asked).min();
                    assert_eq!(mine, first, "not in the order in which they asked");
                    self.granted.push(turn);
                }
                Output::End => {
                    if let Some(primary) = &mut self.engine {
                        primary.ends = true;
                    }
                }
                Output::Clear(turn) => {
                    self.reach("clearing");
                    self.begin(Aim::Clear);
                    let task = self.tasks.last_mut().unwrap();
                    (task.turn, task.next) = (Some(turn), Next::Ended);
                }
                Output::Retry => self.begin(Aim::Retry),
                Output::Report => self.begin(Aim::Report),
                Output::Save => self.begin(Aim::Save),
            }
        }
        let holders =
            self.tasks.iter().filter(|task| task.turn.is_some() && task.next != Next::Wait);
        assert!(holders.count() <= 1, "two have the turn");
    }

    fn let_go(&mut self, turn: Option<TurnId>) {
        if let Some(turn) = turn {
            self.granted.retain(|granted| *granted != turn);
            self.machine.let_go(turn);
            self.advance();
        }
    }

    /// The engine makes a primary, or the one that it has goes on.
    fn engine_step(&mut self) {
        if let Some((id, is_made)) = self.orders.pop_front() {
            if is_made {
                // It was ordered when the other one was over.
                assert!(self.engine.is_none(), "two primaries");
                self.engine = Some(Primary { id, serves: false, ends: false });
            } else {
                self.reach("not made");
            }
            self.machine.made(id, is_made);
            return self.advance();
        }
        let may_fail = !self.is_quiet && self.random.once_in(12);
        let Some(primary) = &mut self.engine else { return };
        let id = primary.id;
        if primary.ends {
            if may_fail || self.is_away {
                return self.end_primary(EndReason::DetachedUnclean);
            }
            self.swap(None);
            return self.end_primary(EndReason::Detached);
        }
        if !primary.serves && !self.is_away {
            if may_fail {
                return self.end_primary(EndReason::NoData);
            }
            primary.serves = true;
            self.swap(Some(id));
            self.reported.push_back(Reported::Serves(id));
        }
    }

    /// The coordinator commits a view.
    fn swap(&mut self, primary: Option<Incarnation>) {
        match (self.machine.wish(primary.is_some()), primary.is_some()) {
            (Wish::Here(shown), true) => self.wanted_here = Some(shown),
            (Wish::NoMore, false) if self.in_view.is_some() => self.wanted_here = None,
            _ => {}
        }
        self.in_view = primary;
    }

    fn end_primary(&mut self, reason: EndReason) {
        if let Some(primary) = self.engine.take() {
            self.reported.push_back(Reported::Ended(primary.id, reason));
        }
    }

    fn report_step(&mut self) {
        match self.reported.pop_front() {
            Some(Reported::Serves(id)) => self.machine.serves(id, None),
            Some(Reported::Ended(id, reason)) => {
                let _ = self.machine.ended(id, reason, "it has ended");
            }
            None => return,
        }
        self.advance();
    }

    fn task_step(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        if task.stands > 0 {
            task.stands -= 1;
            return;
        }
        let (aim, next, turn, how) = (task.aim.clone(), task.next, task.turn, task.how.clone());
        let next = self.after(index, aim, next, turn, how);
        self.advance();
        let Some(next) = next else {
            let task = self.tasks.remove(index);
            return self.let_go(task.turn);
        };
        let task = &mut self.tasks[index];
        let was_device = task.makes_device();
        task.next = next;
        if task.is_orphan && was_device {
            let task = self.tasks.remove(index);
            self.let_go(task.turn);
        }
    }

    /// What follows. `None`: it is done.
    fn after(
        &mut self,
        index: usize,
        aim: Aim,
        next: Next,
        turn: Option<TurnId>,
        how: Shown,
    ) -> Option<Next> {
        match next {
            Next::Begin => self.begin_task(index, aim),
            Next::Wait => {
                let is_granted = turn.is_some_and(|turn| self.granted.contains(&turn));
                Some(if is_granted { Next::Look } else { Next::Wait })
            }
            Next::Look => self.look(index, aim),
            Next::Serving(id) => Some(match self.phase_of(id) {
                Some(Phase::Serving) if aim == Aim::Adopt => Next::End,
                Some(Phase::Serving) => Next::Show(id),
                Some(Phase::Closed(_)) => self.dismantle(),
                _ if !self.is_quiet && self.random.once_in(40) => Next::Done(false),
                _ => next,
            }),
            Next::Show(id) => Some(self.show(id, aim, how)),
            Next::Device(id) => {
                let fails = match aim {
                    Aim::Retry => !self.random.once_in(3),
                    _ => self.random.once_in(8),
                };
                if !fails && self.engine.as_ref().is_some_and(|p| p.id == id) {
                    self.device = Some(id);
                    let device = Device { path: "/d".into(), kind: "k".into() };
                    self.machine.device(id, device, AskedBy::Before);
                    return Some(Next::Establish(id));
                }
                let is_established = self.phase_of(id) == Some(Phase::Attached);
                Some(match aim {
                    Aim::Retry => Next::Establish(id),
                    _ if is_established => Next::Done(false),
                    _ => Next::End,
                })
            }
            Next::Establish(id) => Some(match self.establish(id, aim, how) {
                true => Next::Save(true),
                false => self.dismantle(),
            }),
            Next::Withdraw(id) => Some(match self.device == Some(id) {
                true if !self.is_quiet && self.random.once_in(6) => Next::Done(false),
                true => Next::TakeDevice(id),
                false => {
                    self.machine.withdraw(id);
                    Next::Unexport(id)
                }
            }),
            Next::TakeDevice(id) => {
                self.device = None;
                self.machine.withdraw(id);
                Some(Next::Unexport(id))
            }
            Next::Unexport(id) => {
                self.nbd = None;
                self.machine.export(id, None);
                Some(Next::End)
            }
            Next::End => {
                self.machine.end();
                Some(Next::Ended)
            }
            Next::Ended => Some(match self.machine.seen().map(|seen| seen.phase()) {
                Some(Phase::Closed(Over::Ended(reason))) => {
                    let is_done = aim == Aim::Detach && reason == EndReason::Detached;
                    self.dismantle();
                    Next::Save(is_done)
                }
                Some(Phase::Closed(Over::NotMade)) => {
                    self.dismantle();
                    Next::Save(false)
                }
                _ if !self.is_quiet && self.random.once_in(40) => Next::Done(false),
                _ => next,
            }),
            Next::Save(is_done) => {
                self.file = self.machine.take_kept();
                Some(Next::News(is_done))
            }
            Next::News(is_done) => {
                self.report_coordinator();
                Some(Next::Done(is_done))
            }
            Next::Done(is_done) => self.done(index, aim, is_done),
        }
    }

    fn begin_task(&mut self, index: usize, aim: Aim) -> Option<Next> {
        let goes_on = match aim {
            Aim::Save => {
                self.file = self.machine.take_kept();
                false
            }
            Aim::Retry => self.machine.next_try(),
            Aim::Report => self.machine.next_reporting(),
            _ => true,
        };
        if !goes_on {
            return None;
        }
        let turn = self.machine.ask();
        self.last_asked += 1;
        let task = &mut self.tasks[index];
        (task.turn, task.asked, task.next) = (Some(turn), self.last_asked, Next::Wait);
        Some(Next::Wait)
    }

    /// It has the turn.
    fn look(&mut self, index: usize, aim: Aim) -> Option<Next> {
        let phase = self.machine.seen().map(|seen| seen.phase());
        match aim {
            Aim::Other | Aim::Clear | Aim::Save => return Some(Next::Done(true)),
            Aim::Report => {
                if self.report_coordinator() {
                    self.reach("told later");
                }
                return Some(Next::Done(true));
            }
            Aim::Detach if phase.is_none() => {
                if self.is_stopping || self.machine.awaited().is_none() {
                    return Some(Next::Done(true));
                }
                self.machine.unwant();
                self.reach("given up");
                return Some(Next::Save(true));
            }
            Aim::Detach => {
                let id = self.present();
                return Some(Next::Withdraw(id));
            }
            Aim::Retry => {
                if let Some(unshown) = self.machine.unshown() {
                    self.reach("shown late");
                    self.tasks[index].how = unshown.missing;
                    return Some(Next::Show(self.present()));
                }
                let Some(awaited) = self.machine.awaited() else { return Some(Next::Done(true)) };
                let how = awaited.how.shown();
                if !self.is_quiet && self.random.once_in(20) {
                    // Somebody else has it.
                    self.machine.unwant();
                    self.promise = None;
                    return Some(Next::Save(true));
                }
                self.tasks[index].how = how;
            }
            Aim::Attach(_) | Aim::Adopt => {}
        }
        match phase {
            None => Some(self.open(index, aim)),
            Some(Phase::Closed(_)) => {
                self.dismantle();
                Some(Next::Look)
            }
            Some(Phase::Attached) if aim == Aim::Adopt => Some(Next::Done(false)),
            Some(Phase::Attached) => {
                assert_ne!(aim, Aim::Retry, "it is attached");
                let id = self.present();
                Some(Next::Show(id))
            }
            Some(Phase::Detaching | Phase::Unwanted) if self.random.once_in(30) => {
                Some(Next::Done(false))
            }
            Some(Phase::Detaching | Phase::Unwanted) => Some(Next::Look),
            Some(other) => panic!("half done: {other:?}"),
        }
    }

    fn open(&mut self, index: usize, aim: Aim) -> Next {
        let how = self.tasks[index].how.clone();
        self.next_primary += 1;
        let id = Incarnation(self.next_primary);
        let purpose = if aim == Aim::Adopt { Purpose::Passing } else { Purpose::Use(how) };
        if let Err(refused) = self.machine.open(id, "web", purpose) {
            assert_eq!((refused, self.is_stopping), (NotOpened::Closing, true));
            return Next::Done(false);
        }
        let is_made = self.is_quiet || !self.random.once_in(12);
        self.orders.push_back((id, is_made));
        Next::Serving(id)
    }

    fn show(&mut self, id: Incarnation, aim: Aim, how: Shown) -> Next {
        let has_device = self.machine.seen().is_some_and(|seen| seen.device().is_some());
        let fails = aim == Aim::Retry && !self.random.once_in(3);
        if how.nbd.is_some() && !fails {
            self.nbd = Some(id);
            self.machine.export(id, how.nbd);
        }
        match how.device && !has_device {
            true => Next::Device(id),
            false => Next::Establish(id),
        }
    }

    /// Who attaches it again keeps to how it was shown, whatever could be made of that by now.
    fn establish(&mut self, id: Incarnation, aim: Aim, how: Shown) -> bool {
        let shown = self.machine.seen().map(Seen::shown).unwrap_or_default();
        match aim {
            Aim::Retry if shown != how => {
                self.machine.establish_unshown(id, "it could not be made")
            }
            _ => self.machine.establish(id),
        }
    }

    fn dismantle(&mut self) -> Next {
        (self.device, self.nbd) = (None, None);
        self.machine.cleared();
        Next::Save(false)
    }

    /// As whoever changes the volume does, before it answers. Returns true if there was something
    /// to tell.
    fn report_coordinator(&mut self) -> bool {
        if !self.machine.is_unreported() || self.is_away {
            return false;
        }
        if let Some(shown) = self.machine.news() {
            self.wanted_here = shown;
        }
        self.machine.reported();
        self.file = self.machine.take_kept();
        true
    }

    /// It answers, and lets go of its turn.
    fn done(&mut self, index: usize, aim: Aim, is_done: bool) -> Option<Next> {
        let alone = self.tasks.iter().all(|task| {
            !matches!(task.aim, Aim::Attach(_) | Aim::Detach | Aim::Adopt) || task.aim == aim
        });
        let alone = alone && self.tasks.iter().filter(|task| task.aim == aim).count() == 1;
        // Another node has taken it, and this one has not heard that yet.
        let is_lost = |reported: &Reported| matches!(reported, Reported::Ended(_, reason) if *reason == EndReason::Fenced);
        let alone = alone && !self.reported.iter().any(is_lost);
        let shown =
            self.machine.seen().filter(|seen| seen.phase() == Phase::Attached).map(Seen::shown);
        match aim {
            Aim::Attach(ref asked) if is_done => {
                self.reach("attached");
                if shown.as_ref().is_some_and(|shown| shown != asked) {
                    self.reach("shown otherwise");
                }
                // What it lacked before, it is shown by later.
                let meant =
                    self.machine.attachment.as_ref().and_then(|it| it.established().cloned());
                self.promise = shown.and(meant).filter(|_| alone).map(Some);
            }
            Aim::Retry if is_done && shown.is_some() => self.reach("attached again"),
            Aim::Adopt => self.reach("attached in passing"),
            Aim::Detach if is_done && !self.is_stopping => {
                self.reach(if self.is_away {
                    "detached while the coordinator was away"
                } else {
                    "detached"
                });
                self.promise = alone.then_some(None);
            }
            _ => {}
        }
        if matches!(aim, Aim::Retry | Aim::Report) {
            // Again, until the machine says that it is over.
            let task = &mut self.tasks[index];
            let turn = task.turn.take();
            self.let_go(turn);
            return Some(Next::Begin);
        }
        None
    }

    fn present(&self) -> Incarnation {
        self.machine.attachment.as_ref().unwrap().primary()
    }

    fn phase_of(&self, id: Incarnation) -> Option<Phase> {
        let attachment = self.machine.attachment.as_ref()?;
        (attachment.primary() == id).then_some(attachment.phase())
    }

    // The end.

    /// Without further faults all that was begun comes to its end.
    pub(super) fn come_to_rest(&mut self) {
        (self.is_quiet, self.is_away) = (true, false);
        for _ in 0..100_000 {
            let is_still =
                self.tasks.is_empty() && self.reported.is_empty() && self.orders.is_empty();
            let goes_on = self.engine.as_ref().is_some_and(|it| it.ends || !it.serves);
            if is_still && !goes_on {
                return;
            }
            self.go_on();
        }
        panic!("it does not come to rest: {self:#?}");
    }

    /// What holds once nothing is under way.
    pub(super) fn judge(&mut self) {
        let seen = self.machine.seen().cloned();
        let phase = seen.as_ref().map(|seen| seen.phase());
        let shown = seen.as_ref().map(Seen::shown);
        assert!(matches!(phase, None | Some(Phase::Attached)), "half done: {self:#?}");
        assert_eq!(self.machine.unshown(), None, "not shown as it is meant to be: {self:#?}");
        let runs = self.engine.as_ref().map(|primary| primary.id);
        let listed = self.machine.attachment.as_ref().map(Attachment::primary);
        assert_eq!(listed, runs, "what is listed is what runs: {self:#?}");
        let device = shown.as_ref().is_some_and(|shown| shown.device);
        let nbd = shown.as_ref().is_some_and(|shown| shown.nbd.is_some());
        assert_eq!((self.device.is_some(), self.nbd.is_some()), (device, nbd), "{self:#?}");
        assert_eq!(self.wanted_here, shown, "the coordinator knows otherwise: {self:#?}");
        assert_eq!(self.file.remembered.as_ref().map(Wanted::shown), shown, "{self:#?}");
        assert!(!self.file.unreported, "{self:#?}");
        assert_eq!(
            self.machine.is_idle(),
            phase.is_none() && self.machine.earlier() == Earlier::MayLive
        );
        if let Some(promise) = self.promise.clone() {
            assert_eq!(shown, promise, "what was answered does not hold: {self:#?}");
        }
    }
}
