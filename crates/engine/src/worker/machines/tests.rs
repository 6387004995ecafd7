use std::sync::mpsc::{Receiver, channel};

use evenkeel_core::primary::{Command, Earlier, PrimaryConfig};
use evenkeel_core::{Incarnation, PrimaryId, Settings, VolumeId};

use super::*;
use crate::api::FrontendId;
use crate::frontend::{Frontend, FrontendContext};
use crate::ring::Ring;
use crate::worker::mailbox::Order;

const VOLUME: VolumeId = VolumeId(1);

/// A front end that ends by itself as soon as it is to stop.
struct Quitter;

impl Frontend for Quitter {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        if let FrontendEvent::Stopping = event {
            context.end("the client has gone");
        }
    }
}

fn bench() -> (Context, Machines, Receiver<EngineEvent>) {
    let (report, reported) = channel();
    let config = EngineConfig::new(move |event| drop(report.send(event)));
    let cx = Context::new(&config, Ring::new().expect("a ring"), Instant(0));
    let (tasks, _) = channel();
    let machines = Machines::new(&config, Helper::with_tasks(tasks), Arc::default());
    (cx, machines, reported)
}

fn obey(cx: &mut Context, machines: &mut Machines, order: Order) {
    machines.obey(cx, order);
    while let Some(work) = cx.next_work() {
        machines.run(cx, work);
    }
}

/// Whoever hears that a primary has ended hears nothing more of its front ends.
#[test]
fn a_front_end_that_ends_beside_its_volume_is_told_before_it() {
    let (mut cx, mut machines, reported) = bench();
    let id = PrimaryId { node: NodeId(2), incarnation: Incarnation(7) };
    let (settings, earlier) = (Settings::default(), Earlier::Ended);
    let primary = Box::new(PrimaryConfig { id, volume: VOLUME, settings, earlier });
    let answer = Box::new(|result: Result<(), _>| result.expect("it is carried out"));
    let order = Order::Attach { primary, memory: None, answer: answer.clone() };
    obey(&mut cx, &mut machines, order);
    let (frontend, name, make) =
        (FrontendId(1), String::new(), Box::new(|| Box::new(Quitter) as _));
    let order = Order::AddFrontend { volume: VOLUME, frontend, name, make, answer };
    obey(&mut cx, &mut machines, order);
    let (command, answer) = (Command::Detach, Box::new(drop));
    obey(&mut cx, &mut machines, Order::Command { volume: VOLUME, command, answer });

    let ends = reported.try_iter().filter_map(|event| match event {
        EngineEvent::FrontendEnded { .. } => Some("front end"),
        EngineEvent::Ended { .. } => Some("volume"),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), ["front end", "volume"]);
}
