use super::*;

#[test]
fn a_clock_that_stood_still_reads_less_and_says_when_it_reads_more() {
    let mut slept = Slept::default();
    assert_eq!((slept.gone(7), slept.time(7)), (7, 7));
    slept.begins(10, 30);
    assert_eq!([slept.gone(10), slept.gone(20), slept.gone(30), slept.gone(31)], [10, 10, 10, 11]);
    assert_eq!([slept.time(9), slept.time(10), slept.time(11)], [9, 10, 31]);
    slept.begins(20, 40);
    assert_eq!(slept.gone(45), 15, "it goes on standing still");
    slept.begins(50, 60);
    assert_eq!([slept.gone(60), slept.time(20), slept.time(21)], [20, 50, 61]);
    slept.ends(55);
    assert_eq!(slept.gone(60), 25);
}
