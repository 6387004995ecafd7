use super::*;

#[test]
fn columns_are_as_wide_as_their_widest_cell() {
    let mut table = Table::new(&[("NAME", Align::Left), ("SIZE", Align::Right)]);
    table.row(vec!["music".to_owned(), "4G".to_owned()]);
    table.note("why: a note".to_owned());
    table.row(vec!["x".to_owned(), "1.25G".to_owned()]);
    let expected = "  NAME    SIZE\n  music     4G\n    why: a note\n  x      1.25G\n";
    assert_eq!(table.render(2), expected);
}

#[test]
fn no_line_ends_in_spaces() {
    let mut table = Table::new(&[("NAME", Align::Left), ("NOTE", Align::Left)]);
    table.row(vec!["music".to_owned(), String::new()]);
    assert_eq!(table.render(0), "NAME   NOTE\nmusic\n");
}
