//! The machine, input by input; [`simulated`] is the whole of it at random.

use std::path::Path;

use super::*;
use crate::coordinator::{ForMount, Made};

mod simulated;

const VOLUME: VolumeId = VolumeId(7);
const ONE: Incarnation = Incarnation(1);
const NBD: WantedNbd = WantedNbd { tcp: false, read_only: false, clients: Vec::new() };
const BY_NBD: Shown = Shown { device: false, nbd: Some(NBD), nvme: None, mount: None };
const NOT_SHOWN: Shown = Shown { device: false, nbd: None, nvme: None, mount: None };

fn wanted(incarnation: u64, shown: Shown) -> Wanted {
    Wanted::new(VOLUME.to_string(), "web".into(), incarnation, shown)
}

fn phase(machine: &Lifecycle) -> Option<Phase> {
    machine.seen().map(Seen::phase)
}

/// A machine, and a turn that somebody has.
fn begun() -> (Lifecycle, TurnId) {
    let mut machine = Lifecycle::new(VOLUME);
    let turn = machine.ask();
    assert_eq!(machine.advance(), [Output::Granted(turn)]);
    (machine, turn)
}

/// The same, with a primary that serves, to be shown by NBD.
fn serving() -> (Lifecycle, TurnId) {
    let (mut machine, turn) = begun();
    machine.open(ONE, "web", Purpose::Use(BY_NBD)).unwrap();
    machine.made(ONE, true);
    let last = PrimaryId { node: evenkeel_core::NodeId(3), incarnation: Incarnation(0) };
    machine.serves(ONE, Some(last));
    let seen = machine.seen().unwrap();
    assert_eq!((seen.phase(), seen.follows()), (Phase::Serving, Some(last)));
    (machine, turn)
}

/// One that is attached, with its turn let go of.
fn attached() -> Lifecycle {
    let (mut machine, turn) = serving();
    machine.export(ONE, Some(NBD));
    assert!(machine.establish(ONE));
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Save]);
    machine.take_kept();
    machine
}

/// Whoever has the turn next.
fn granted(machine: &mut Lifecycle) -> TurnId {
    let turn = machine.ask();
    assert_eq!(machine.advance(), [Output::Granted(turn)]);
    turn
}

#[test]
fn turns_come_in_the_order_in_which_they_were_asked_for() {
    let (mut machine, first) = begun();
    let (second, third, fourth) = (machine.ask(), machine.ask(), machine.ask());
    assert_eq!(machine.advance(), []);
    machine.let_go(third);
    assert_eq!(machine.advance(), [], "it waited only");
    machine.let_go(first);
    assert_eq!(machine.advance(), [Output::Granted(second)]);
    assert!(!machine.is_idle());
    machine.let_go(first);
    assert_eq!(machine.advance(), [], "it was let go of before");
    machine.let_go(second);
    assert_eq!(machine.advance(), [Output::Granted(fourth)]);
    machine.let_go(fourth);
    assert_eq!(machine.advance(), []);
    assert!(machine.is_idle());
}

#[test]
fn what_is_attached_is_remembered_and_detached_in_order() {
    let mut machine = attached();
    assert_eq!(machine.take_kept().remembered, Some(wanted(1, BY_NBD)));
    assert!(!machine.is_idle());
    assert_eq!(machine.earlier(), Earlier::OneEnded(ONE));
    let turn = granted(&mut machine);
    machine.withdraw(ONE);
    assert_eq!(phase(&machine), Some(Phase::Withdrawing));
    machine.export(ONE, None);
    assert_eq!(machine.take_kept().remembered, Some(wanted(1, BY_NBD)), "it may be cut off here");
    machine.end();
    assert_eq!(machine.advance(), [Output::End]);
    assert_eq!(machine.wish(false), Wish::NoMore);
    assert!(!machine.ended(ONE, EndReason::Detached, "why"));
    assert_eq!(machine.advance(), [], "whoever has the turn sees to the rest");
    machine.cleared();
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Save], "its last view has told the coordinator");
    assert_eq!(machine.take_kept(), Kept::default());
    assert!(machine.is_idle());
}

