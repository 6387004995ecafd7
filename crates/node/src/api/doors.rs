//! Who gets in at the API's socket: users are looked up, and find a place or none.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::permission::Requester;
use crate::access::{Account, Rights, Role};
use crate::http;
use crate::log_limit::LogLimit;
use crate::peer::stream::PeerStream;

/// Most connections at a time of all users but root and the daemon's own.
const MAX_OTHERS: usize = 128;
/// Most of those that are of users without any right, who are told so.
const MAX_STRANGERS: usize = 16;
/// Most users who are looked up at a time.
const MAX_LOOK_UPS: usize = 8;
/// How long the look-up of a user may take.
const LOOK_UP_DEADLINE: Duration = Duration::from_secs(5);

/// Who gets in at the API's socket. Root and the daemon's own user always find a place, and wait
/// for no look-up.
pub(super) struct Doors {
    rights: Arc<Rights>,
    /// Places for all other users.
    others: Arc<Semaphore>,
    /// Of those, places for who has no right, and is told so.
    strangers: Arc<Semaphore>,
    look_ups: Arc<Semaphore>,
    refusals: Arc<LogLimit>,
}

/// What a connection keeps for as long as it lasts.
struct Admitted {
    requester: Requester,
    _places: [Option<OwnedSemaphorePermit>; 2],
}

impl Doors {
    pub(super) fn new(rights: Arc<Rights>) -> Self {
        Self {
            rights,
            others: Arc::new(Semaphore::new(MAX_OTHERS)),
            strangers: Arc::new(Semaphore::new(MAX_STRANGERS)),
            look_ups: Arc::new(Semaphore::new(MAX_LOOK_UPS)),
            refusals: Arc::default(),
        }
    }

    /// Serves a user who has connected, if there is a place; `place` is among all connections.
    pub(super) async fn serve_user(
        self: Arc<Self>,
        stream: PeerStream,
        place: OwnedSemaphorePermit,
        router: Router,
    ) {
        match self.admit(&stream).await {
            Ok(admitted) => {
                let requester = admitted.requester.clone();
                http::serve_as(requester, stream, router, http::CLIENT_DEADLINE).await;
                drop(admitted);
            }
            Err(error) => tracing::debug!(%error, "closed a connection to the API"),
        }
        drop(place);
    }

    async fn admit(self: &Arc<Self>, stream: &PeerStream) -> io::Result<Admitted> {
        let user = stream.user()?;
        if let Some(account) = self.rights.master(user.uid) {
            let requester = self.requester(account, Some(Role::Administer), user.login);
            return Ok(Admitted { requester, _places: [None, None] });
        }
        let place = |of: &Arc<Semaphore>| of.clone().try_acquire_owned().map_err(io::Error::other);
        let other = place(&self.others)?;
        let looked_up = timeout(LOOK_UP_DEADLINE, self.look_up(user.uid)).await;
        let (account, role) = looked_up.map_err(io::Error::other)??;
        let stranger = if role.is_none() { Some(place(&self.strangers)?) } else { None };
        let requester = self.requester(account, role, user.login);
        Ok(Admitted { requester, _places: [Some(other), stranger] })
    }

    fn requester(&self, account: Account, role: Option<Role>, login: Option<u32>) -> Requester {
        Requester { account, role, login, refusals: self.refusals.clone() }
    }

    /// A directory of users that hangs keeps as many threads, and no more.
    async fn look_up(self: &Arc<Self>, uid: u32) -> io::Result<(Account, Option<Role>)> {
        let permit = self.look_ups.clone().acquire_owned().await.map_err(io::Error::other)?;
        let doors = self.clone();
        let look_up = move || {
            let account = Account::look_up(uid)?;
            let role = doors.rights.role_of(&account);
            drop(permit);
            Ok((account, role))
        };
        spawn_blocking(look_up).await.map_err(io::Error::other)?
    }
}
