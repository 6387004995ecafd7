use super::*;

fn name(text: &str) -> Called {
    Called::Name(text.to_owned())
}

#[test]
fn an_entry_is_a_user_or_a_group_by_name_or_number() {
    let cases = [
        ("alice", Principal::User(name("alice"))),
        ("@staff", Principal::Group(name("staff"))),
        ("1007", Principal::User(Called::Number(1007))),
        ("@0", Principal::Group(Called::Number(0))),
        // Only what is written as numbers are is one.
        ("+7", Principal::User(name("+7"))),
        ("@007", Principal::Group(name("007"))),
        ("4294967296", Principal::User(name("4294967296"))),
        ("@@", Principal::Group(name("@"))),
    ];
    for (entry, principal) in cases {
        assert_eq!(entry.parse(), Ok(principal.clone()), "{entry}");
        assert_eq!(principal.to_string(), entry);
    }
}

#[test]
fn an_entry_without_a_name_is_refused() {
    for entry in ["", "@", "a b", "@\t", "root\u{0}"] {
        let refused = entry.parse::<Principal>().unwrap_err();
        assert!(refused.contains("is no user and no group; write \"alice\""), "{refused}");
    }
}
