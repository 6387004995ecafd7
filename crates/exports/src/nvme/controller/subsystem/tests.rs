use std::time::Duration;

use super::*;

const NOW: Instant = Instant(1 << 40);
const DISK: &str = "nqn.disk";

fn subsystem() -> Subsystem {
    let hosts = Hosts::named(["nqn.a".to_owned(), "nqn.b".to_owned()]);
    let identifiers = Identifiers::of_attachment(1);
    Subsystem::new(DISK.to_owned(), Kind::Volume, hosts, Limits::default(), identifiers)
}

fn connect(queue: u16, size: u32) -> Connect {
    let keep_alive = Duration::from_secs(5);
    Connect { queue, size, without_flow_control: false, keep_alive }
}

fn of(host_name: &str, controller: u16) -> ConnectData<'_> {
    let host = [host_name.as_bytes()[4]; 16];
    ConnectData { host, controller, subsystem: DISK, host_name }
}

/// A new controller.
fn create(subsystem: &mut Subsystem, host: &str) -> Result<u16, Refusal> {
    let result = subsystem.connect(&connect(0, 32), &of(host, 0xffff), NOW);
    subsystem.check_invariants();
    result.map(|name| {
        assert_eq!(name.queue, 0);
        name.controller
    })
}

/// A new controller that is enabled.
fn enabled(subsystem: &mut Subsystem, host: &str) -> u16 {
    let identifier = create(subsystem, host).unwrap();
    let controller = subsystem.controller(identifier).unwrap();
    controller.properties.set(0x14, false, 0x0046_0001).unwrap();
    identifier
}

#[test]
fn nobody_is_permitted_who_is_not_named() {
    let mut subsystem = subsystem();
    assert_eq!(create(&mut subsystem, "nqn.c"), Err(Status::ConnectHost.into()));
    assert!(create(&mut subsystem, "nqn.a").is_ok());
    subsystem.permit(Hosts::default());
    assert_eq!(create(&mut subsystem, "nqn.a"), Err(Status::ConnectHost.into()));
    subsystem.permit(Hosts::everyone());
    assert!(create(&mut subsystem, "nqn.c").is_ok());
    assert!(!Hosts::default().admit("") && !Hosts::named([]).admit("nqn.a"));
}

#[test]
fn what_does_not_exist_is_pointed_at() {
    let mut subsystem = subsystem();
    let wrong = ConnectData { subsystem: "nqn.other", ..of("nqn.a", 0xffff) };
    let result = subsystem.connect(&connect(0, 32), &wrong, NOW);
    assert_eq!(result, Err(Refusal::in_data(256)));
    assert_eq!(Subsystem::unknown(), Refusal::in_data(256));
    // FFFEh asks for any static controller.
    for controller in [0, 63, 0xfffe] {
        let result = subsystem.connect(&connect(0, 32), &of("nqn.a", controller), NOW);
        assert_eq!(result, Err(Refusal::in_data(16)));
    }
    let nobody = ConnectData { host: [0; 16], ..of("nqn.a", 0xffff) };
    let result = subsystem.connect(&connect(0, 32), &nobody, NOW);
    assert_eq!(result, Err(Refusal::in_data(0)));
    for queue in [0, 1] {
        let result = subsystem.connect(&connect(queue, 129), &of("nqn.a", 0xffff), NOW);
        assert_eq!(result, Err(Refusal::in_entry(44)));
    }
}

#[test]
fn identifiers_of_two_attachments_are_disjoint() {
    let last = Identifiers::of_attachment(1023);
    assert_eq!((*last.range().start(), *last.range().end()), (64_449, 64_511));
    assert_eq!(Identifiers::of_attachment(1024), Identifiers::of_attachment(0));
    for generation in 1..1024 {
        let ranges = [generation - 1, generation].map(Identifiers::of_attachment);
        assert_eq!(ranges[0].range().end() + 1, *ranges[1].range().start());
        assert_eq!(ranges[1].range().len(), 63);
    }
}

