//! The authority at work: it invites nodes, lets those in that were invited, and renews.

use std::sync::Arc;

use evenkeel_api::types::{
    ClientCertificateAnswer, ClientCertificateRequest, InviteAnswer, InviteRequest, VERSION,
};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{CoordinatorId, NodeId};
use evenkeel_trust::authority::{DAY, MAX_CLIENT_VALIDITY, SignError};
use evenkeel_trust::invitation::{DEFAULT_LASTS, MAX_COUNT, MAX_LASTS};
use evenkeel_trust::token::CHANNEL_LABEL;
use evenkeel_trust::{
    Authority, Fingerprint, Invitation, JoinAnswer, JoinRequest, PublicKey, Refused, Token,
    TokenId, exchange, pem, time,
};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Mutex;

use super::{AUTHORITY_KEY, Certificate, Certificates, load_key, make_key, serial};
use crate::clock::unix_seconds;
use crate::coordinator::handle::find_node;
use crate::coordinator::{Answer, Caller, NodeLiveness, Request};
use crate::peer::requests::NewCertificate;
use crate::peer::stream::PeerStream;
use crate::random::fill_random;
use crate::state::StateDirectory;

const INVITATIONS: &str = "invitations.json";
/// Most tokens that are kept.
const MAX_INVITATIONS: usize = 64;

/// The authority, whose key lies on this node.
pub struct Issuer {
    authority: Authority,
    certificate: CertificateDer<'static>,
    invitations: Mutex<Vec<Invitation>>,
    /// The time that counts while the clock can't be right, in seconds since 1970.
    floor: u64,
}

impl Issuer {
    /// The authority that has signed this node's certificate. `None`: its key does not lie here.
    ///
    /// # Errors
    /// If a file is damaged, or the system refuses.
    pub fn load(state: &StateDirectory, own: &Certificate) -> Result<Option<Self>, String> {
        let Some(key) = load_key(state, AUTHORITY_KEY)? else { return Ok(None) };
        let authority = Authority::new(own.cluster, key);
        let signed = authority.certificate(serial(), own.made).map_err(|e| e.to_string())?;
        if Fingerprint::of(&signed) != Fingerprint::of(&own.authority) {
            let path = state.join(AUTHORITY_KEY);
            return Err(format!(
                "{} is not the key of the authority that this node's certificate is from: put the right one there, or move it away",
                path.display()
            ));
        }
        let invitations = state.load(INVITATIONS).map_err(|e| e.to_string())?.unwrap_or_default();
        Ok(Some(Self {
            authority,
            certificate: own.authority.clone(),
            invitations: Mutex::new(invitations),
            floor: own.made,
        }))
    }

    /// A new authority. One whose making was cut off before it had signed anything is gone on with.
    ///
    /// # Errors
    /// If the system refuses, or the clock cannot be right.
    pub fn found(state: &StateDirectory, cluster: CoordinatorId) -> Result<Self, String> {
        let key = load_key(state, AUTHORITY_KEY)?;
        let key = key.map_or_else(|| make_key(state, AUTHORITY_KEY), Ok)?;
        let authority = Authority::new(cluster, key);
        let now = unix_seconds();
        let certificate = authority.certificate(serial(), now).map_err(|e| e.to_string())?;
        // What an authority before this one has made lets nobody in.
        let none: [Invitation; 0] = [];
        state.save(INVITATIONS, &none).map_err(|e| e.to_string())?;
        Ok(Self { authority, certificate, invitations: Mutex::default(), floor: now })
    }

    fn now(&self) -> u64 {
        time::now(unix_seconds(), self.floor)
    }

    /// A certificate of a node, made now.
    ///
    /// # Errors
    /// If no certificate can have that name.
    pub fn certify(
        &self,
        name: &str,
        node: NodeId,
        key: &PublicKey,
    ) -> Result<Certificate, String> {
        let made = self.now();
        let signed = self.authority.sign_node(name, node, key, serial(), made);
        Ok(Certificate {
            cluster: self.authority.cluster(),
            made,
            authority: self.certificate.clone(),
            certificate: signed.map_err(|e| e.to_string())?,
        })
    }

