//! The loop of one worker.

use std::io;
use std::thread::JoinHandle;

use crate::api::EngineConfig;
use crate::mailbox::{MailboxReceiver, Order};

/// Starts a worker's thread.
pub(crate) fn start(
    index: usize,
    _config: EngineConfig,
    mailbox: MailboxReceiver,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
        while let Ok(order) = mailbox.orders.recv() {
            if matches!(order, Order::Stop) {
                break;
            }
        }
    })
}
