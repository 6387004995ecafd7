//! Carries out what the control plane orders.

use evenkeel_core::{NodeId, ReplicaId, VolumeId};

use super::Machines;
use crate::api::{FrontendId, OpenReplica};
use crate::disk::{Done, SpaceRequest};
use crate::error::{Answer, EngineError};
use crate::frontend::{FrontendEvent, FrontendMaker};
use crate::ring::Key;
use crate::transport::Connection;
use crate::worker::context::{Context, Work};
use crate::worker::links::End;
use crate::worker::mailbox::Order;

impl Machines {
    /// Carries out an order.
    pub fn obey(&mut self, cx: &mut Context, order: Order) {
        match order {
            Order::OpenReplica { replica, answer } => self.open_replica(cx, *replica, answer),
            Order::CloseReplica { volume, replica, answer } => {
                self.close_replica(cx, volume, replica, answer);
            }
            Order::MakeSpace { volume, replica, request } => {
                self.make_space(cx, volume, replica, request);
            }
            Order::Attach { primary, memory, answer } => {
                answer(self.volumes.attach(cx, *primary, memory));
            }
            Order::Command { volume, command, answer } => {
                self.volumes.command(cx, volume, command, answer);
            }
            Order::AddFrontend { volume, frontend, name, make, answer } => {
                answer(self.add_frontend(cx, volume, frontend, name, make));
            }
            Order::RemoveFrontend { volume, frontend, answer } => {
                self.remove_frontend(cx, volume, frontend, answer);
            }
            Order::TellFrontend { volume, frontend, what } => {
                // One that has ended has nothing left to be told of.
                if let Some(key) = self.frontend_key(volume, frontend) {
                    cx.queue(Work::Frontend(key, FrontendEvent::Reported { what }));
                }
            }
            Order::AcceptLink { volume, replica, peer, connection } => {
                self.accept_link(cx, volume, replica, peer, connection);
            }
            Order::Disconnect { node } => self.links.disconnect(cx, node),
            Order::Connected { volume, request, connection } => {
                self.links.connected(cx, volume, request, connection);
            }
            Order::CoordinatorAnswer { volume, primary, call, answer } => {
                self.volumes.coordinator_answer(cx, volume, primary, (call, answer));
            }
            Order::VolumeStatus { volume, answer } => answer(self.volume_status(cx, volume)),
            Order::Rebuilds { answer } => answer(self.volumes.rebuilds()),
            Order::Disk(done) => self.disk_done(cx, done),
            // The worker's own.
            Order::Survey { .. } | Order::Stop => {}
        }
    }
    /// A replica that is open, and not to be closed.
    fn open_key(&self, volume: VolumeId, replica: ReplicaId) -> Option<Key> {
        self.replica_key(volume, replica).filter(|key| self.replicas.is_open(*key))
    }

    fn replica_key(&self, volume: VolumeId, replica: ReplicaId) -> Option<Key> {
        self.volumes.replica(self.volumes.key(volume)?, replica)
    }

    fn open_replica(
        &mut self,
        cx: &mut Context,
        replica: OpenReplica,
        answer: Answer<Result<(), EngineError>>,
    ) {
        if let Some(refused) = self.refuses(&replica) {
            return self.replicas.refuse(replica, refused, answer);
        }
        let (volume, id) = (replica.newest.superblock.volume, replica.config.id);
        let replicas = &mut self.replicas;
        self.volumes.open_replica(cx, volume, id, |cx, volume| replicas.open(cx, volume, replica));
        answer(Ok(()));
    }

    /// Why a replica can't be opened.
    fn refuses(&self, replica: &OpenReplica) -> Option<EngineError> {
        let superblock = &replica.newest.superblock;
        if superblock.replica != replica.config.id || superblock.view != replica.config.view {
            return Some(EngineError::Mismatch);
        }
        if self.replica_key(superblock.volume, superblock.replica).is_some() {
            return Some(EngineError::AlreadyOpen);
        }
        let (disk, volume) = (replica.layout.block(), superblock.view.geometry.block_size);
        (disk > volume).then_some(EngineError::BlockSize { disk, volume })
    }

    fn close_replica(
        &mut self,
        cx: &mut Context,
        volume: VolumeId,
        replica: ReplicaId,
        answer: Answer<Result<(), EngineError>>,
    ) {
        let Some(key) = self.replica_key(volume, replica) else {
            return answer(Err(EngineError::Unknown));
        };
        self.links.close_all_of(cx, End::Replica(key));
        let gone = self.replicas.close(key, answer);
        self.replica_gone(gone);
    }

    fn make_space(
        &mut self,
        cx: &mut Context,
        volume: VolumeId,
        replica: ReplicaId,
        request: SpaceRequest,
    ) {
        match self.open_key(volume, replica) {
            Some(key) => self.replicas.make_space(cx, key, request),
            None => (request.answer)(Err(EngineError::Unknown)),
        }
    }

    /// Something that may block was done for a disk, elsewhere.
    fn disk_done(&mut self, cx: &mut Context, done: Done) {
        let gone = match done {
            Done::Mapped { replica, job, extents } => {
                self.replicas.mapped(cx, replica, job, extents)
            }
            Done::SpaceMade { replica, result } => self.replicas.space_made(cx, replica, result),
            Done::Closed { report } => {
                report();
                None
            }
        };
        self.replica_gone(gone);
    }

    fn add_frontend(
        &mut self,
        cx: &mut Context,
        volume: VolumeId,
        id: FrontendId,
        name: String,
        make: FrontendMaker,
    ) -> Result<(), EngineError> {
        let (volume, budget) = self.volumes.for_frontend(volume)?;
        let frontend = self.frontends.add(cx, volume, budget, id, name, make);
        self.volumes.frontend_added(volume, frontend);
        Ok(())
    }

    fn remove_frontend(
        &mut self,
        cx: &mut Context,
        volume: VolumeId,
        id: FrontendId,
        answer: Answer<Result<(), EngineError>>,
    ) {
        match self.frontend_key(volume, id) {
            Some(key) => self.frontends.stop(cx, key, answer),
            None => answer(Err(EngineError::Unknown)),
        }
    }

    fn frontend_key(&self, volume: VolumeId, id: FrontendId) -> Option<Key> {
        let keys = self.volumes.frontends(self.volumes.key(volume)?);
        self.frontends.find(keys, id)
    }

    fn accept_link(
        &mut self,
        cx: &mut Context,
        volume: VolumeId,
        replica: ReplicaId,
        peer: NodeId,
        connection: Connection,
    ) {
        // If it is not open here: dropping the connection tells the caller.
        let Some(key) = self.open_key(volume, replica) else { return };
        self.links.accept(cx, volume, (replica, key), peer, connection);
    }
}