#[test]
fn an_identifier_is_used_again_last() {
    let mut subsystem = subsystem();
    assert_eq!(create(&mut subsystem, "nqn.a"), Ok(63));
    assert_eq!(create(&mut subsystem, "nqn.a"), Ok(64));
    subsystem.gone(QueueName { controller: 63, queue: 0 });
    for expected in 65..=125 {
        let identifier = create(&mut subsystem, "nqn.a").unwrap();
        assert_eq!(identifier, expected);
        subsystem.gone(QueueName { controller: identifier, queue: 0 });
    }
    assert_eq!(create(&mut subsystem, "nqn.a"), Ok(63));
    assert_eq!(create(&mut subsystem, "nqn.a"), Ok(65));
}

#[test]
fn a_host_has_few_controllers_and_a_node_not_many() {
    let mut subsystem = subsystem();
    for _ in 0..8 {
        create(&mut subsystem, "nqn.a").unwrap();
    }
    assert_eq!(create(&mut subsystem, "nqn.a"), Err(Status::ControllerBusy.into()));
    assert!(create(&mut subsystem, "nqn.b").is_ok());
    // One that has ended counts until its queues are gone.
    subsystem.controller(63).unwrap().end();
    assert_eq!(create(&mut subsystem, "nqn.a"), Err(Status::ControllerBusy.into()));
    subsystem.gone(QueueName { controller: 63, queue: 0 });
    assert!(create(&mut subsystem, "nqn.a").is_ok());
    subsystem.permit(Hosts::everyone());
    let hosts: Vec<String> = (0..9).map(|number| format!("nqn.{number}")).collect();
    let made = hosts.iter().cycle().take(72).filter(|host| create(&mut subsystem, host).is_ok());
    assert_eq!(made.count(), 63 - 9);
    assert_eq!(subsystem.controllers().count(), 63);
    assert_eq!(create(&mut subsystem, "nqn.z"), Err(Status::ControllerBusy.into()));
}

#[test]
fn a_queue_belongs_to_the_host_of_its_controller() {
    let mut subsystem = subsystem();
    let identifier = create(&mut subsystem, "nqn.a").unwrap();
    let mut join =
        |queue, data: &ConnectData<'_>| subsystem.connect(&connect(queue, 128), data, NOW);
    // The controller isn't enabled.
    assert_eq!(join(1, &of("nqn.a", identifier)), Err(Status::Sequence.into()));
    let identifier = enabled(&mut subsystem, "nqn.a");
    let mut join = |queue, data: &ConnectData<'_>| {
        let result = subsystem.connect(&connect(queue, 128), data, NOW);
        subsystem.check_invariants();
        result
    };
    let own = of("nqn.a", identifier);
    let name = QueueName { controller: identifier, queue: 16 };
    assert_eq!(join(16, &own), Ok(name));
    assert_eq!(join(16, &own), Err(Status::Sequence.into()));
    assert_eq!(join(17, &own), Err(Refusal::in_entry(42)));
    assert_eq!(join(1, &of("nqn.b", identifier)), Err(Refusal::in_data(512)));
    assert_eq!(join(1, &ConnectData { host: [1; 16], ..own }), Err(Refusal::in_data(0)));
    assert_eq!(join(1, &of("nqn.c", identifier)), Err(Status::ConnectHost.into()));
    for unknown in [identifier + 1, 0, 0xffff] {
        assert_eq!(join(1, &of("nqn.a", unknown)), Err(Refusal::in_data(16)));
    }
    subsystem.controller(identifier).unwrap().end();
    let result = subsystem.connect(&connect(1, 128), &own, NOW);
    assert_eq!(result, Err(Refusal::in_data(16)));
}

