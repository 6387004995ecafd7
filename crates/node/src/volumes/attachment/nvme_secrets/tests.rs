use super::*;

const A: &str = "nqn.2026-11.org.example:a";
const B: &str = "nqn.2026-11.org.example:b";
const WHAT: &str = "cannot export volume music";

fn request(hosts: &[&str]) -> ExportNvmeRequest {
    let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
    ExportNvmeRequest { hosts, ..ExportNvmeRequest::default() }
}

fn secret(byte: u8) -> String {
    Secret::new(&[byte; SECRET_LENGTH]).text().to_string()
}

fn given(host: &str, own: &str, controller: Option<&str>) -> NvmeSecrets {
    let controller_secret = controller.map(str::to_owned);
    NvmeSecrets { host: host.to_owned(), secret: own.to_owned(), controller_secret }
}

#[test]
fn secrets_are_made_for_hosts_that_are_given_none() {
    let mut asked = request(&[A, B]);
    asked.secrets = vec![given(A, &secret(1), None)];
    asked.generate = Some(NvmeGenerate::Both);
    let (shown, made) = wanted(asked, None, WHAT).unwrap();
    assert_eq!(made.iter().map(|it| it.host.as_str()).collect::<Vec<_>>(), [B]);
    assert_eq!((&shown.keys[A].host, &shown.keys[A].controller), (&secret(1), &None));
    assert_eq!(as_answer(B, &shown.keys[B]), made[0]);
    assert_ne!(Some(&made[0].secret), made[0].controller_secret.as_ref());
    let keys = keys(&shown, WHAT).unwrap();
    assert!(keys[A].controller.is_none() && keys[B].controller.is_some());

    let mut asked = request(&[A]);
    asked.generate = Some(NvmeGenerate::Host);
    let (again, made_again) = wanted(asked, Some(&shown), WHAT).unwrap();
    assert_ne!(again.keys[A], shown.keys[A], "it is a new one");
    assert_eq!(made_again[0].controller_secret, None);
}

#[test]
fn two_hosts_do_not_share_a_key() {
    for (a, b) in [
        (given(A, &secret(1), None), given(B, &secret(1), None)),
        (given(A, &secret(1), None), given(B, &secret(2), Some(&secret(1)))),
    ] {
        let mut asked = request(&[A, B]);
        asked.secrets = vec![a, b];
        let (shown, _) = wanted(asked, None, WHAT).unwrap();
        let refused = keys(&shown, WHAT).unwrap_err();
        assert!(refused.why.contains("the key of another host"), "{refused:?}");
    }
}

#[test]
fn a_host_keeps_its_key_until_it_is_not_named() {
    let mut asked = request(&[A, B]);
    asked.generate = Some(NvmeGenerate::Host);
    let (before, _) = wanted(asked, None, WHAT).unwrap();
    let (after, made) = wanted(request(&[A]), Some(&before), WHAT).unwrap();
    assert_eq!((after.keys.len(), made.len()), (1, 0));
    assert_eq!(after.keys[A], before.keys[A]);
    let (later, _) = wanted(request(&[A, B]), Some(&after), WHAT).unwrap();
    assert!(!later.keys.contains_key(B));
}

#[test]
fn what_is_no_secret_is_refused_and_not_repeated() {
    let long = format!("nqn.2026-11.org.example:{}", "x".repeat(1000));
    for (secrets, expected) in [
        (vec![given(B, &secret(1), None)], "not named"),
        (vec![given(&long, &secret(1), None)], "not named"),
        (vec![given(A, "DHHC-1:01:abcd:", None)], "its secret is none"),
        (vec![given(A, &secret(1), Some("hidden"))], "of the controller is none"),
        (vec![given(A, &secret(1), Some(&secret(1)))], "are the same"),
        (vec![given(A, &secret(1), None), given(A, &secret(2), None)], "two secrets"),
    ] {
        let mut asked = request(&[A]);
        asked.secrets = secrets;
        let error = wanted(asked, None, WHAT).unwrap_err();
        assert_eq!(error.code, ErrorCode::BadRequest);
        assert!(error.why.contains(expected), "{}", error.why);
        assert!(error.why.len() < 400, "{}", error.why);
        for part in ["DHHC-1:01:abcd", "hidden", &secret(1)] {
            assert!(!error.why.contains(part), "{}", error.why);
        }
    }
}

#[test]
fn nothing_secret_is_shown() {
    let mut asked = request(&[A]);
    asked.secrets = vec![given(A, &secret(1), Some(&secret(2)))];
    let request = format!("{asked:?}");
    let (shown, _) = wanted(asked, None, WHAT).unwrap();
    let keys = keys(&shown, WHAT).unwrap();
    let text = format!("{request} {shown:?} {keys:?}");
    for part in [secret(1), secret(2)] {
        assert!(!text.contains(part.split(':').nth(2).unwrap()), "{text}");
    }
}