#[test]
fn what_is_let_go_of_before_it_is_attached_ends() {
    for cut in ["making", "opening", "serving"] {
        let (mut machine, turn) = begun();
        machine.open(ONE, "web", Purpose::Use(BY_NBD)).unwrap();
        if cut != "making" {
            machine.made(ONE, true);
        }
        if cut == "serving" {
            machine.serves(ONE, None);
        }
        machine.let_go(turn);
        let mut outputs = machine.advance();
        machine.made(ONE, true);
        outputs.extend(machine.advance());
        assert_eq!(phase(&machine), Some(Phase::Detaching), "{cut}");
        assert!(outputs.contains(&Output::End) && outputs.contains(&Output::Report), "{cut}");
        assert_eq!(outputs.iter().filter(|output| **output == Output::End).count(), 1, "{cut}");
        assert_eq!(machine.take_kept(), Kept { remembered: None, unreported: true });
    }
}

#[test]
fn a_primary_that_was_never_made_is_not_waited_for() {
    let (mut machine, turn) = begun();
    machine.open(ONE, "web", Purpose::Use(BY_NBD)).unwrap();
    machine.made(Incarnation(2), false);
    assert_eq!(phase(&machine), Some(Phase::Making), "another one's");
    machine.made(ONE, false);
    assert_eq!(phase(&machine), Some(Phase::Closed(Over::NotMade)));
    machine.cleared();
    machine.open(ONE, "web", Purpose::Passing).unwrap();
    machine.let_go(turn);
    assert_eq!(phase(&machine), Some(Phase::Unwanted));
    assert_eq!(machine.advance(), [], "nobody has heard of it");
    machine.made(ONE, false);
    assert!(matches!(machine.advance()[..], [Output::Clear(_)]));
}

#[test]
fn a_primary_may_serve_or_end_before_it_is_said_to_be_made() {
    let (mut machine, turn) = begun();
    machine.open(ONE, "web", Purpose::Use(BY_NBD)).unwrap();
    machine.serves(ONE, None);
    machine.made(ONE, true);
    assert_eq!(phase(&machine), Some(Phase::Serving));
    machine.ended(ONE, EndReason::NoData, "why");
    machine.cleared();
    machine.open(Incarnation(2), "web", Purpose::Use(BY_NBD)).unwrap();
    machine.let_go(turn);
    machine.advance();
    machine.serves(Incarnation(2), None);
    assert_eq!(machine.advance(), [Output::End], "it is not wanted any more");
    machine.made(Incarnation(2), true);
    assert_eq!(machine.advance(), [], "it was told so");
}

#[test]
fn a_detach_that_is_cut_off_goes_on() {
    let mut machine = attached();
    let turn = granted(&mut machine);
    machine.withdraw(ONE);
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::End, Output::Report]);
    assert_eq!(machine.news(), Some(None), "nobody waits until its last view says it");
    machine.ended(ONE, EndReason::DetachedUnclean, "why");
    let outputs = machine.advance();
    let [Output::Clear(clears)] = outputs[..] else { panic!("{outputs:?}") };
    let waits = machine.ask();
    assert_eq!(machine.advance(), []);
    machine.cleared();
    assert_eq!(machine.advance(), []);
    machine.let_go(clears);
    assert_eq!(machine.advance(), [Output::Granted(waits)]);
    assert_eq!(phase(&machine), None);
}

#[test]
fn who_waits_for_an_end_may_ask_for_it_again() {
    let mut machine = attached();
    let turn = granted(&mut machine);
    machine.end();
    assert_eq!(machine.advance(), [Output::End]);
    machine.end();
    assert_eq!(machine.advance(), [Output::End]);
    machine.ended(ONE, EndReason::Detached, "why");
    machine.end();
    assert_eq!(machine.advance(), [], "there is none");
    machine.let_go(turn);
    assert!(matches!(machine.advance()[..], [Output::Clear(_)]));
}

#[test]
fn a_clearing_that_is_cut_off_is_not_begun_again() {
    let mut machine = attached();
    machine.ended(ONE, EndReason::LostWrites, "why");
    let outputs = machine.advance();
    let [Output::Clear(turn)] = outputs[..] else { panic!("{outputs:?}") };
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Report, Output::Save]);
    assert_eq!(phase(&machine), None);
}

