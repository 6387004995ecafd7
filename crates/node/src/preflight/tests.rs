use super::*;

fn good(directory: &Path) -> Config {
    Config {
        state: directory.join("state/deep"),
        runtime: directory.join("run"),
        ..Config::default()
    }
}

#[test]
fn what_a_node_would_not_start_with_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    assert_eq!(problems(&good(directory.path())), Vec::<String>::new());
    std::fs::write(path("file"), "").unwrap();

    let mut config = good(directory.path());
    config.peer.tls = Some(crate::config::PeerTlsConfig {
        certificate: path("own.pem"),
        key: path("own.key"),
        authority: path("missing.pem"),
        nodes: vec!["n*".into()],
    });
    config.name = Some("m1".into());
    let unlisted = warnings(&config);
    assert!(unlisted.len() == 1 && unlisted[0].contains("does not name m1"), "{unlisted:?}");
    // It is called as its machine is.
    config.name = None;
    config.peer.tls.as_mut().unwrap().nodes = vec!["of-no-machine".into()];
    let unlisted = warnings(&config);
    assert!(unlisted.len() == 1 && unlisted[0].contains(&config.node_name()), "{unlisted:?}");
    config.name = Some("of-no-machine".into());
    assert_eq!(warnings(&config), Vec::<String>::new());
    config.nbd.tls = Some(crate::config::NbdTlsConfig {
        certificate: path("none.pem"),
        key: path("none.key"),
        authority: None,
    });
    config.metrics.listen = Some("no.such.host.invalid".into());
    config.state = path("file").join("state");
    let reported = problems(&config);
    let expected = [
        format!("peer.tls: {}", path("missing.pem").display()),
        format!("nbd.tls: {}", path("none.pem").display()),
        "metrics.listen = \"no.such.host.invalid\": ".into(),
        format!(
            "state = {:?} cannot be used: {} is no directory",
            config.state,
            path("file").display()
        ),
    ];
    assert_eq!(reported.len(), expected.len(), "{reported:#?}");
    for (reported, expected) in reported.iter().zip(expected) {
        assert!(reported.starts_with(&expected), "{reported} is not {expected}");
    }
}

#[test]
fn an_unknown_user_is_warned_of_and_keeps_no_node_from_starting() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = good(directory.path());
    assert_eq!(warnings(&config), Vec::<String>::new());
    config.api.operate = vec!["@no-such-group".parse().unwrap()];
    let reported = warnings(&config);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].starts_with("api.operate: \"@no-such-group\" gives nobody that right"));
    assert_eq!(problems(&config), Vec::<String>::new());
}
