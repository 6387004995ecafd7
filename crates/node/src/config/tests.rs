use super::*;

#[test]
fn an_empty_file_gives_the_defaults() {
    assert_eq!(Config::parse("").unwrap(), Config::default());
    assert_eq!(Config::default().settings(), Settings::default());
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    let message = |text| Config::parse(text).unwrap_err().message;
    assert!(message("[peer]\nlisen = []").contains("did you mean `listen`?"));
    assert!(message("listen = []").contains("there is one in [metrics]"));
    assert!(message("[pear]\nx = 1").contains("did you mean `peer`?"));
    assert!(message("[log]\nstate = 1").contains("at the top"));
    assert!(message("[coordinator]\nqqqqqqqqqqqqqqqqqq = 1").contains("known are: here, join"));
}

#[test]
fn a_key_that_was_renamed_is_told_by_its_new_name() {
    for (table, before, now) in [
        ("peer", "most_unproved", "max_unauthenticated"),
        ("data", "longest_poll_us", "max_poll_us"),
        ("times", "settle_after_ms", "stabilize_after_ms"),
        ("nbd", "most_clients", "max_clients"),
    ] {
        let error = Config::parse(&format!("[{table}]\n{before} = 1")).unwrap_err().message;
        assert!(
            error.contains(&format!("`{before}` in [{table}] is called `{now}` now")),
            "{error}"
        );
        assert!(keys::all().contains(&format!("{table}.{now}")));
    }
}

#[test]
fn a_key_that_is_gone_is_told_with_what_replaces_it() {
    let error = Config::parse("[peer]\nkey_file = \"/etc/evenkeel/key\"").unwrap_err().message;
    assert!(error.starts_with("`key_file` in [peer] is gone; "), "{error}");
    for command in ["evenkeel cluster init", "evenkeel node invite", "evenkeel node join"] {
        assert!(error.contains(command), "{error}");
    }
}

#[test]
fn listening_on_tcp_needs_a_proof_also_on_loopback() {
    let unproved = |text: &str| {
        let mut config = Config::parse(text).unwrap();
        config.state = "/nowhere".into();
        crate::certificates::unproved(&config)
    };
    // On loopback each user of this machine could connect.
    for address in ["192.0.2.1:7740", "127.0.0.1:0", "[::1]:7740", "localhost"] {
        let listen = format!("[peer]\nlisten = [\"{address}\"]");
        let why = unproved(&listen).unwrap();
        let without = format!(
            "peer.listen = {address:?}: nobody is served there yet, for this node has no certificate: "
        );
        assert!(why.starts_with(&without) && why.contains("unix:PATH"), "{why}");
        assert!(why.contains("evenkeel node join"), "{why}");
        let here = unproved(&format!("{listen}\n[coordinator]\nhere = true")).unwrap();
        assert!(here.contains("evenkeel cluster init"), "{here}");
        let external =
            "[peer.tls]\ncertificate = \"/c\"\nkey = \"/k\"\nauthority = \"/a\"\nnodes = [\"n*\"]";
        assert_eq!(unproved(&format!("{listen}\n{external}")), None);
    }
    assert_eq!(unproved("[peer]\nlisten = [\"unix:/run/e.sock\"]"), None);
    let config = Config::parse("runtime = \"/run/x\"").unwrap();
    assert_eq!(config.peer_listen(), ["unix:/run/x/peer.sock"]);
}

#[test]
fn exports_beyond_loopback_need_clients_that_prove_themselves_or_a_word_of_consent() {
    let listen = "[nbd]\nlisten = [\"127.0.0.1:10809\", \"192.0.2.1:10809\"]";
    // Unless something else is said, clients show certificates of the cluster's own authority.
    let by_cluster = |text: &str| check::is_nbd_by_cluster(&Config::parse(text).unwrap());
    assert!(by_cluster(listen));
    // Encryption without an authority lets everybody in.
    let encrypted = format!("{listen}\n[nbd.tls]\ncertificate = \"/c\"\nkey = \"/k\"");
    let error = Config::parse(&encrypted).unwrap_err().message;
    assert!(error.contains("192.0.2.1") && error.contains("insecure = true"), "{error}");
    assert!(!by_cluster(&format!("{encrypted}\nauthority = \"/a\"")));
    assert!(!by_cluster(&format!("{listen}\ninsecure = true")));
    assert!(!by_cluster("[nbd]\nlisten = [\"127.0.0.1:10809\", \"[::1]:10809\"]"));
    // The cluster has no authority of its own.
    let external =
        "[peer.tls]\ncertificate = \"/c\"\nkey = \"/k\"\nauthority = \"/a\"\nnodes = [\"n1\"]";
    let error = Config::parse(&format!("{listen}\n{external}")).unwrap_err().message;
    assert!(error.contains("[nbd.tls]") && error.contains("insecure = true"), "{error}");
}