/// A client that connects anew would go on as if nothing were lost (docs/manual/shared.md): whoever
/// attaches it by hand knows.
#[test]
fn a_volume_that_lost_writes_is_not_attached_again_by_itself() {
    let mut machine = attached();
    assert!(!machine.ended(ONE, EndReason::LostWrites, "its last replica's machine restarted"));
    assert_eq!(machine.awaited(), None);
    let outputs = machine.advance();
    let [Output::Clear(turn)] = outputs[..] else { panic!("{outputs:?}") };
    machine.cleared();
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Report, Output::Save]);
    assert_eq!(machine.news(), Some(None), "nor by the next daemon");
    assert_eq!(machine.take_kept(), Kept { remembered: None, unreported: true });
}

#[test]
fn who_is_evicted_comes_back_and_nobody_else() {
    let mut machine = attached();
    assert!(!machine.ended(Incarnation(9), EndReason::Evicted, "another one's"));
    assert_eq!(phase(&machine), Some(Phase::Attached));
    assert!(machine.ended(ONE, EndReason::Evicted, "nobody heard it"));
    assert!(!machine.ended(ONE, EndReason::Detached, "it has ended"));
    let outputs = machine.advance();
    let [Output::Clear(turn), Output::Retry] = outputs[..] else { panic!("{outputs:?}") };
    machine.cleared();
    machine.note_dead([DeadDevice::now(Path::new("/dev/dead"))].into_iter());
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Save], "how it is kept");
    assert!(machine.next_try());
    let awaited = machine.awaited().unwrap();
    assert_eq!(awaited.why, "nobody heard it");
    assert_eq!(awaited.how.dead, [DeadDevice::now(Path::new("/dev/dead"))]);
    assert_eq!(machine.news(), Some(Some(BY_NBD)));
    assert!(!machine.is_idle());
    assert!(machine.waits_for("its disk") && !machine.waits_for("its disk"));
    // It is attached again.
    let turn = granted(&mut machine);
    machine.open(Incarnation(2), "web", Purpose::Use(BY_NBD)).unwrap();
    assert_eq!(machine.wish(true), Wish::Here(BY_NBD));
    assert_eq!(machine.wish(false), Wish::AsBefore);
    machine.made(Incarnation(2), true);
    machine.serves(Incarnation(2), None);
    machine.export(Incarnation(2), Some(NBD));
    assert!(machine.establish(Incarnation(2)) && machine.establish(Incarnation(2)));
    assert!(!machine.next_try());
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Save]);
    for (end, reports) in [(EndReason::Fenced, true), (EndReason::Detached, false)] {
        let mut machine = attached();
        assert!(!machine.ended(ONE, end, "why"));
        assert_eq!(machine.is_unreported(), reports, "{end:?}");
        assert!(machine.awaited().is_none());
    }
    let (mut machine, _) = serving();
    assert!(!machine.ended(ONE, EndReason::Evicted, "it was not attached yet"));
    assert!(!machine.establish(ONE), "it has ended");
    machine.cleared();
    assert!(!machine.establish(ONE), "it is not there");
}

#[test]
fn who_is_evicted_while_somebody_detaches_it_does_not_come_back() {
    let mut machine = attached();
    let turn = granted(&mut machine);
    assert!(machine.ended(ONE, EndReason::Evicted, "nobody heard it"));
    assert_eq!(machine.advance(), [Output::Retry]);
    machine.withdraw(ONE);
    machine.cleared();
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Report, Output::Save]);
    assert_eq!((machine.next_try(), machine.news()), (false, Some(None)));
    // Nor if what served it was taken away before.
    let mut machine = attached();
    machine.ended(ONE, EndReason::Evicted, "nobody heard it");
    machine.advance();
    machine.cleared();
    machine.withdraw(ONE);
    assert!(machine.awaited().is_none() && machine.is_unreported());
    // The daemon's end is no detach.
    let mut machine = attached();
    machine.ended(ONE, EndReason::Evicted, "nobody heard it");
    machine.close();
    machine.withdraw(ONE);
    assert!(machine.awaited().is_some() && !machine.is_unreported());
}

