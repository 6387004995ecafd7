use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_file_names_hosts_and_their_secrets() {
    let text = "# of music\nnqn.a DHHC-1:00:a:\n\n  nqn.b\tDHHC-1:00:b: DHHC-1:00:c:  \n";
    let read = parse(text).unwrap();
    let of = |host: &str, secret: &str, controller: Option<&str>| NvmeSecrets {
        host: host.into(),
        secret: secret.into(),
        controller_secret: controller.map(str::to_owned),
    };
    let expected =
        [of("nqn.a", "DHHC-1:00:a:", None), of("nqn.b", "DHHC-1:00:b:", Some("DHHC-1:00:c:"))];
    assert_eq!(read, expected);
    for (text, expected) in [
        ("", "it names no host"),
        ("# nobody\n", "it names no host"),
        ("nqn.a DHHC-1:00:a:\nnqn.b\n", "line 2 has 1 fields"),
        ("nqn.a DHHC-1:00:a: b c\n", "line 1 has 4 fields"),
    ] {
        assert_eq!(parse(text).unwrap_err(), expected);
    }
}

#[test]
fn a_file_that_others_may_read_is_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secrets");
    std::fs::write(&path, "nqn.a DHHC-1:00:a:\n").unwrap();
    let mode = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        read(&path)
    };
    for open in [0o640, 0o604, 0o620] {
        let failure = mode(open).unwrap_err();
        assert!(failure.why.contains(&format!("{open:04o}")), "{failure:?}");
        assert!(failure.remedy.contains("0600"), "{failure:?}");
    }
    assert_eq!(mode(0o600).unwrap().len(), 1);
    assert_eq!(mode(0o400).unwrap().len(), 1);
    mode(0o600).unwrap();
    std::fs::write(&path, " ".repeat(1 + (64 << 10))).unwrap();
    assert!(read(&path).unwrap_err().why.contains("64 KiB"));
    let missing = read(&directory.path().join("none")).unwrap_err();
    assert!(missing.what.contains("none"), "{missing:?}");
}

#[test]
fn a_host_is_told_what_connects_it() {
    let answer = |address: &str, controller_secret: Option<&str>| -> ExportAnswer {
        serde_json::from_value(serde_json::json!({
            "version": 1,
            "export": {
                "kind": "nvme", "node": {"id": "", "name": "n1"}, "socket": null,
                "tcp": [address], "tls": false, "read_only": false, "uris": [], "clients": 0,
                "nvme": {"subsystem": "nqn.s", "hosts": ["nqn.a"], "connected": []},
            },
            "nvme_secrets": [
                {"host": "nqn.a", "secret": "DHHC-1:01:x:", "controller_secret": controller_secret},
            ],
        }))
        .unwrap()
    };
    let text = reported("music", &answer("10.0.0.1:4420", None));
    let expected = "Exported volume music: nvme by n1
            nqn.s on 10.0.0.1:4420
            for nqn.a

To be run on nqn.a; what is secret in it is not shown again:
  nvme connect -t tcp -a 10.0.0.1 -s 4420 -n nqn.s --hostnqn nqn.a --dhchap-secret DHHC-1:01:x:
";
    assert_eq!(text, expected);
    let text = reported("music", &answer("[::]:4421", Some("DHHC-1:01:y:")));
    let expected = "  nvme connect -t tcp -a ADDRESS -s 4421 -n nqn.s --hostnqn nqn.a \
                    --dhchap-secret DHHC-1:01:x: --dhchap-ctrl-secret DHHC-1:01:y:\n";
    assert!(text.ends_with(expected), "{text}");
    let text = reported("music", &answer("[fd00::1]:4420", None));
    assert!(text.contains(" -a fd00::1 -s 4420 "), "{text}");
}
