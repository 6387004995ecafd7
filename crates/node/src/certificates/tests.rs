use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;

fn config(place: &Path) -> Config {
    let mut config = Config {
        name: Some("a".into()),
        state: place.join("state"),
        runtime: place.join("run"),
        ..Config::default()
    };
    config.coordinator.here = true;
    config
}

fn mode(config: &Config, name: &str) -> u32 {
    fs::metadata(config.state.join(name)).unwrap().permissions().mode() & 0o777
}

fn opened(config: &Config, name: &str) -> Result<Option<Opened>, String> {
    crate::peer::tls::install_provider();
    let state = StateDirectory::open(&config.state).unwrap();
    let node = identity::node_id(&state).unwrap();
    open(&state, name, node)
}

#[test]
fn an_authority_is_made_once_and_for_nobody_else_to_read() {
    let place = tempfile::tempdir().unwrap();
    let config = config(place.path());
    assert!(opened(&config, "a").unwrap().is_none());
    let founded = init(&config).unwrap();
    assert_eq!(founded.fingerprint.len(), 32);
    for name in [AUTHORITY_KEY, AUTHORITY, KEY, FILE] {
        assert_eq!(mode(&config, name), 0o600, "{name}");
    }
    let before = fs::read(&founded.key).unwrap();
    let again = init(&config).unwrap_err();
    assert!(again.contains("already"), "{again}");
    assert_eq!(fs::read(&founded.key).unwrap(), before);
    assert!(opened(&config, "a").unwrap().unwrap().issuer.is_some());
}

#[test]
fn an_authority_is_not_made_where_it_would_be_of_no_use() {
    let place = tempfile::tempdir().unwrap();
    let mut elsewhere = config(place.path());
    elsewhere.coordinator.here = false;
    assert!(init(&elsewhere).unwrap_err().contains("here = true"));
    let config = config(place.path());
    let held = StateDirectory::open(&config.state).unwrap();
    assert!(init(&config).unwrap_err().contains("in use by process"));
    drop(held);
    init(&config).unwrap();
}

#[test]
fn an_init_that_was_cut_off_goes_on_with_its_key() {
    let place = tempfile::tempdir().unwrap();
    let config = config(place.path());
    let founded = init(&config).unwrap();
    // As if it had ended before its last step.
    fs::remove_file(config.state.join(FILE)).unwrap();
    assert_eq!(init(&config).unwrap().fingerprint, founded.fingerprint);
}

#[test]
fn the_authoritys_node_renews_its_own_certificate_at_the_start() {
    let place = tempfile::tempdir().unwrap();
    let config = config(place.path());
    init(&config).unwrap();
    let made = |name: &str| {
        opened(&config, name).unwrap();
        let state = StateDirectory::open(&config.state).unwrap();
        Certificate::load(&state).unwrap().unwrap()
    };
    let first = made("a");
    assert_eq!(made("a"), first);
    // It has another name; then it was off for long.
    let renamed = made("b");
    assert_ne!(renamed, first);
    let state = StateDirectory::open(&config.state).unwrap();
    let old = Certificate { made: renamed.made - RENEWED_AFTER, ..renamed.clone() };
    old.save(&state).unwrap();
    drop(state);
    let renewed = made("b");
    assert!(renewed.made >= renamed.made && renewed.certificate != old.certificate);
}

/// Else it would be valid for ten years more, and the time of all tokens stand still.
#[test]
fn what_was_made_while_the_clock_was_ahead_is_made_anew() {
    let place = tempfile::tempdir().unwrap();
    let config = config(place.path());
    init(&config).unwrap();
    let state = StateDirectory::open(&config.state).unwrap();
    let present = Certificate::load(&state).unwrap().unwrap();
    let ahead = Certificate { made: present.made + 3650 * DAY, ..present.clone() };
    ahead.save(&state).unwrap();
    drop(state);
    opened(&config, "a").unwrap();
    let state = StateDirectory::open(&config.state).unwrap();
    let renewed = Certificate::load(&state).unwrap().unwrap();
    assert!((present.made..present.made + DAY).contains(&renewed.made), "{}", renewed.made);
}

#[test]
fn a_certificate_is_due_when_a_third_of_its_time_is_left() {
    let certificate = Certificate {
        cluster: CoordinatorId(1),
        made: 1_700_000_000,
        authority: Vec::new().into(),
        certificate: Vec::new().into(),
    };
    let days = |days: u64| 1_700_000_000 + days * 86_400;
    // A clock at 1970 is wrong, and no reason to renew.
    for (now, is_due) in [(0, false), (days(59), false), (days(60), true), (days(4000), true)] {
        assert_eq!(certificate.is_due(now), is_due, "{now}");
    }
}

#[test]
fn files_that_do_not_belong_together_are_told() {
    let place = tempfile::tempdir().unwrap();
    let config = config(place.path());
    init(&config).unwrap();
    let other = pem::encode(pem::PRIVATE_KEY, Key::generate().unwrap().pkcs8());
    let reported = |name: &str, text: &str| {
        let path = config.state.join(name);
        let before = fs::read(&path).unwrap();
        fs::write(&path, text).unwrap();
        let why = opened(&config, "a").err().unwrap();
        fs::write(&path, before).unwrap();
        why
    };
    assert!(reported(KEY, &other).contains("do not belong together"));
    assert!(reported(KEY, "x").contains("no private key"));
    assert!(reported(AUTHORITY_KEY, &other).contains("is not the key of the authority"));
    assert!(reported(FILE, "{}").contains("cannot be read as JSON"));
    // The authority's key may be kept elsewhere: only joining and renewing want it.
    fs::remove_file(config.state.join(AUTHORITY_KEY)).unwrap();
    assert!(opened(&config, "a").unwrap().unwrap().issuer.is_none());
    fs::remove_file(config.state.join(KEY)).unwrap();
    assert!(opened(&config, "a").err().unwrap().contains("is missing"));
}