#[test]
fn what_cannot_be_shown_is_not_remembered() {
    let (mut machine, turn) = begun();
    machine.open(ONE, "web", Purpose::Use(BY_NBD)).unwrap();
    machine.made(ONE, true);
    machine.serves(ONE, None);
    assert_eq!(machine.take_kept(), Kept::default(), "not before it is attached");
    assert_eq!(machine.wish(true), Wish::Here(BY_NBD));
    assert!(machine.establish(ONE), "its export could not be made");
    assert!(machine.is_unreported(), "the view's swap has said otherwise");
    assert_eq!(machine.news(), Some(Some(NOT_SHOWN)));
    assert_eq!(machine.take_kept().remembered, Some(wanted(1, NOT_SHOWN)));
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Report]);
    assert!(machine.next_reporting());
    machine.reported();
    assert!(!machine.next_reporting());
    assert_eq!(machine.wish(true), Wish::Here(NOT_SHOWN));
}

/// One that serves again after a restart, with neither its device nor its export.
fn unshown() -> (Lifecycle, TurnId) {
    const BOTH: Shown = Shown { device: true, nbd: Some(NBD), nvme: None, mount: None };
    let mut machine = Lifecycle::new(VOLUME);
    machine.await_again(wanted(0, BOTH), "restarted");
    assert_eq!(machine.advance(), [Output::Retry, Output::Save]);
    machine.take_kept();
    let turn = granted(&mut machine);
    machine.open(ONE, "web", Purpose::Use(BOTH)).unwrap();
    machine.made(ONE, true);
    machine.serves(ONE, None);
    assert!(machine.establish_unshown(ONE, "the path is taken"));
    assert!(!machine.is_unreported(), "the view's swap has said so");
    assert_eq!(machine.take_kept().remembered, Some(wanted(1, BOTH)), "nothing is forgotten");
    (machine, turn)
}

#[test]
fn what_cannot_be_shown_again_is_tried_until_it_is() {
    let (mut machine, turn) = unshown();
    let why = "the path is taken".to_owned();
    let missing = Shown { device: true, nbd: Some(NBD), nvme: None, mount: None };
    assert_eq!(machine.unshown(), Some(Unshown { missing, why }));
    assert!(machine.next_try() && machine.awaited().is_none());
    assert!(!machine.waits_for("the path is taken") && machine.waits_for("a mount"));
    let device = Device { path: "/dev/it".into(), kind: "loop".into() };
    machine.device(ONE, device, AskedBy::Before);
    assert_eq!(machine.unshown().unwrap().missing, BY_NBD, "it is still to be exported");
    assert_eq!(machine.unshown().unwrap().why, "a mount");
    assert!(machine.next_try());
    machine.export(ONE, Some(NBD));
    assert!(machine.unshown().is_none() && !machine.next_try());
    machine.let_go(turn);
    assert_eq!(machine.advance(), [], "all is as it was saved and told");
}

#[test]
fn what_is_missing_is_given_up_by_whoever_ends_it() {
    let (mut machine, turn) = unshown();
    machine.export(ONE, None);
    assert_eq!(
        machine.unshown().unwrap().missing,
        Shown { device: true, nbd: None, nvme: None, mount: None }
    );
    assert_eq!(
        machine.news(),
        Some(Some(Shown { device: true, nbd: None, nvme: None, mount: None }))
    );
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Report, Output::Save]);
    let turn = granted(&mut machine);
    machine.withdraw(ONE);
    assert!(!machine.next_try(), "it is detached");
    machine.end();
    machine.ended(ONE, EndReason::Detached, "why");
    machine.cleared();
    machine.let_go(turn);
    assert_eq!(machine.take_kept().remembered, None);
    // The daemon's end gives nothing up; nor does an eviction.
    let (mut machine, turn) = unshown();
    machine.let_go(turn);
    assert_eq!(machine.advance(), [], "the task that attached it goes on");
    assert!(machine.ended(ONE, EndReason::Evicted, "nobody heard it"));
    assert_eq!(machine.awaited().unwrap().how.nbd, Some(NBD));
    let (mut machine, _turn) = unshown();
    machine.close();
    assert!(!machine.next_try());
    assert_eq!(machine.take_kept().remembered.unwrap().nbd, Some(NBD));
}

