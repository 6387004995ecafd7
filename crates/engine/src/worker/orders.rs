//! Carries out what the control plane orders.

use evenkeel_core::primary::PrimaryConfig;
use evenkeel_core::{NodeId, PrimaryEvent, Replica, ReplicaEvent, ReplicaId, VolumeId};

use super::frontend_host::FrontendHost;
use super::link::End;
use super::mailbox::Order;
use super::replica_host::ReplicaHost;
use super::{Timer, Work, Worker};
use crate::api::{Caller, ConnectRequest, FrontendId, OpenReplica};
use crate::disk::{Disk, Done, Found};
use crate::error::{Answer, EngineError};
use crate::frontend::{FrontendContext, FrontendEvent, FrontendMaker};
use crate::memory::Budget;
use crate::ring::SharedFile;
use crate::slab::Key;
use crate::transport::Connection;

impl Worker {
    pub(super) fn obey(&mut self, order: Order) {
        match order {
            Order::OpenReplica { replica, answer } => self.open_replica(*replica, answer),
            Order::CloseReplica { volume, replica, answer } => {
                match self.replica_key(volume, replica) {
                    Some(key) => self.close_replica(key, answer),
                    None => answer(Err(EngineError::Unknown)),
                }
            }
            Order::MakeRoom { volume, replica, request } => {
                match self.replica_key(volume, replica).filter(|key| !self.is_closing(*key)) {
                    Some(key) => self.make_room(key, request),
                    None => (request.answer)(Err(EngineError::Unknown)),
                }
            }
            Order::Attach { primary, memory, answer } => answer(self.attach(*primary, memory)),
            Order::Command { volume, command, answer } => {
                self.command_primary(volume, command, answer);
            }
            Order::AddFrontend { volume, frontend, name, make, answer } => {
                answer(self.add_frontend(volume, frontend, name, make));
            }
            Order::RemoveFrontend { volume, frontend, answer } => {
                self.remove_frontend(volume, frontend, answer);
            }
            Order::AcceptLink { volume, replica, peer, connection } => {
                self.accept_link(volume, (replica, peer), connection);
            }
            Order::Disconnect { node } => self.disconnect(node),
            Order::Connected { volume, request, connection } => {
                self.connected(volume, request, connection);
            }
            Order::CoordinatorAnswer { volume, call, answer } => {
                if let Some(key) = self.by_id.get(&volume) {
                    let event = PrimaryEvent::Coordinator { call, answer };
                    self.work.push_back(Work::Primary(*key, event));
                }
            }
            Order::VolumeStatus { volume, answer } => {
                let key = self.by_id.get(&volume).copied();
                answer(key.and_then(|key| self.volume_status(key)));
            }
            Order::Survey { answer } => answer(self.worker_status()),
            Order::Rebuilds { answer } => answer(self.rebuilds()),
            Order::Disk(Done::Mapped { replica, job, extents }) => {
                self.disk_mapped(replica, job, extents);
            }
            Order::Disk(Done::RoomMade { replica, result }) => self.room_made(replica, result),
            Order::Disk(Done::Closed { tell }) => tell(),
            // Taken by the loop.
            Order::Stop => {}
        }
    }

    fn replica_key(&self, volume: VolumeId, replica: ReplicaId) -> Option<Key> {
        self.volumes.get(*self.by_id.get(&volume)?)?.replica(replica)
    }

    fn is_closing(&self, replica: Key) -> bool {
        self.replicas.get(replica).is_none_or(ReplicaHost::is_closing)
    }

    fn open_replica(&mut self, replica: OpenReplica, answer: Answer<Result<(), EngineError>>) {
        if let Some(refused) = self.refuses(&replica) {
            // Closing it may wait for its disk.
            return self.helper().close(replica.file, Box::new(move || answer(Err(refused))));
        }
        let OpenReplica { file, newest, layout, tables, allocation, checksums, flushes, config } =
            replica;
        let (id, replica_id) = (newest.superblock.volume, config.id);
        let file = SharedFile::with_blocking_submission(file, layout.submission_blocks());
        let recovered = checksums;
        let found = Found { file, layout, newest, tables, allocation, recovered, flushes };
        let disk = Disk::open(found, self.helper());
        let volume = self.volume_key(id);
        let core = Replica::new(config, self.now);
        let key = self.replicas.insert(ReplicaHost {
            volume,
            core,
            disk,
            armed: None,
            closing: Vec::new(),
        });
        if let Some(volume) = self.volumes.get_mut(volume) {
            volume.replicas.push((replica_id, key));
        }
        self.arm(Timer::Replica(key));
        // Since what it holds was made durable.
        self.tell_failed_flush(key);
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
        let (disk, volume) = (replica.layout.block, superblock.view.geometry.block_size);
        (disk > volume).then_some(EngineError::BlockSize { disk, volume })
    }

