use super::*;

const REQUEST: RequestNumber = RequestNumber(7);
const OTHER: PrimaryId = PrimaryId { node: NodeId(2), incarnation: Incarnation(1) };
const FIRST: ClaimNumber = ClaimNumber(1);
const LOCK: ClaimLock = ClaimLock::numbered(3);

fn claiming() -> Claims {
    let mut claims = Claims::default();
    claims.want(REQUEST, 0..8);
    claims.begin_next();
    claims
}

#[test]
fn one_claim_follows_the_other() {
    let mut claims = claiming();
    claims.want(RequestNumber(8), 8..9);
    claims.begin_next();
    assert!(claims.are_untold());
    assert_eq!(claims.tell(), (FIRST, Some(0..8)));
    assert!(!claims.are_untold());
    assert_eq!(claims.granted(FIRST), Some(REQUEST));
    assert_eq!(claims.granted(FIRST), None, "it is said twice");
    assert!(claims.are_granted_to(REQUEST) && !claims.are_granted_to(RequestNumber(8)));
    claims.end(REQUEST);
    claims.begin_next();
    assert_eq!(claims.tell(), (FIRST.next(), Some(8..9)));
    assert_eq!(claims.granted(FIRST), None, "that one is over");
}

#[test]
fn the_end_of_a_claim_is_told_and_that_of_one_that_was_only_wanted_is_not() {
    let mut claims = claiming();
    claims.want(RequestNumber(8), 8..9);
    claims.tell();
    claims.end(RequestNumber(8));
    assert!(!claims.are_untold());
    claims.end(REQUEST);
    claims.begin_next();
    assert!(claims.are_untold());
    assert_eq!(claims.tell(), (FIRST, None));
}

#[test]
fn a_view_asks_anew_for_what_was_not_granted_and_ends_the_claims_of_the_dead() {
    let mut claims = claiming();
    claims.tell();
    claims.honour(OTHER, FIRST, LOCK);
    assert_eq!(claims.follow(|_| true), []);
    assert_eq!(claims.tell(), (FIRST.next(), Some(0..8)));
    claims.granted(FIRST.next());
    assert_eq!(claims.follow(|id| id != OTHER), [LOCK]);
    assert_eq!(claims.tell(), (FIRST, None), "what came before the one that is granted is over");
    assert!(!claims.are_honoured_by(LOCK));
}

#[test]
fn a_claim_is_honoured_once_however_often_it_is_told() {
    let mut claims = Claims::default();
    assert_eq!(claims.hear(OTHER, FIRST.next(), false), Heard::New(None));
    claims.honour(OTHER, FIRST.next(), LOCK);
    assert_eq!(claims.hear(OTHER, FIRST.next(), false), Heard::Nothing);
    assert_eq!(claims.stand_aside(LOCK), Some((OTHER, FIRST.next())));
    assert_eq!(claims.hear(OTHER, FIRST.next(), false), Heard::Missed(LOCK));
    assert_eq!(claims.hear(OTHER, FIRST, true), Heard::Nothing, "an older one is over");
    assert_eq!(claims.hear(OTHER, FIRST.next(), true), Heard::New(Some(LOCK)));
    assert_eq!(claims.stand_aside(LOCK), None);
}