#[test]
fn hosts_of_nvme_are_known_from_the_restart_until_the_detach() {
    let nvme = WantedNvme { hosts: vec!["nqn.a".into()], read_only: true, ..WantedNvme::default() };
    let both = Shown { nvme: Some(nvme.clone()), ..BY_NBD };
    let mut machine = Lifecycle::new(VOLUME);
    assert_eq!(machine.nvme_hosts(), None);
    machine.await_again(wanted(0, both.clone()), "restarted");
    assert_eq!(machine.nvme_hosts(), Some(nvme.hosts.clone()), "it is to come");
    machine.advance();
    let turn = granted(&mut machine);
    machine.open(ONE, "web", Purpose::Use(both.clone())).unwrap();
    machine.made(ONE, true);
    machine.serves(ONE, None);
    machine.export(ONE, Some(NBD));
    assert!(machine.establish_unshown(ONE, "no address"));
    assert_eq!(machine.nvme_hosts(), Some(nvme.hosts.clone()), "it is missing");
    assert_eq!(machine.unshown().unwrap().missing, Shown { nvme: Some(nvme.clone()), ..NOT_SHOWN });
    machine.export_nvme(ONE, Some(nvme.clone()));
    assert_eq!(machine.unshown(), None);
    assert_eq!(machine.take_kept().remembered, Some(wanted(1, both)));
    machine.let_go(turn);
    let mut ends = machine;
    ends.advance();
    let turn = granted(&mut ends);
    ends.export_nvme(ONE, None);
    assert_eq!(ends.nvme_hosts(), None, "it has ended");
    assert_eq!(ends.news(), Some(Some(BY_NBD)));
    ends.export_nvme(ONE, Some(nvme.clone()));
    ends.close();
    ends.export_nvme(ONE, None);
    assert_eq!(ends.nvme_hosts(), Some(nvme.hosts), "the next daemon exports it");
    ends.let_go(turn);
}

#[test]
fn a_change_of_what_is_shown_is_told() {
    let mut machine = attached();
    let turn = granted(&mut machine);
    machine.export(ONE, Some(NBD));
    assert!(!machine.is_unreported(), "as before");
    let device = Device { path: "/dev/it".into(), kind: "loop".into() };
    machine.device(ONE, device, AskedBy::Before);
    assert_eq!(
        machine.news(),
        Some(Some(Shown { device: true, nbd: Some(NBD), nvme: None, mount: None }))
    );
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Report, Output::Save]);
    assert_eq!(machine.advance(), [], "both are begun");
    machine.withdraw(ONE);
    assert_eq!(machine.seen().unwrap().device(), None);
}

#[test]
fn what_is_attached_in_passing_leaves_nothing_behind() {
    let (mut machine, turn) = begun();
    machine.open(ONE, "web", Purpose::Passing).unwrap();
    machine.made(ONE, true);
    machine.serves(ONE, None);
    assert_eq!((machine.wish(true), machine.wish(false)), (Wish::AsBefore, Wish::AsBefore));
    assert!(!machine.establish(ONE));
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::End]);
    machine.ended(ONE, EndReason::DetachedUnclean, "why");
    assert!(!machine.is_unreported());
}

#[test]
fn there_is_one_attachment_at_a_time() {
    let (mut machine, _) = serving();
    let again = machine.open(Incarnation(2), "web", Purpose::Passing);
    assert_eq!(again, Err(NotOpened::Listed));
    machine.cleared();
    assert_eq!(phase(&machine), Some(Phase::Serving), "it is not over");
    machine.await_again(wanted(3, BY_NBD), "why");
    assert!(machine.establish(ONE));
    assert!(machine.awaited().is_none());
    machine.await_again(wanted(3, BY_NBD), "why");
    assert!(machine.awaited().is_none(), "it is attached");
}