#[test]
fn an_external_authority_says_only_with_a_list_who_is_a_node() {
    let external = "[peer.tls]\ncertificate = \"/c\"\nkey = \"/k\"\nauthority = \"/a\"";
    for without in [external, &format!("{external}\nnodes = []")] {
        let error = Config::parse(without).unwrap_err().message;
        assert!(
            error.contains("[peer.tls] names no nodes") && error.contains("nodes = ["),
            "{error}"
        );
    }
    Config::parse(&format!("{external}\nnodes = [\"n1\"]")).unwrap();
}

#[test]
fn metrics_beyond_loopback_need_a_word_of_consent() {
    let listen = |address: &str| format!("[metrics]\nlisten = \"{address}\"");
    let error = Config::parse(&listen("0.0.0.0:7741")).unwrap_err().message;
    assert!(error.contains("0.0.0.0:7741") && error.contains("insecure = true"), "{error}");
    Config::parse(&format!("{}\ninsecure = true", listen("0.0.0.0:7741"))).unwrap();
    Config::parse(&listen("127.0.0.1:7741")).unwrap();
}

#[test]
fn an_address_for_all_interfaces_needs_an_advertised_one() {
    let text = "[peer]\nlisten = [\"0.0.0.0:7740\"]";
    assert!(Config::parse(text).unwrap_err().message.contains("peer.advertise"));
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    for text in [
        "cluster = \"a b\"",
        "name = \"-x\"",
        "state = \"relative\"",
        "[times]\ndeadline_ms = 1",
        "[data]\nmemory_per_volume = \"1K\"",
        "[data]\nmemory_per_volume = \"1Q\"",
        "[coordinator]\nhere = true\njoin = \"a:1\"",
        "[metrics]\nlisten = \"unix:/a\"",
        "[nbd]\nmost_clients = 0",
        "[nvme]\nlisten = [\"unix:/run/nvme.sock\"]",
        "[peer]\nlisten = [\"nonsense:port\"]",
    ] {
        assert!(Config::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_value_of_another_kind_is_told_in_words() {
    for (text, words) in [
        ("[times]\ndeadline_ms = \"5s\"", "this is a text: \"5s\", expected a whole number"),
        ("[times]\ndeadline_ms = -1", "this is out of range: `-1`, expected a whole number"),
        ("[coordinator]\nhere = 1", "this is a number: `1`, expected true or false"),
        ("[peer]\nlisten = \"x\"", "this is a text: \"x\", expected a list"),
        ("name = 5", "this is a number: `5`, expected a text in quotation marks"),
    ] {
        let message = Config::parse(text).unwrap_err().message;
        assert!(message.contains(words), "{text}: {message}");
    }
}

#[test]
fn addresses_are_read() {
    let tcp = |text: &str| Address::Tcp(text.into());
    assert_eq!(Address::parse("a:1").unwrap(), tcp("a:1"));
    assert_eq!(Address::parse("a").unwrap(), tcp("a:7740"));
    assert_eq!(Address::parse("[::1]:5").unwrap(), tcp("[::1]:5"));
    assert_eq!(Address::parse("unix:/a").unwrap(), Address::Unix("/a".into()));
    assert!(Address::parse("unix:a").is_err());
    assert!(Address::parse(":1").is_err());
}

#[test]
fn the_example_file_names_every_key_and_changes_none() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/evenkeel.toml");
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(Config::parse(&text).unwrap(), Config::default());
    // The keys stand in comments; with the `#` taken away they must be known ones.
    let mut found: Vec<String> = shown(&text).into_iter().map(|(key, _)| key).collect();
    let mut known = keys::all();
    known.sort();
    found.sort();
    assert_eq!(found, known);
}

/// Keys that are not set by default, or by the machine: the text beside them says so, and what is
/// shown is an example.
const EXAMPLES: [&str; 14] = [
    "name",
    "api.socket",
    "metrics.listen",
    "peer.tls.certificate",
    "peer.tls.key",
    "peer.tls.authority",
    "peer.tls.nodes",
    "coordinator.join",
    "data.workers",
    "nbd.listen",
    "nvme.listen",
    "nbd.tls.certificate",
    "nbd.tls.key",
    "nbd.tls.authority",
];

/// The tables and keys of a text, with what they are set to; also those in comments.
fn shown(text: &str) -> Vec<(String, String)> {
    let mut table = String::new();
    let mut shown = Vec::new();
    for line in text.lines().map(|line| line.strip_prefix('#').unwrap_or(line)) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            table = format!("{name}.");
        } else if let Some((key, value)) = line.split_once(" = ").filter(|(k, _)| !k.contains(' '))
        {
            shown.push((format!("{table}{key}"), value.to_owned()));
        }
    }
    shown
}