#[test]
fn a_controller_is_forgotten_with_its_last_queue() {
    let mut subsystem = subsystem();
    let identifier = enabled(&mut subsystem, "nqn.a");
    let io = subsystem.connect(&connect(1, 128), &of("nqn.a", identifier), NOW).unwrap();
    subsystem.gone(QueueName { controller: identifier, queue: 0 });
    let controller = subsystem.controller(identifier).unwrap();
    assert!(controller.has_ended());
    assert_eq!(controller.take_closing(), [1]);
    subsystem.gone(io);
    subsystem.gone(io);
    assert!(subsystem.controller(identifier).is_none());
    subsystem.check_invariants();
}

#[test]
fn hosts_that_are_not_permitted_any_more_and_silent_ones_are_ended() {
    let mut subsystem = subsystem();
    let first = enabled(&mut subsystem, "nqn.a");
    let second = enabled(&mut subsystem, "nqn.b");
    assert_eq!(subsystem.expires(), Some(NOW + Duration::from_secs(5)));
    subsystem.permit(Hosts::named(["nqn.b".to_owned()]));
    let has_ended = |subsystem: &mut Subsystem, identifier| {
        subsystem.check_invariants();
        subsystem.controller(identifier).unwrap().has_ended()
    };
    assert!(has_ended(&mut subsystem, first) && !has_ended(&mut subsystem, second));
    subsystem.expire(NOW + Duration::from_secs(5));
    assert!(has_ended(&mut subsystem, second));
    assert_eq!(subsystem.expires(), None);
    let third = enabled(&mut subsystem, "nqn.b");
    subsystem.end();
    assert!(has_ended(&mut subsystem, third));
}

#[test]
fn who_has_proved_nothing_takes_no_place() {
    let mut subsystem = subsystem();
    let (admin, io) = (connect(0, 32), connect(1, 32));
    let new = of("nqn.a", 0xffff);
    // However many ask: nothing is taken, and names go round.
    let first = subsystem.offer(&admin, &new, |_| false).unwrap();
    for _ in 1..Identifiers::EACH {
        assert_ne!(subsystem.offer(&admin, &new, |_| false).unwrap(), first);
    }
    assert_eq!(subsystem.offer(&admin, &new, |_| false).unwrap(), first);
    assert_eq!(subsystem.controllers().count(), 0);
    // The name is of who proves it first.
    subsystem.open(first, &admin, &new, NOW).unwrap();
    subsystem.check_invariants();
    let late = subsystem.open(first, &admin, &of("nqn.b", 0xffff), NOW);
    assert_eq!(late, Err(Status::ControllerBusy.into()));

    let controller = subsystem.controller(first.controller).unwrap();
    controller.properties.set(0x14, false, 0x0046_0001).unwrap();
    let own = of("nqn.a", first.controller);
    let queue = subsystem.offer(&io, &own, |_| false).unwrap();
    assert_eq!(subsystem.offer(&io, &own, |_| false).unwrap(), queue, "it is still free");
    subsystem.open(queue, &io, &own, NOW).unwrap();
    assert_eq!(subsystem.open(queue, &io, &own, NOW), Err(Status::Sequence.into()));
    assert_eq!(subsystem.offer(&io, &own, |_| false), Err(Status::Sequence.into()));
    // Whoever isn't permitted any more gets nothing by an old name.
    let late = subsystem.offer(&admin, &new, |_| false).unwrap();
    subsystem.permit(Hosts::named(["nqn.b".to_owned()]));
    assert_eq!(subsystem.open(late, &admin, &new, NOW), Err(Status::ConnectHost.into()));
}

#[test]
fn a_host_is_expelled_alone() {
    let mut subsystem = subsystem();
    let (first, second) =
        (create(&mut subsystem, "nqn.a").unwrap(), create(&mut subsystem, "nqn.b").unwrap());
    subsystem.expel(|host| host == "nqn.a");
    subsystem.check_invariants();
    assert!(subsystem.controller(first).unwrap().has_ended());
    assert!(!subsystem.controller(second).unwrap().has_ended());
    // It may come again.
    assert!(create(&mut subsystem, "nqn.a").is_ok());
}