    fn attach(&mut self, primary: PrimaryConfig, memory: Option<usize>) -> Result<(), EngineError> {
        let key = self.volume_key(primary.volume);
        let limit = memory.unwrap_or(self.config.memory_per_volume);
        let budget = Budget::new(self.pool.clone(), limit);
        let Some(volume) = self.volumes.get_mut(key) else { return Err(EngineError::Unknown) };
        if volume.is_attached() {
            return Err(EngineError::AlreadyAttached);
        }
        (volume.budget, volume.memory) = (budget, limit);
        volume.attach(primary, self.now);
        self.work.push_back(Work::Primary(key, PrimaryEvent::Start));
        Ok(())
    }

    fn add_frontend(
        &mut self,
        volume: VolumeId,
        id: FrontendId,
        name: String,
        make: FrontendMaker,
    ) -> Result<(), EngineError> {
        let key = *self.by_id.get(&volume).ok_or(EngineError::Unknown)?;
        let Some(volume) = self.volumes.get_mut(key).filter(|v| v.primary.is_some()) else {
            return Err(EngineError::Unknown);
        };
        let context = FrontendContext::new(volume.budget.clone());
        let frontend = self.frontends.insert(FrontendHost::new(key, id, name, make(), context));
        volume.frontends.push(frontend);
        self.work.push_back(Work::Frontend(frontend, FrontendEvent::Started));
        Ok(())
    }

    fn remove_frontend(
        &mut self,
        volume: VolumeId,
        id: FrontendId,
        answer: Answer<Result<(), EngineError>>,
    ) {
        let volume = self.by_id.get(&volume).and_then(|key| self.volumes.get(*key));
        let found = volume.and_then(|volume| {
            let is_it = |key: &&Key| self.frontends.get(**key).is_some_and(|f| f.id == id);
            volume.frontends.iter().find(is_it).copied()
        });
        match found {
            Some(key) => self.stop_frontend(key, answer),
            None => answer(Err(EngineError::Unknown)),
        }
    }

    fn accept_link(
        &mut self,
        volume: VolumeId,
        (replica, peer): (ReplicaId, NodeId),
        connection: Connection,
    ) {
        let open = self.replica_key(volume, replica).filter(|key| !self.is_closing(*key));
        // Of a replica that is not open here: dropping the connection tells the caller.
        let Some((key, volume)) = open.zip(self.by_id.get(&volume).copied()) else { return };
        let link = self.open_link(volume, End::Replica(key), None, (replica, peer), connection);
        self.work.push_back(Work::Replica(key, ReplicaEvent::LinkOpened { link }));
    }

    fn connected(&mut self, id: VolumeId, request: ConnectRequest, connection: Option<Connection>) {
        let asked = self.by_id.get(&id).copied().and_then(|key| {
            let (caller, replica, peer) = self.volumes.get_mut(key)?.connects.remove(&request)?;
            Some((key, caller, (replica, peer)))
        });
        // Who asked may have gone: dropping the connection tells the other side.
        let Some((key, caller, (replica, peer))) = asked else { return };
        match caller {
            Caller::Primary => {
                let Some(connection) = connection else {
                    let event = PrimaryEvent::LinkDown { replica, link: None };
                    return self.work.push_back(Work::Primary(key, event));
                };
                let end = End::Primary(key);
                let link = self.open_link(key, end, Some(caller), (replica, peer), connection);
                self.primary_link_up(key, replica, link);
            }
            Caller::Replica(copier) => {
                let Some(copier) = self.replica_key(id, copier) else {
                    debug_assert!(false, "a replica that is closed waits for no source");
                    return;
                };
                let link = connection.map(|connection| {
                    let end = End::Replica(copier);
                    self.open_link(key, end, Some(caller), (replica, peer), connection)
                });
                self.source_link(copier, replica, link);
            }
        }
    }
}