#[test]
fn each_value_that_the_example_file_shows_is_the_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/evenkeel.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let shown = shown(&text);
    let is_example = |key: &str| EXAMPLES.contains(&key);
    assert_eq!(shown.iter().filter(|(key, _)| is_example(key)).count(), EXAMPLES.len());
    // Each by itself, written as a dotted key, so that a failure names it.
    for (key, value) in shown.iter().filter(|(key, _)| !is_example(key)) {
        let mut config: toml::Table = toml::Table::try_from(Config::default()).unwrap();
        let written: toml::Table = format!("{key} = {value}").parse().unwrap();
        merge(&mut config, written);
        let config: Config = config.try_into().unwrap();
        assert_eq!(config, Config::default(), "{key} = {value} is not the default");
    }
    let client = format!("each with {} KiB of memory", evenkeel_exports::RECEIVE_BUFFER >> 10);
    assert!(text.contains(&client), "{client}");
}

fn merge(into: &mut toml::Table, from: toml::Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(value)) => merge(inner, value),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

#[test]
fn the_manual_names_every_key() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    for key in keys::all() {
        let last = key.rsplit('.').next().unwrap();
        let named = text.contains(&format!("`{key}`"))
            || (key.contains("tls.") && text.contains(&format!("`.{last}`")));
        assert!(named, "{key} is missing");
    }
}

/// The rows of the manual's table of keys: the keys, each in full, and the cell with their default.
fn documented(text: &str) -> Vec<(String, String)> {
    let (_, table) = text.split_once("| key | default | meaning |\n").unwrap();
    let rows = table.lines().skip(1).take_while(|line| line.starts_with("| "));
    let keys = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (mut table, default) = (String::new(), cells[2].to_owned());
        let keys = cells[1].split(", ").map(|key| key.trim_matches('`'));
        let full = keys.map(|key| match key.strip_prefix('.') {
            Some(last) => format!("{table}.{last}"),
            None => {
                table = key.rsplit_once('.').map_or("", |(table, _)| table).to_owned();
                key.to_owned()
            }
        });
        full.map(|key| (key, default.clone())).collect::<Vec<_>>()
    };
    rows.flat_map(keys).collect()
}

#[test]
fn each_default_in_the_manual_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let documented = documented(&std::fs::read_to_string(path).unwrap());
    let mut keys: Vec<String> = documented.iter().map(|(key, _)| key.clone()).collect();
    let mut known = keys::all();
    known.sort();
    keys.sort();
    assert_eq!(keys, known, "each key once");
    for (key, default) in documented {
        // What depends on the machine or on another key is told in words.
        if EXAMPLES.contains(&key.as_str()) || key == "peer.advertise" {
            let written = format!("x = {default}").parse::<toml::Table>();
            assert!(written.is_err() || key == "peer.advertise", "{key} = {default}");
            continue;
        }
        let written = format!("{key} = {}", default.trim_matches('`')).parse::<toml::Table>();
        let written = written.unwrap_or_else(|error| panic!("{key} = {default}: {error}"));
        let mut config = toml::Table::try_from(Config::default()).unwrap();
        merge(&mut config, written);
        let config: Config = config.try_into().unwrap();
        assert_eq!(config, Config::default(), "{key} = {default} is not the default");
    }
}

#[test]
fn a_level_of_the_log_that_does_not_exist_is_refused() {
    let parse = |level: &str| Config::parse(&format!("[log]\nlevel = {level:?}"));
    for level in ["error", "INFO", "info,evenkeel_engine=debug", "off"] {
        parse(level).unwrap();
    }
    let message = parse("loud").unwrap_err().message;
    let expected =
        "log.level = \"loud\": \"loud\" is no level; use error, warn, info, debug or trace";
    assert!(message.starts_with(expected), "{message}");
}
