//! The volume's reservations, as its hosts are told of them and kept out by them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_core::view::Reservations;
use evenkeel_core::{Generation, HostId, Operation};
use evenkeel_engine::Buffer;
use evenkeel_exports::nvme::command::Status;
use evenkeel_exports::nvme::controller::QueueName;
use evenkeel_exports::nvme::reservation::ReservationNotice;

use super::{Exclusion, Inner, KnownReservations, Queue, Target};

impl Target {
    /// Who changes reservations waits for this, and holds it meanwhile.
    pub async fn reserve(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.reserving.lock().await
    }

    /// Who looks up reservations waits for this, and holds it meanwhile: a host may ask for many
    /// reports at once, and each takes the worker's time.
    pub async fn look_up(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.looking.lock().await
    }

    /// The volume's reservations, as they are in a view of this generation.
    pub fn know_reservations(&self, generation: Generation, reservations: &Reservations) {
        let mut inner = self.lock();
        // Who looked before may come later.
        if inner.reservations.generation >= generation {
            return;
        }
        if inner.reservations.reservations != *reservations {
            inner.queues.values().for_each(|queue| queue.exclude(reservations));
        }
        let reservations = reservations.clone();
        inner.reservations = KnownReservations { generation, reservations };
    }

    /// Tells hosts what others have done with the volume's reservations.
    pub fn report_reservations(&self, notices: &[(HostId, ReservationNotice)]) {
        if notices.is_empty() {
            return;
        }
        self.change(|inner| {
            for controller in inner.subsystem.controllers() {
                let identifier = HostId(u128::from_be_bytes(controller.host().identifier));
                let reported = notices.iter().filter(|(host, _)| *host == identifier);
                reported.for_each(|(_, notice)| controller.notify_reservation(*notice));
            }
        });
    }

    /// Whether the host of a queue for I/O may not write, as far as is known, now and later.
    #[must_use]
    pub fn excluded(&self, name: QueueName, host: HostId) -> Arc<AtomicBool> {
        let mut inner = self.lock();
        let Inner { queues, reservations, .. } = &mut *inner;
        let excluded = Arc::<AtomicBool>::default();
        if let Some(queue) = queues.get_mut(&name) {
            queue.exclusion = Some(Exclusion { host, is_excluded: excluded.clone() });
            queue.exclude(&reservations.reservations);
        }
        excluded
    }

    /// The volume has been asked whether its reservations persist, for a controller's command.
    pub fn persisted(&self, controller: u16, number: u64, status: Status) {
        self.change(|inner| {
            if let Some(controller) = inner.subsystem.controller(controller) {
                controller.persisted(number, status);
            }
        });
    }
}

impl Queue {
    /// The volume's reservations have changed.
    fn exclude(&self, reservations: &Reservations) {
        // An admin queue writes nothing.
        let Some(Exclusion { host, is_excluded }) = &self.exclusion else { return };
        // Of an operation that writes only its kind counts.
        let (offset, length, unmap, durable) = (0, 0, false, false);
        let write = Operation::<Buffer>::Zero { offset, length, unmap, durable };
        is_excluded.store(!reservations.permit(*host, &write), Ordering::Relaxed);
    }
}
