//! The secrets of an NVMe export: given, made, or kept from before.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_api::types::{ExportNvmeRequest, NvmeGenerate, NvmeSecrets};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_exports::nvme::authentication::{Keys, SECRET_LENGTH, Secret};
use zeroize::Zeroizing;

use crate::coordinator::{NvmeKeys, WantedNvme};
use crate::nvme::{HostKeys, names};
use crate::random::fill_random;

/// What is exported by a request, with the secrets that were made for it. `before`: what is
/// exported until now; a host that gets no other key keeps the one that it has.
///
/// # Errors
/// If a secret is none, or is of a host that is not named.
pub(super) fn wanted(
    request: ExportNvmeRequest,
    before: Option<&WantedNvme>,
    what: &str,
) -> Result<(WantedNvme, Vec<NvmeSecrets>), ApiError> {
    let ExportNvmeRequest { hosts, read_only, secrets, generate } = request;
    let mut keys = BTreeMap::new();
    for NvmeSecrets { host, secret, controller_secret } in secrets {
        if !hosts.contains(&host) {
            let why = format!("a secret is given for {}, which is not named", names::shown(&host));
            return Err(bad(what, why, "Name each host that has a secret"));
        }
        let given = NvmeKeys { host: secret, controller: controller_secret };
        let read = read(&given);
        read.map_err(|why| bad(what, format!("{}: {why}", names::shown(&host)), FORM))?;
        if keys.insert(host.clone(), given).is_some() {
            let why = format!("two secrets are given for {}", names::shown(&host));
            return Err(bad(what, why, "Give each host one"));
        }
    }
    let mut made = Vec::new();
    for host in &hosts {
        if keys.contains_key(host) {
            continue;
        }
        let own = match generate {
            Some(which) => {
                let own = make(which);
                made.push(as_answer(host, &own));
                own
            }
            None => match before.and_then(|before| before.keys.get(host)) {
                Some(own) => own.clone(),
                None => continue,
            },
        };
        keys.insert(host.clone(), own);
    }
    Ok((WantedNvme { hosts, read_only, keys }, made))
}

const FORM: &str =
    "Give it as `nvme gen-dhchap-key` prints it, or have one made by `--generate-key`";

fn bad(what: &str, why: String, advice: &str) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, what, why, advice)
}

fn make(which: NvmeGenerate) -> NvmeKeys {
    let secret = || {
        let mut bytes = Zeroizing::new([0; SECRET_LENGTH]);
        fill_random(&mut *bytes);
        Secret::new(&bytes).text().to_string()
    };
    let controller = matches!(which, NvmeGenerate::Both).then(secret);
    NvmeKeys { host: secret(), controller }
}

fn as_answer(host: &str, keys: &NvmeKeys) -> NvmeSecrets {
    let NvmeKeys { host: secret, controller } = keys.clone();
    NvmeSecrets { host: host.to_owned(), secret, controller_secret: controller }
}

fn read(keys: &NvmeKeys) -> Result<Keys, String> {
    let host = Secret::read(&keys.host).map_err(|e| format!("its secret is none: {e}"))?;
    let controller = keys.controller.as_deref().map(Secret::read).transpose();
    let controller =
        controller.map_err(|e| format!("its secret of the controller is none: {e}"))?;
    if controller.as_ref().is_some_and(|controller| controller.has_key_of(&host)) {
        return Err("its secret and that of the controller are the same".to_owned());
    }
    Ok(Keys { host, controller })
}

/// The keys with which its hosts prove who they are.
///
/// # Errors
/// If what is remembered is damaged, or two hosts have one key.
pub(super) fn keys(wanted: &WantedNvme, what: &str) -> Result<HostKeys, ApiError> {
    let of = |(host, keys): (&String, &NvmeKeys)| match read(keys) {
        Ok(keys) => Ok((host.clone(), Arc::new(keys))),
        Err(why) => Err(bad(what, format!("{}: {why}", names::shown(host)), FORM)),
    };
    let keys: HostKeys = wanted.keys.iter().map(of).collect::<Result<_, _>>()?;
    refuse_one_for_two(&keys, what)?;
    Ok(keys)
}

/// A host that had another one's key could be that host, or the node for it.
fn refuse_one_for_two(keys: &HostKeys, what: &str) -> Result<(), ApiError> {
    let of_others = |host: &str, secret: &Secret| {
        keys.iter().any(|(name, keys)| {
            let theirs = [Some(&keys.host), keys.controller.as_ref()];
            name != host && theirs.into_iter().flatten().any(|own| own.has_key_of(secret))
        })
    };
    match keys.iter().find(|(host, keys)| of_others(host, &keys.host)) {
        Some((host, _)) => {
            let why = format!("{} has the key of another host", names::shown(host));
            Err(bad(what, why, "Give each host a key of its own"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