#[test]
fn what_is_given_up_is_told_also_by_the_next_daemon() {
    let mut machine = Lifecycle::new(VOLUME);
    machine.note_earlier(ONE);
    machine.await_again(wanted(1, BY_NBD), "restarted");
    assert_eq!(machine.advance(), [Output::Retry, Output::Save]);
    assert_eq!(machine.earlier(), Earlier::OneEnded(ONE));
    let turn = granted(&mut machine);
    assert!(machine.unwant() && !machine.unwant());
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Report, Output::Save]);
    assert_eq!(machine.take_kept(), Kept { remembered: None, unreported: true });
    assert!(!machine.next_try());
    assert!(!machine.is_idle());
}

#[test]
fn what_somebody_does_keeps_it_from_being_forgotten() {
    let mut machine = Lifecycle::new(VOLUME);
    assert!(machine.is_idle());
    machine.unwant();
    assert!(!machine.is_idle(), "the coordinator is to be told");
    machine.advance();
    machine.take_kept();
    machine.reported();
    machine.take_kept();
    assert!(!machine.is_idle(), "somebody tells it");
    assert!(!machine.next_reporting());
    assert!(machine.is_idle());
    machine.await_again(wanted(1, BY_NBD), "restarted");
    machine.advance();
    assert!(machine.unwant());
    machine.reported();
    machine.take_kept();
    assert!(!machine.is_idle(), "somebody tries");
    assert!(!machine.next_try());
    assert!(machine.is_idle());
}

#[test]
fn at_the_daemons_end_the_next_one_is_meant() {
    let mut machine = attached();
    machine.close();
    assert_eq!(machine.wish(false), Wish::AsBefore);
    assert_eq!(machine.news(), None);
    let turn = granted(&mut machine);
    machine.withdraw(ONE);
    machine.end();
    machine.advance();
    assert!(!machine.ended(ONE, EndReason::Evicted, "why"), "not by this one");
    machine.cleared();
    machine.close();
    machine.let_go(turn);
    assert_eq!(machine.advance(), []);
    assert_eq!(machine.take_kept().remembered, Some(wanted(1, BY_NBD)));
    let again = machine.open(Incarnation(2), "web", Purpose::Passing);
    assert_eq!(again, Err(NotOpened::Closing));
    machine.await_again(wanted(3, BY_NBD), "why");
    assert!(!machine.next_try());
    let mut other = Lifecycle::new(VOLUME);
    other.close();
    other.unwant();
    assert_eq!(other.news(), Some(None), "nobody attaches it");
    assert_eq!(other.take_kept(), Kept { remembered: None, unreported: true });
}

fn device() -> Device {
    Device { path: "/dev/it".into(), kind: "loop".into() }
}

fn made(made: Made) -> Option<ForMount> {
    Some(ForMount::new(made, "one".into()))
}

#[test]
fn what_a_mount_has_made_is_remembered_as_long_as_it_is_there() {
    let with = |mount| Shown { device: true, mount, ..BY_NBD };
    let by_mount = || AskedBy::Mount("one".into());
    let mut machine = attached();
    let turn = granted(&mut machine);
    machine.device(ONE, device(), by_mount());
    assert_eq!(machine.meant(), Some(with(made(Made::Device))));
    assert_eq!(machine.take_kept().remembered, Some(wanted(1, with(made(Made::Device)))));
    machine.no_device(ONE);
    assert_eq!(machine.meant(), Some(BY_NBD));
    // Somebody else's is none.
    machine.device(ONE, device(), AskedBy::Command);
    assert_eq!(machine.meant(), Some(with(None)));
    machine.let_go(turn);

    let asked = Shown { device: true, mount: made(Made::Attachment), ..NOT_SHOWN };
    let (mut machine, turn) = begun();
    machine.open(ONE, "web", Purpose::Use(asked.clone())).unwrap();
    machine.made(ONE, true);
    machine.serves(ONE, None);
    machine.device(ONE, device(), by_mount());
    assert!(machine.establish(ONE));
    assert_eq!(machine.meant(), Some(asked.clone()));
    assert!(!machine.is_unreported(), "the view's swap has said so");
    machine.export(ONE, Some(NBD));
    assert_eq!(machine.meant(), Some(Shown { nbd: Some(NBD), ..asked }));
    machine.let_go(turn);
}

