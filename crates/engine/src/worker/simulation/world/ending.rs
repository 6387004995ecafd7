//! The end of a run: nothing goes wrong any more, everybody is answered, and all is closed.

use super::super::client::Stage;
use super::super::coordinator::Manners;
use super::super::disks::Phase;
use super::super::model::Violation;
use super::super::plan::{Faults, Kind};
use super::World;
use crate::ring::Owner;

/// Rounds without faults in which something has to be reached.
const ROUNDS: u64 = 4000;
/// Reads by which each block of a volume is read, some of them at once.
const READS: usize = 6;
/// Seconds of virtual time for the same.
const TIME: u64 = 1200;

impl World {
    pub(super) fn end(&mut self) -> Result<(), Violation> {
        self.plan.faults = Faults::default();
        self.until("all replicas are closed or open", |world| {
            world.has_no_orders()
                && (world.replicas.iter()).all(|it| matches!(it.phase, Phase::Open | Phase::Closed))
        })?;
        self.close_all()?;
        (0..self.replicas.len()).for_each(|replica| self.open(replica));
        self.until("all requests are answered", |world| {
            world.attach_all();
            world.has_no_orders() && world.all_serve() && world.all_is_answered()
        })?;
        self.is_calm = true;
        self.read_all()?;
        self.is_calm = false;
        self.give_up()
    }

    /// Lets everything go on until this is reached.
    fn until(
        &mut self,
        what: &str,
        is_reached: impl Fn(&mut Self) -> bool,
    ) -> Result<(), Violation> {
        let began = self.now;
        for _ in 0..ROUNDS {
            if is_reached(self) && !self.goes_on() {
                return Ok(());
            }
            if !self.round()? && !self.pass_time() {
                break;
            }
            if self.now.since(began).as_secs() > TIME {
                break;
            }
        }
        if is_reached(self) { Ok(()) } else { Err(("I11", format!("never: {what}"))) }
    }

    /// Whether something is under way that ends at once.
    fn goes_on(&mut self) -> bool {
        let now = self.now;
        let benches = self.nodes.iter_mut().flat_map(|node| &mut node.workers);
        let mut busy = benches.map(|it| {
            it.has_to_do(now) || it.ring().given() > 0 || it.tasks() > 0 || !it.can_end().is_empty()
        });
        busy.any(|is_busy| is_busy)
            || self.volumes.iter().any(|it| !it.coordinator.has_nothing_to_do())
    }

    /// All that can end ends, and everybody takes a turn. Returns whether something was done.
    fn round(&mut self) -> Result<bool, Violation> {
        let mut is_done = false;
        self.step += 1;
        self.now.0 += 1000;
        for node in 0..self.nodes.len() {
            for worker in 0..self.nodes[node].workers.len() {
                let bench = &mut self.nodes[node].workers[worker];
                while bench.tasks() > 0 {
                    bench.carry_out();
                    is_done = true;
                }
                bench.collect();
                let places = bench.can_end();
                if !places.is_empty() {
                    let place = self.random.pick(&places);
                    self.nodes[node].workers[worker].end(place, None);
                    is_done = true;
                }
                if self.nodes[node].workers[worker].has_to_do(self.now) {
                    self.turn(node, worker)?;
                    is_done = true;
                }
            }
        }
        for volume in 0..self.volumes.len() {
            is_done |= !self.volumes[volume].coordinator.has_nothing_to_do();
            self.coordinate_for(volume, Manners::default());
        }
        is_done |= !self.connects.is_empty();
        self.connect(0);
        self.hear()?;
        Ok(is_done)
    }

    /// Time passes until somebody wants to be woken.
    fn pass_time(&mut self) -> bool {
        let benches = self.nodes.iter().flat_map(|node| &node.workers);
        let Some(next) = benches.filter_map(|it| it.next_timer()).min() else { return false };
        self.now = self.now.max(next);
        true
    }

    fn close_all(&mut self) -> Result<(), Violation> {
        for replica in 0..self.replicas.len() {
            if self.replicas[replica].phase == Phase::Open {
                self.close(replica);
            }
        }
        self.until("all replicas are closed", |world| {
            world.replicas.iter().all(|it| it.phase == Phase::Closed)
        })
    }

    fn attach_all(&mut self) {
        for volume in 0..self.volumes.len() {
            if self.volumes[volume].primary.is_none() {
                self.attach(volume);
            }
        }
    }

    fn has_no_orders(&self) -> bool {
        self.orders.iter().all(|count| *count == 0)
    }

    fn all_serve(&self) -> bool {
        self.volumes.iter().all(|it| it.is_serving && !it.is_detaching)
    }

    fn all_is_answered(&self) -> bool {
        self.clients.iter().all(|it| match it.stage {
            Stage::Adding | Stage::Leaving => false,
            Stage::Running => it.has_all(),
            Stage::Gone => true,
        })
    }

    /// Each block of each volume is read.
    fn read_all(&mut self) -> Result<(), Violation> {
        for volume in 0..self.volumes.len() {
            self.volumes[volume].model.nothing_is_under_way(self.step);
            let (reads, mut times) = (READS as u64, 0);
            let wanted = self.counts.get("reads").copied().unwrap_or_default() + reads;
            while self.counts.get("reads").copied().unwrap_or_default() < wanted {
                times += 1;
                if times > 5 {
                    return Err(("I11", format!("volume {volume} is not read")));
                }
                self.read_volume(volume)?;
            }
        }
        Ok(())
    }

    /// Reads each block of a volume, unless it ends meanwhile.
    fn read_volume(&mut self, volume: usize) -> Result<(), Violation> {
        self.until("it serves", |world| {
            world.attach_all();
            world.all_serve()
        })?;
        let client = self.clients.len();
        self.add_client(volume);
        self.until("a client is added", |world| world.clients[client].stage != Stage::Adding)?;
        if self.clients[client].stage == Stage::Running {
            for blocks in self.plan.used().into_iter().cycle().take(READS) {
                self.ask_for(client, Kind::Read, blocks);
            }
        }
        self.until("all is read", |world| {
            let it = &world.clients[client];
            it.stage == Stage::Gone || it.has_all()
        })
    }

    /// All is detached and closed: nothing is left of it.
    fn give_up(&mut self) -> Result<(), Violation> {
        for volume in 0..self.volumes.len() {
            if self.volumes[volume].primary.is_some() {
                self.detach(volume);
            }
        }
        self.until("all volumes are detached", |world| {
            world.has_no_orders() && world.volumes.iter().all(|it| it.primary.is_none())
        })?;
        self.close_all()?;
        for bench in self.nodes.iter().flat_map(|node| &node.workers) {
            let (ring, pool) = (bench.ring(), bench.worker.cx.pool());
            if ring.held() != [Owner::Waker] || ring.given() > 0 {
                return Err(("I11", format!("still under way: {:?}", ring.held())));
            }
            if (pool.in_use(), pool.reserved()) != (0, 0) {
                let (used, reserved) = (pool.in_use(), pool.reserved());
                return Err(("memory", format!("{used} bytes in use, {reserved} reserved")));
            }
            let left = bench.worker.machines.statuses(&bench.worker.cx);
            if !left.is_empty() {
                return Err(("I11", format!("still there: {left:?}")));
            }
        }
        Ok(())
    }
}
