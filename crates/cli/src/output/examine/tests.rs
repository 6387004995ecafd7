use super::*;

/// A replica whose copy A is damaged, with open regions and a bitmap.
fn answer() -> ExamineAnswer {
    let text = r#"{
        "version": 1, "warnings": [],
        "replicas": [{
            "path": "/d/3fa9.replica", "size": 12582912, "device": false, "used_by": 42,
            "verdict": "impaired",
            "problems": [{"why": "superblock copy A is bad", "do": "Nothing by hand"}],
            "superblocks": [
                {"copy": "A", "offset": 0, "verdict": "damaged", "counts": false, "problem": "x"},
                {"copy": "B", "offset": 524288, "verdict": "good", "counts": true, "format": 1,
                 "checksum": "0badcafe", "sequence": 9, "generation": 7,
                 "writer": "evenkeel 0.1.0", "features": [0, 0, 0]}
            ],
            "replica": {
                "id": "3fa9c1d2-0000-0000-0000-000000000000", "mirror": 0,
                "volume_id": "5e", "volume": "music", "incarnation": "00000000000000ff",
                "data_offset": 1048576, "data_size": 8388608, "metadata_offset": 9437184, "has_checksums": true,
                "view": {
                    "generation": 7, "parent": 6, "history": "l", "coordinator": "c",
                    "epochs": [{"coordinator": "old", "history": "l", "last": 5, "ended": null}],
                    "size": 8388608, "block_size": 512, "chunk": 65536, "protocol": "C", "bitmap": "internal",
                    "primaries": [],
                    "mirrors": [[
                        {"id": "3fa9c1d2-0000", "this": true, "node": "aaaaaaaa-1", "state": "in-sync",
                         "cause": null, "since": 1, "missing_since": null, "incarnation": "0"},
                        {"id": "0badcafe-0000", "this": false, "node": "bbbbbbbb-1", "state": "stale",
                         "cause": "restarted", "why": "its node restarted", "since": 6, "missing_since": 6, "incarnation": "0"}
                    ]]
                },
                "intents": {"places": 64, "region_size": 1048576, "slots": [{
                    "slot": 0, "holder": null, "sequences": [null, 2], "events": 2, "cleared": 1, "copies": ["damaged", "good"],
                    "all_open": false, "region_size": 1048576, "open": [0, 7], "bytes": 2097152
                }]},
                "bitmaps": [{"place": 0, "replica": "0badcafe-0000", "since": 6, "counts": true,
                    "blocks": 3, "bytes": 12288}]
            }
        }]
    }"#;
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_replica_is_shown_with_all_that_its_disk_says() {
    let expected = "\
/d/3fa9.replica: a replica that can be used, and something is damaged, in use by process 42
  why  superblock copy A is bad
  do   Nothing by hand
  superblock   copy A at 0: damaged
  superblock   copy B at 524288: good, counts, checksum 0badcafe is right, sequence 9, generation 7, format 1, by evenkeel 0.1.0, no features
  volume       music (5e), mirror 0
  replica      3fa9c1d2-0000-0000-0000-000000000000, incarnation 00000000000000ff
  data         8M from byte 1048576; bitmaps from byte 9437184; a checksum for each block
  view         generation 7 after 6, history l, coordinator c
  layout       8M, protocol C, block size 512, chunk 64K, bitmap internal
  attached     nowhere: it was detached cleanly
  before       up to generation 5: coordinator old, history l
  intent log   slot 0: events 2, cleared 1, 2 of 64 places open, 2M may differ, 1M each; copy A damaged, copy B good with sequence 2
               regions 0, 7
  bitmap       place 0: replica 0badcafe is out of sync in 3 blocks, 12K, since generation 6

  MIRROR  REPLICA   NODE      STATE    SINCE
       0  3fa9c1d2  aaaaaaaa  in-sync      1  this replica
       0  0badcafe  bbbbbbbb  stale        6  its node restarted, out of sync since generation 6
";
    assert_eq!(page(&answer()), expected);
}

#[test]
fn many_open_regions_are_cut_short() {
    let mut answer = answer();
    let slot = &mut answer.replicas[0].replica.as_mut().unwrap().intents.slots[0];
    slot.open = (0..100).collect();
    assert!(page(&answer).contains("13, 14, 15 and 84 more\n"), "{}", page(&answer));
}