    /// A certificate of a client of exports, made now, and until when it is valid, in seconds since
    /// 1970.
    fn certify_client(
        &self,
        name: &str,
        key: &PublicKey,
        lasts: u64,
    ) -> Result<(CertificateDer<'static>, u64), SignError> {
        let made = self.now();
        let signed = self.authority.sign_client(name, key, serial(), made, lasts)?;
        Ok((signed, made + lasts))
    }
}

const NOT_HERE: &str = "this node has not the key of the cluster's authority";

impl Certificates {
    /// The authority, for what is asked of this node.
    fn here(&self, what: &str) -> Result<&Issuer, ApiError> {
        self.issuer.as_ref().ok_or_else(|| {
        let advice = "Run this on the coordinator's node, once `evenkeel cluster init` was run there and it was started again";
        ApiError::new(ErrorCode::WrongState, what, NOT_HERE, advice)
    })
    }

    async fn save(&self, invitations: Vec<Invitation>) -> Result<(), ApiError> {
        let saved = self.with_state(move |state| state.save(INVITATIONS, &invitations)).await?;
        saved.map_err(|error| {
            let advice = "Repair the state directory's file system, then try again";
            ApiError::new(ErrorCode::System, "no invitation was stored", error.to_string(), advice)
        })
    }

    async fn nodes(&self) -> Option<Vec<NodeLiveness>> {
        match self.cluster.coordinator().call_once(Request::Nodes).await {
            Ok(Answer::Nodes(nodes)) => Some(nodes),
            _ => None,
        }
    }

    /// Makes a token.
    ///
    /// # Errors
    /// If the authority's key does not lie here, or what is asked is not permitted.
    pub async fn invite(&self, request: &InviteRequest) -> Result<InviteAnswer, ApiError> {
        let what = "nobody was invited";
        let issuer = self.here(what)?;
        let bad = |why: String, advice| ApiError::new(ErrorCode::BadRequest, what, why, advice);
        let lasts = request.seconds.unwrap_or(DEFAULT_LASTS);
        if !(1..=MAX_LASTS).contains(&lasts) {
            let why = format!("a token is valid for 1 to {MAX_LASTS} seconds");
            return Err(bad(why, "Choose a shorter time"));
        }
        let member = match &request.member {
            Some(name) => Some(self.member(name).await?),
            None => None,
        };
        let names = member.as_ref().map(|(name, _)| name.clone()).or_else(|| request.names.clone());
        let names = names.unwrap_or_else(|| "*".into());
        let (mut id, mut secret) = ([0; 8], [0; 16]);
        fill_random(&mut id);
        fill_random(&mut secret);
        let fingerprint = Fingerprint::of(&issuer.certificate);
        let token = fingerprint
            .and_then(|authority| Token::new(authority, TokenId(id), secret, issuer.now(), lasts));
        let token = token
            .ok_or_else(|| bad("the clock cannot be right".into(), "Set this node's clock"))?;
        let count = request.count.unwrap_or(1);
        let invitation = usize::try_from(count)
            .ok()
            .and_then(|count| Invitation::new(&token, count, &names, member.map(|(_, node)| node)));
        let invitation = invitation.ok_or_else(|| {
            bad(format!("a token is for 1 to {MAX_COUNT} nodes"), "Choose a smaller number")
        })?;
        self.add(issuer, invitation, what).await?;
        tracing::info!(names, count, seconds = lasts, "a token for nodes that join was made");
        let addresses = self.addresses.clone();
        Ok(InviteAnswer {
            version: VERSION,
            token: token.to_string(),
            expires: token.expires(),
            count,
            names,
            addresses,
        })
    }

    /// Keeps an invitation, in the place of one that has expired where there are many.
    async fn add(
        &self,
        issuer: &Issuer,
        invitation: Invitation,
        what: &str,
    ) -> Result<(), ApiError> {
        let mut invitations = issuer.invitations.lock().await;
        let mut all = invitations.clone();
        while all.len() >= MAX_INVITATIONS {
            let Some(oldest) = all.iter().position(|one| one.has_expired(issuer.now())) else {
                let why = format!("{MAX_INVITATIONS} tokens are valid still");
                let advice = "Use these, or wait until one has expired";
                return Err(ApiError::new(ErrorCode::WrongState, what, why, advice));
            };
            all.remove(oldest);
        }
        all.push(invitation);
        self.save(all.clone()).await?;
        *invitations = all;
        Ok(())
    }

