//! A database as it was written before there was a `Store`: by raw tables, with the values of that
//! time.

use redb::{Database, ReadableDatabase as _, TableDefinition};

use super::*;

type Bytes = TableDefinition<'static, &'static str, &'static [u8]>;
type Text = TableDefinition<'static, &'static str, &'static str>;
type Number = TableDefinition<'static, &'static str, u64>;

const CLUSTER: Text = TableDefinition::new("cluster");
const NODES: Bytes = TableDefinition::new("nodes");
const VOLUMES: Bytes = TableDefinition::new("volumes");
const NAMES: Text = TableDefinition::new("names");
const VIEWS: Bytes = TableDefinition::new("views");
const DELETED: Number = TableDefinition::new("deleted");
const DRAFTS: Bytes = TableDefinition::new("drafts");
const GIVEN_UP: Number = TableDefinition::new("given-up");
const DISCARDED: Bytes = TableDefinition::new("discarded");
const STARTS: Bytes = TableDefinition::new("starts");
const REMOVED: Bytes = TableDefinition::new("removed-nodes");
const SILENT: Number = TableDefinition::new("silent");

const COORDINATOR: &str = "00000000-0000-0000-0000-000000000009";
const GAMMA: NodeId = NodeId(3);
const DRAFT: &str = "00000000-0000-0000-0000-0000000000d1";
const GIVEN: &str = "00000000-0000-0000-0000-0000000000d2";
const GONE: &str = "00000000-0000-0000-0000-0000000000d3";

/// What the software of that time stored of a member.
fn member(id: NodeId, name: &str) -> String {
    format!(
        r#"{{"id":"{id}","name":"{name}","addresses":["unix:/x"],"software":"0.1.0","incarnation":5,"counter":4}}"#
    )
}

/// Writes such a file, with the volume "web" of this view.
fn write(path: &Path, view: &View) {
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let bytes = |table: Bytes, rows: &[(&str, &[u8])]| {
            let mut table = transaction.open_table(table).unwrap();
            rows.iter().for_each(|(key, value)| drop(table.insert(key, value).unwrap()));
        };
        let numbers = |table: Number, rows: &[(&str, u64)]| {
            let mut table = transaction.open_table(table).unwrap();
            rows.iter().for_each(|(key, value)| drop(table.insert(key, value).unwrap()));
        };
        let texts = |table: Text, rows: &[(&str, &str)]| {
            let mut table = transaction.open_table(table).unwrap();
            rows.iter().for_each(|(key, value)| drop(table.insert(key, value).unwrap()));
        };
        let (alpha, beta, gamma) = (ALPHA.to_string(), BETA.to_string(), GAMMA.to_string());
        let (volume, replica) = (view.volume.to_string(), view.mirrors[0].replicas[0].id);
        texts(CLUSTER, &[("id", COORDINATOR), ("name", "shop"), ("configured", "test")]);
        let start = r#"{"counter":4,"incarnation":5,"before":[3],"has_left":false,"copies":[77]}"#;
        let (a, b) = (member(ALPHA, "alpha"), member(BETA, "beta"));
        bytes(NODES, &[(&alpha, a.as_bytes()), (&beta, b.as_bytes())]);
        bytes(STARTS, &[(&beta, start.as_bytes())]);
        numbers(SILENT, &[(&beta, 60_000)]);
        let removed = format!(r#"{{"id":"{gamma}","name":"gamma","at":1700000000}}"#);
        bytes(REMOVED, &[(&gamma, removed.as_bytes())]);
        let record = format!(
            r#"{{"id":"{volume}","name":"web","no_data":{{"policy":"suspend","seconds":120}},"replicas":[{{"id":"{replica}","mirror":0,"node":"{alpha}","disk":"d","removed":false}}],"stopped":false,"checksums":true}}"#
        );
        bytes(VOLUMES, &[(&volume, record.as_bytes())]);
        texts(NAMES, &[("web", &volume)]);
        bytes(VIEWS, &[(&volume, &evenkeel_format::encode_view(view).unwrap())]);
        let draft = format!(r#"{{"node":"{alpha}","incarnation":5}}"#);
        bytes(DRAFTS, &[(DRAFT, draft.as_bytes())]);
        numbers(GIVEN_UP, &[(GIVEN, 1_700_000_000)]);
        numbers(DELETED, &[(GONE, 1_700_000_000)]);
        bytes(DISCARDED, &[("00000000-0000-0000-0000-0000000000f1", draft.as_bytes())]);
    }
    transaction.commit().unwrap();
}

#[test]
fn a_database_of_the_software_before_is_read_and_written_in_its_form() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("coordinator.redb");
    let view = superblock(1 << 20).view;
    write(&path, &view);
    let coordinator = open(dir.path(), Duration::from_secs(10));
    assert_eq!(
        (coordinator.id().to_string().as_str(), coordinator.cluster().as_str()),
        (COORDINATOR, "shop")
    );
    let Answer::Volume(web) = coordinator.answer(Request::Read { volume: "web".into() }).unwrap()
    else {
        panic!("no volume")
    };
    assert_eq!(web.view.decode().unwrap(), view);
    let Answer::Nodes(nodes) = coordinator.answer(Request::Nodes).unwrap() else { panic!() };
    let names: Vec<_> = nodes.iter().map(|member| member.node.name.as_str()).collect();
    assert_eq!(names, ["alpha", "beta"]);
    let removed = coordinator.answer(Request::RemovedNodes).unwrap();
    assert!(matches!(removed, Answer::RemovedNodes(all) if all[0].name == "gamma"));
    let found = |volume: &str| FoundReplica { volume: volume.into(), replica: "x".into() };
    let fates = Request::Fates(vec![found(DRAFT), found(GIVEN), found(GONE)]);
    let Answer::Fates(fates) = coordinator.answer(fates).unwrap() else { panic!() };
    // How far a deleted volume had come was not noted then: what is left of it is kept.
    assert_eq!(fates, [Fate::Belongs, Fate::NeverMade, Fate::Unknown]);
    // A copy of beta's state directory was found then.
    let start = NodeRecord { incarnation: 77, counter: 9, ..node(BETA, "beta") };
    let caller = Caller { node: BETA, name: "beta".into(), start: None, at: "copy".into() };
    let copy = coordinator.handle(&caller, Request::Register(start.into())).unwrap();
    assert!(matches!(copy, Answer::Copy { .. }), "{copy:?}");

    swap(&coordinator, ALPHA, &view.successor());
    coordinator.answer(Request::GiveUp { volume: DRAFT.into() }).unwrap();
    coordinator.answer(Request::Heartbeat { node: BETA.to_string() }).unwrap();
    drop(coordinator);
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_read().unwrap();
    let views = transaction.open_table(VIEWS).unwrap();
    let stored = views.get(view.volume.to_string().as_str()).unwrap().unwrap();
    assert_eq!(evenkeel_format::decode_view(stored.value()).unwrap(), view.successor());
    assert!(transaction.open_table(GIVEN_UP).unwrap().get(DRAFT).unwrap().is_some());
    assert!(transaction.open_table(DRAFTS).unwrap().get(DRAFT).unwrap().is_none());
    let silent = transaction.open_table(SILENT).unwrap().get(BETA.to_string().as_str()).unwrap();
    assert!(silent.is_none(), "it was heard");
}
