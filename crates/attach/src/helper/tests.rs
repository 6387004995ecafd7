use super::*;

fn call() -> DeviceCall {
    DeviceCall::MakeLoop { file: PathBuf::from("/nowhere"), block_size: 4096 }
}

#[test]
fn an_error_is_the_same_after_its_way() {
    let users = vec![
        User::Mount { directory: PathBuf::from("/srv"), process: Some(7) },
        User::Process { process: 9, name: "tail".to_owned() },
        User::Swap(PathBuf::from("/dev/loop3")),
        User::Device("md0".to_owned()),
    ];
    let device = PathBuf::from("/dev/loop3");
    let system = io::Error::from_raw_os_error(libc::EACCES);
    let errors = [
        AttachError::InUse { device: device.clone(), users },
        AttachError::NotDurable { device, error: io::Error::from_raw_os_error(libc::EIO) },
        AttachError::System { action: "can't make a loop device".to_owned(), error: system },
        AttachError::System { action: "can't".to_owned(), error: io::Error::other("none is free") },
    ];
    for error in errors {
        let before = format!("{error:?}");
        let sent = serde_json::to_vec(&Refusal::from(error)).unwrap();
        let got = AttachError::from(serde_json::from_slice::<Refusal>(&sent).unwrap());
        let is_custom = before.contains("Custom");
        assert!(is_custom || format!("{got:?}") == before, "{got:?} was {before}");
        assert!(!is_custom || got.to_string() == "can't: none is free", "{got}");
    }
}

/// Who mounts it chooses where.
#[test]
fn a_place_that_is_no_text_is_told_nevertheless() {
    use std::os::unix::ffi::OsStrExt;
    let directory = PathBuf::from(OsStr::from_bytes(b"/srv/\xff"));
    let users = vec![User::Mount { directory, process: None }];
    let error = AttachError::InUse { device: PathBuf::from("/dev/loop3"), users };
    let sent = serde_json::to_vec(&Refusal::from(error)).unwrap();
    let got = AttachError::from(serde_json::from_slice::<Refusal>(&sent).unwrap());
    assert!(got.to_string().contains("mounted at /srv/"), "{got}");
}

#[test]
fn a_question_is_the_same_after_its_way() {
    let call = call();
    let sent = serde_json::to_vec(&Question { asker: 5, call: &call }).unwrap();
    let got: Question<DeviceCall> = serde_json::from_slice(&sent).unwrap();
    assert_eq!((got.asker, got.call), (5, call));
}

/// Such a program is one in whose `main` nothing serves questions.
#[test]
fn a_program_that_gives_no_answer_is_told_with_its_end() {
    let asked = |program| ask_program(Path::new(program), &call()).unwrap_err().to_string();
    let ended = asked("/bin/false");
    assert!(ended.contains("ended without an answer (exit status: 1)"), "{ended}");
    // It says something, and that is no answer.
    let answered = asked("/bin/echo");
    assert!(answered.contains("ended without an answer (exit status: 0)"), "{answered}");
    let missing = asked("/nowhere/program");
    assert!(missing.contains("No such file"), "{missing}");
}

/// Of the process of this test too: its `main` knows no such argument.
#[test]
fn a_test_program_is_not_run_once_more() {
    let refused = ask(&call()).unwrap_err();
    assert!(matches!(refused, AttachError::Helper(_)), "{refused}");
}

#[test]
fn a_process_that_another_one_has_asked_for_does_nothing() {
    let other = std::process::id() + 1;
    let error = std::thread::spawn(move || end_with(other)).join().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "who asked has ended");
}

/// Else what such processes reach would count as never reached.
#[test]
fn of_the_environment_only_where_coverage_is_written_is_passed_on() {
    let variable = |name: &str, value: &str| (name.into(), value.into());
    let profile = variable(PROFILE, "/tmp/seeds-%p.profraw");
    let all = [variable("PATH", "/bin"), profile.clone(), variable("LD_PRELOAD", "/tmp/other.so")];
    assert_eq!(passed_on(all.into_iter()).collect::<Vec<_>>(), [profile]);
}