    /// Signs the certificate of a client of exports.
    ///
    /// # Errors
    /// If the authority's key does not lie here, or no client can be called so.
    pub fn certify_client(
        &self,
        request: &ClientCertificateRequest,
    ) -> Result<ClientCertificateAnswer, ApiError> {
        let what = "no certificate was made";
        let issuer = self.here(what)?;
        let bad = |why: String, advice| ApiError::new(ErrorCode::BadRequest, what, why, advice);
        let key = PublicKey::from_pem(&request.public_key).ok_or_else(|| {
        let why = "the public key is none of ECDSA on P-256, as PEM";
        bad(why.to_owned(), "Make one by `openssl ecparam -genkey -name prime256v1`, and give what `openssl pkey -pubout` writes")
    })?;
        if !(DAY..=MAX_CLIENT_VALIDITY).contains(&request.seconds) {
            let most = MAX_CLIENT_VALIDITY / DAY;
            let why = format!("a client's certificate is valid for 1 to {most} days");
            return Err(bad(why, "Choose another time"));
        }
        let made = issuer.certify_client(&request.name, &key, request.seconds);
        let (certificate, expires) = made.map_err(|error| match error {
            SignError::Name(_) => bad(error.to_string(), "Give the client another name"),
            _ => ApiError::new(ErrorCode::System, what, error.to_string(), "Set this node's clock"),
        })?;
        tracing::info!(client = request.name, expires, "signed the certificate of a client");
        Ok(ClientCertificateAnswer {
            version: VERSION,
            name: request.name.clone(),
            certificate: pem::encode(pem::CERTIFICATE, &certificate),
            authority: pem::encode(pem::CERTIFICATE, &issuer.certificate),
            expires,
        })
    }

    /// A node that belongs to the cluster, by its name or identity.
    async fn member(&self, name: &str) -> Result<(String, NodeId), ApiError> {
        let known = self.nodes().await.unwrap_or_default();
        let found = find_node(&known, name)
            .and_then(|known| Some((known.node.name.clone(), known.node.id.parse().ok()?)));
        found.ok_or_else(|| {
            let why = format!("no node of the cluster is named {name}");
            let advice = "See `evenkeel node status`; to invite a new node, leave --member away";
            ApiError::new(ErrorCode::NoSuchNode, "nobody was invited", why, advice)
        })
    }

