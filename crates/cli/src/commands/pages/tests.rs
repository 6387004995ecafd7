use super::*;

fn text(name: &[&str]) -> String {
    let mut command = Cli::command();
    command.build();
    let mut found = &command;
    for part in name {
        found = found.find_subcommand(part).unwrap();
    }
    String::from_utf8(page(found).unwrap()).unwrap()
}

#[test]
fn every_command_has_a_page() {
    let scratch = tempfile::tempdir().unwrap();
    man(&ManArgs { to: Some(scratch.path().to_owned()) }).unwrap();
    for name in ["evenkeel", "evenkeel-volume", "evenkeel-volume-create", "evenkeel-attach"] {
        let text = fs::read_to_string(scratch.path().join(format!("{name}.8"))).unwrap();
        assert!(text.contains(".SH NAME"), "{name}: {text}");
    }
}

#[test]
fn examples_stand_line_by_line() {
    let text = text(&["volume", "list"]);
    let examples = text.split(".SH EXAMPLES\n").nth(1).unwrap();
    assert!(examples.starts_with(".PP\n.nf\n  evenkeel volume list\n"), "{examples}");
    assert!(examples.trim_end().ends_with(".fi"), "{examples}");
    assert!(!text.contains("EXTRA"));
}

#[test]
fn the_synopsis_shows_the_values() {
    let text = text(&["volume", "create"]);
    let synopsis = text.split(".SH SYNOPSIS\n").nth(1).unwrap().lines().next().unwrap();
    for part in
        [r"\fB\-\-size\fR \fISIZE\fR [", r" [\fB\-\-on\fR \fINODE:DISK\fR]...", r" \fINAME\fR"]
    {
        assert!(synopsis.contains(part), "{part}: {synopsis}");
    }
    for part in [
        r" [\fB\-\-protocol\fR \fBA\fR|\fBB\fR|\fBC\fR]",
        r" [\fB\-\-block\-size\fR \fB512\fR|\fB4096\fR]",
        r" [\fB\-\-on\-no\-coordinator\fR \fIsuspend|TIME\fR]",
    ] {
        assert!(synopsis.contains(part), "{part}: {synopsis}");
    }
    assert!(!synopsis.contains("socket"), "global options stand below: {synopsis}");
}

#[test]
fn the_page_of_each_group_shows_its_commands_at_work() {
    let mut command = Cli::command();
    command.build();
    let groups: Vec<&Command> =
        command.get_subcommands().filter(|sub| sub.has_subcommands()).collect();
    let names: Vec<&str> = groups.iter().map(|group| group.get_name()).collect();
    let all = [
        "node",
        "cluster",
        "disk",
        "volume",
        "export",
        "client",
        "replica",
        "reservation",
        "config",
        "bench",
    ];
    assert_eq!(names, all);
    for group in groups {
        let page = text(&[group.get_name()]);
        let examples = page.split(".SH EXAMPLES\n").nth(1).unwrap_or_default();
        let examples: Vec<&str> =
            examples.lines().filter(|line| line.starts_with("  evenkeel ")).collect();
        assert!(examples.len() >= 2, "{}: {examples:?}", group.get_name());
        let own = format!("  evenkeel {} ", group.get_name());
        assert!(examples.iter().any(|line| line.starts_with(&own)), "{examples:?}");
        let distinct: std::collections::BTreeSet<_> = examples.iter().collect();
        assert_eq!(distinct.len(), examples.len(), "{examples:?}");
    }
}

#[test]
fn every_command_that_does_something_has_examples() {
    fn lacking(command: &Command, path: &str, found: &mut Vec<String>) {
        let subcommands: Vec<_> =
            command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        if subcommands.is_empty() && !help.contains(&format!("Examples:\n  {path}")) {
            found.push(path.to_owned());
        }
        for sub in subcommands {
            lacking(sub, &format!("{path} {}", sub.get_name()), found);
        }
    }
    let mut command = Cli::command();
    command.build();
    let mut found = Vec::new();
    lacking(&command, "evenkeel", &mut found);
    assert!(found.is_empty(), "{found:#?}");
}