/// A device that could not be made again yet, as while an old one is mounted.
#[test]
fn a_mount_does_not_take_what_was_asked_for_without_it() {
    for mount in [None, made(Made::Attachment)] {
        let asked = Shown { device: true, mount, ..NOT_SHOWN };
        let (mut machine, turn) = begun();
        machine.open(ONE, "web", Purpose::Use(asked.clone())).unwrap();
        machine.made(ONE, true);
        machine.serves(ONE, None);
        assert!(machine.establish_unshown(ONE, "the old one is mounted"));
        machine.device(ONE, device(), AskedBy::Mount("two".into()));
        assert_eq!(machine.meant(), Some(asked));
        machine.no_device(ONE);
        machine.device(ONE, device(), AskedBy::Command);
        assert_eq!(machine.meant(), Some(Shown { device: true, ..NOT_SHOWN }));
        machine.let_go(turn);
    }
}

#[test]
fn a_device_that_was_made_for_a_mount_is_not_awaited_after_it() {
    let mut machine = attached();
    let turn = granted(&mut machine);
    machine.device(ONE, device(), AskedBy::Mount("one".into()));
    machine.let_go(turn);
    machine.advance();
    assert!(machine.ended(ONE, EndReason::Evicted, "why"));
    let turn = match machine.advance()[..] {
        [Output::Clear(turn), ..] => turn,
        ref other => panic!("{other:?}"),
    };
    machine.cleared();
    assert_eq!(machine.awaited().unwrap().how.mount, made(Made::Device));
    machine.reported();
    assert!(!machine.next_reporting());
    machine.await_no_device();
    assert_eq!(machine.awaited().unwrap().how.shown(), BY_NBD);
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Report, Output::Save]);
    assert_eq!(machine.news(), Some(Some(BY_NBD)), "it is not to have a device there any more");
}

/// Two mounts at once, of which the second one finds the device that the first one had made.
#[test]
fn what_was_made_for_a_mount_is_for_all_that_have_found_it() {
    let mut machine = attached();
    let turn = granted(&mut machine);
    machine.device(ONE, device(), AskedBy::Mount("one".into()));
    machine.add_mount(ONE, "two".into());
    let is_only_for = |machine: &Lifecycle, token: &str| {
        machine.meant().unwrap().mount.unwrap().is_only_for(token)
    };
    assert!(!is_only_for(&machine, "one") && !is_only_for(&machine, "two"));
    machine.remove_mount("one");
    assert!(is_only_for(&machine, "two"));
    machine.let_go(turn);
    assert_eq!(machine.advance(), [Output::Report, Output::Save]);
    // Nothing becomes a mount's by being found.
    let turn = granted(&mut machine);
    machine.device(ONE, device(), AskedBy::Command);
    machine.add_mount(ONE, "three".into());
    assert_eq!(machine.meant().unwrap().mount, None);
    machine.let_go(turn);
    // Also while it waits to be attached again.
    let mut machine = Lifecycle::new(VOLUME);
    let mut both = ForMount::new(Made::Device, "one".into());
    both.add("two".into());
    machine.await_again(wanted(1, Shown { device: true, mount: Some(both), ..BY_NBD }), "why");
    machine.remove_mount("two");
    assert_eq!(machine.awaited().unwrap().how.mount, made(Made::Device));
}

/// As `attach` of a volume that waited to be attached again, as it was.
#[test]
fn what_a_command_wants_is_no_mounts_any_more() {
    for (device, left) in [(true, None), (false, made(Made::Device))] {
        let asked = Shown { device: true, mount: made(Made::Attachment), ..NOT_SHOWN };
        let (mut machine, turn) = begun();
        machine.open(ONE, "web", Purpose::Use(asked.clone())).unwrap();
        machine.made(ONE, true);
        machine.serves(ONE, None);
        assert!(machine.establish_unshown(ONE, "not yet"));
        machine.advance();
        machine.take_kept();
        machine.claim(ONE, device);
        let meant = Shown { mount: left, ..asked };
        assert_eq!(machine.meant().as_ref(), Some(&meant));
        assert!(machine.is_unreported());
        assert_eq!(machine.take_kept().remembered, Some(wanted(1, meant)));
        machine.let_go(turn);
    }
}