    /// Lets a node in that has a token, over a connection on which it has shown no certificate. One
    /// request is read and answered, and nothing else.
    ///
    /// # Errors
    /// If it is not let in (it has been told why), or says something else.
    pub async fn admit_joiner(self: &Arc<Self>, stream: &mut PeerStream) -> Result<(), String> {
        let channel = stream.export(CHANNEL_LABEL).ok_or("it is not encrypted by TLS 1.3")?;
        let length = usize::from(stream.read_u16().await.map_err(|e| e.to_string())?);
        if length > exchange::MAX_REQUEST {
            return Err("what it sent without a certificate is no request to join".into());
        }
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).await.map_err(|e| e.to_string())?;
        let request = JoinRequest::decode(&bytes).map_err(|e| e.to_string())?;
        // The connection may end at any time; what is stored of a token and what is known of it may
        // not differ then.
        let (at, asked) = (self.clone(), request.clone());
        let admitted = tokio::spawn(async move { at.admit(&asked, &channel).await }).await;
        let admitted = admitted.map_err(|e| e.to_string())?;
        let answer = match &admitted {
            Ok(made) => JoinAnswer::Admitted {
                cluster: made.cluster,
                made: made.made,
                certificate: made.certificate.to_vec(),
            },
            Err(why) => JoinAnswer::Refused { why: why.clone() },
        };
        stream.write_all(&answer.encode()).await.map_err(|e| e.to_string())?;
        stream.shutdown().await.map_err(|e| e.to_string())?;
        let JoinRequest { node: id, name, .. } = request;
        admitted
            .map_err(|why| format!("node {name} ({id}), which wants to join, is refused: {why}"))?;
        tracing::info!(%id, name, "gave a certificate to a node that had a token");
        Ok(())
    }

    async fn admit(
        &self,
        request: &JoinRequest,
        channel: &[u8; 32],
    ) -> Result<Certificate, String> {
        let Some(issuer) = &self.issuer else {
            return Err(format!(
                "{NOT_HERE}: give the address of the node that has made the token"
            ));
        };
        // Whoever has no token is not told who the members are.
        let mut invitations = issuer.invitations.lock().await;
        let mut all = invitations.clone();
        let known = all.iter_mut().find(|invitation| invitation.id() == request.token);
        let invitation = known.ok_or_else(|| Refused::Unknown.to_string())?;
        let is_new = invitation.admit(request, channel, issuer.now()).map_err(|e| e.to_string())?;
        let is_for_member = invitation.is_for_member();
        if let Some(why) = self.cluster.peers().removed(request.node) {
            return Err(why);
        }
        if is_new {
            // A node that was removed leaves its name to the next one.
            let is_other =
                |id: &NodeId| *id != request.node && self.cluster.peers().removed(*id).is_none();
            let other = all.iter().flat_map(|one| one.users(&request.name)).find(is_other);
            let nodes = self.nodes().await.ok_or("the coordinator does not answer: try again")?;
            if let Some(why) = conflict(&nodes, request, is_for_member) {
                return Err(why);
            }
            if let Some(other) = other {
                return Err(format!(
                    "another node ({other}) was let in as {}: give this one another name in its configuration file, and restart it",
                    request.name
                ));
            }
            self.save(all.clone()).await.map_err(|e| e.to_string())?;
            *invitations = all;
        }
        issuer.certify(&request.name, request.node, &request.key)
    }

    /// A new certificate for a member that has proved who it is by its present one.
    ///
    /// # Errors
    /// If the authority's key does not lie here, or the node is no member.
    pub async fn certify(
        &self,
        caller: &Caller,
        key: &PublicKey,
    ) -> Result<NewCertificate, ApiError> {
        let what = "no certificate was made";
        let Some(issuer) = &self.issuer else {
            let advice = "Ask the coordinator's node";
            return Err(ApiError::new(ErrorCode::WrongState, what, NOT_HERE, advice));
        };
        let id = caller.node.to_string();
        let known = self.nodes().await.unwrap_or_default();
        let is_caller =
            |known: &NodeLiveness| known.node.id == id && known.node.name == caller.name;
        let Some(known) = known.into_iter().find(is_caller) else {
            let why = "the coordinator knows no node of that identity and name";
            let advice = "Join by a token: `evenkeel node join ADDRESS --token TOKEN`";
            return Err(ApiError::new(ErrorCode::NotAuthorised, what, why, advice));
        };
        let made = issuer.certify(&known.node.name, caller.node, key).map_err(|why| {
            ApiError::new(ErrorCode::System, what, why, "See the log of the coordinator's node")
        })?;
        tracing::info!(%id, name = known.node.name, "renewed a node's certificate");
        Ok(NewCertificate::new(made.cluster, made.made, &made.certificate))
    }
}

/// Why a node cannot have a certificate for the first time, or for another key: it would be that of
/// a member.
fn conflict(nodes: &[NodeLiveness], request: &JoinRequest, is_for_member: bool) -> Option<String> {
    let (id, name) = (request.node.to_string(), &request.name);
    let of_id = nodes.iter().find(|known| known.node.id == id);
    let of_name = nodes.iter().find(|known| known.node.name == *name);
    match (of_id, of_name) {
        (None, None) => None,
        (Some(known), _) if known.node.name != *name => {
            Some(format!("this identity belongs to node {}, which keeps its name", known.node.name))
        }
        (Some(_), _) if is_for_member => None,
        (Some(_), _) => Some(format!(
            "node {name} belongs to the cluster already: make a token for it alone by `evenkeel node invite --member NODE`"
        )),
        (None, Some(_)) => Some(format!(
            "another node of the cluster is named {name}: give this one another name in its configuration file, and restart it"
        )),
    }
}

#[cfg(test)]
mod tests;