#[test]
fn what_a_host_has_lost_is_under_way_until_its_queues_are_gone() {
    let mut subsystem = subsystem();
    let identifier = enabled(&mut subsystem, "nqn.a");
    subsystem.connect(&connect(1, 32), &of("nqn.a", identifier), NOW).unwrap();
    let (a, b) = (of("nqn.a", 0xffff), of("nqn.b", 0xffff));
    assert!(!subsystem.is_draining(&a), "nothing has ended");
    subsystem.gone(QueueName { controller: identifier, queue: 0 });
    assert!(subsystem.controller(identifier).unwrap().has_ended());
    assert!(subsystem.is_draining(&a) && !subsystem.is_draining(&b));
    assert!(subsystem.is_ending(&a) && !subsystem.is_ending(&b));
    subsystem.gone(QueueName { controller: identifier, queue: 1 });
    assert!(!subsystem.is_draining(&a) && !subsystem.is_ending(&a));
    // An admin queue alone carries nothing out.
    let identifier = create(&mut subsystem, "nqn.a").unwrap();
    subsystem.controller(identifier).unwrap().end();
    assert!(!subsystem.is_draining(&a) && subsystem.is_ending(&a));
}

/// Linux before 6.7 sends Keep Alive once it has all queues for I/O, each of which may have to
/// wait.
#[test]
fn a_host_that_connects_its_queues_is_not_silent() {
    let time = Duration::from_secs(5);
    let at = |seconds| NOW + Duration::from_secs(seconds);
    let mut subsystem = subsystem();
    let identifier = enabled(&mut subsystem, "nqn.a");
    let own = of("nqn.a", identifier);
    let expires = |subsystem: &Subsystem| subsystem.expires().unwrap();
    assert_eq!(expires(&subsystem), NOW + time);
    subsystem.keep_waiting(&connect(1, 32), &own, at(4));
    assert_eq!(expires(&subsystem), at(4) + time, "it waits for this side");
    subsystem.keep_waiting(&connect(2, 32), &own, at(3));
    assert_eq!(expires(&subsystem), at(4) + time, "and for the other one");
    subsystem.connect(&connect(1, 32), &own, at(2)).unwrap();
    assert_eq!(expires(&subsystem), at(2) + time, "it is answered");
    // What is refused is no sign of life, nor is what another host asks for.
    let refused = [(1, own, at(9)), (17, own, at(9)), (2, of("nqn.b", identifier), at(9))];
    for (queue, data, until) in refused {
        subsystem.keep_waiting(&connect(queue, 32), &data, until);
        assert!(subsystem.connect(&connect(queue, 32), &data, until).is_err());
    }
    assert_eq!(expires(&subsystem), at(2) + time);
    subsystem.expire(at(2) + time);
    assert!(subsystem.controller(identifier).unwrap().has_ended());
}

#[test]
fn what_a_host_has_lost_is_not_in_its_way() {
    let mut subsystem = subsystem();
    let new = of("nqn.a", 0xffff);
    let all: Vec<u16> = (0..8).map(|_| create(&mut subsystem, "nqn.a").unwrap()).collect();
    assert_eq!(subsystem.of_host(&new).collect::<Vec<_>>(), all);
    let mut ask = |lost: Option<u16>| {
        let is_lost = |identifier| Some(identifier) == lost;
        let may_create = subsystem.may_create(&connect(0, 32), &new, is_lost);
        assert_eq!(subsystem.offer(&connect(0, 32), &new, is_lost).map(drop), may_create);
        may_create
    };
    assert_eq!(ask(None), Err(Status::ControllerBusy.into()));
    assert_eq!(ask(Some(all[3])), Ok(()));
    assert_eq!(ask(Some(9999)), Err(Status::ControllerBusy.into()));
    // It takes its place when it is gone.
    assert_eq!(create(&mut subsystem, "nqn.a"), Err(Status::ControllerBusy.into()));
}
