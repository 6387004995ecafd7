use super::*;

fn account(uid: u32, name: Option<&str>, groups: &[u32]) -> Account {
    Account { uid, name: name.map(str::to_owned), groups: groups.iter().copied().collect() }
}

/// The groups of these tests.
fn group(name: &str) -> Option<u32> {
    [("sudo", 27), ("staff", 50), ("alice", 1001), ("60", 61)]
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, number)| number)
}

fn entry(text: &str) -> Principal {
    text.parse().unwrap()
}

fn rights(view: &[&str], operate: &[&str], administer: &[&str]) -> Rights {
    let names = |all: &[&str]| all.iter().map(|name| entry(name)).collect();
    let config = ApiConfig {
        view: names(view),
        operate: names(operate),
        administer: names(administer),
        ..ApiConfig::default()
    };
    Rights { own: 990, ..Rights::new(&config) }
}

#[test]
fn a_user_has_the_highest_role_of_all_entries_that_mean_it() {
    let rights = rights(&["@staff", "eve"], &["@27", "bob"], &["alice", "1007"]);
    let cases = [
        (account(0, Some("root"), &[]), Some(Role::Administer)),
        (account(990, Some("evenkeel"), &[]), Some(Role::Administer)),
        (account(1001, Some("alice"), &[50]), Some(Role::Administer)),
        (account(1007, None, &[]), Some(Role::Administer)),
        (account(1002, Some("bob"), &[50]), Some(Role::Operate)),
        (account(1003, Some("carol"), &[27, 50]), Some(Role::Operate)),
        (account(1004, Some("dave"), &[50]), Some(Role::View)),
        (account(1005, Some("eve"), &[]), Some(Role::View)),
        (account(1006, Some("mallory"), &[1006]), None),
    ];
    for (account, role) in cases {
        assert_eq!(rights.role_with(&account, &group), role, "{account}");
    }
}

#[test]
fn the_name_of_a_group_is_not_that_of_a_user_nor_the_other_way_round() {
    let rights = rights(&[], &[], &["@alice", "staff", "@1008"]);
    assert_eq!(rights.role_with(&account(1002, Some("alice"), &[1002]), &group), None);
    assert_eq!(rights.role_with(&account(1003, Some("bob"), &[50]), &group), None);
    assert_eq!(rights.role_with(&account(1008, None, &[100]), &group), None);
}

#[test]
fn a_number_is_one_and_no_name_and_is_written_as_numbers_are() {
    // A group may be called like the number of another one: the number counts.
    let rights = rights(&["@60", "+7", "@007"], &[], &[]);
    assert_eq!(rights.role_with(&account(1, None, &[60]), &group), Some(Role::View));
    for (uid, gid) in [(2, 61), (7, 8), (3, 7), (4, 0)] {
        assert_eq!(rights.role_with(&account(uid, None, &[gid]), &group), None, "{uid}");
    }
}

#[test]
fn the_socket_is_open_to_others_only_if_some_are_named() {
    assert_eq!(rights(&[], &[], &[]).socket_mode(), 0o600);
    for one in [rights(&["a"], &[], &[]), rights(&[], &["a"], &[]), rights(&[], &[], &["a"])] {
        assert_eq!(one.socket_mode(), 0o666);
    }
}

#[test]
fn a_user_of_this_machine_is_looked_up_with_its_groups() {
    let root = Account::look_up(0).unwrap();
    assert_eq!((root.uid(), root.name()), (0, Some("root")));
    assert!(root.is_meant(&entry("root"), &group) && root.is_meant(&entry("0"), &group));
    assert!(root.is_meant(&entry("@0"), &group) && !root.is_meant(&entry("@4294967294"), &group));
    assert_eq!(root.to_string(), "root (user 0)");
    let nameless = Account::look_up(3_999_999_999).unwrap();
    assert_eq!(nameless.name(), None);
    assert!(nameless.is_meant(&entry("3999999999"), &group));
    assert!(nameless.groups.is_empty());
    assert_eq!(nameless.to_string(), "user 3999999999");
}

#[test]
fn entries_that_mean_nobody_are_named() {
    let rights =
        rights(&["root", "@root", "12345", "@12345"], &["no-such-user"], &["@no-such-group"]);
    assert_eq!(
        rights.unknown(),
        [
            "api.administer: \"@no-such-group\" gives nobody that right: there is no such group",
            "api.operate: \"no-such-user\" gives nobody that right: there is no such user",
        ]
    );
}
