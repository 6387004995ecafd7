use super::*;
use crate::primary::invariants::tests::breaks;

const SECOND: Duration = Duration::from_secs(1);
const NOW: Instant = Instant(0);
const MEMBERS: [ReplicaId; 2] = [ReplicaId(1), ReplicaId(2)];

#[test]
fn it_is_over_when_the_last_member_has_adopted_the_view() {
    let mut adoption = Adoption::new(NOW);
    adoption.take_over(None);
    adoption.begin(MEMBERS.into_iter(), NOW);
    assert!(adoption.adopted(MEMBERS[0]) && !adoption.adopted(MEMBERS[0]));
    assert!(!adoption.is_over() && adoption.is_takeover());
    assert!(adoption.adopted(MEMBERS[1]) && adoption.is_over());
    assert!(adoption.end_takeover() && !adoption.end_takeover());
}

#[test]
fn leases_of_views_that_members_may_still_have_add_up_to_the_longest() {
    let mut adoption = Adoption::new(NOW);
    adoption.fence(Some(SECOND * 9));
    adoption.begin(MEMBERS.into_iter(), NOW);
    adoption.fence(Some(SECOND * 3));
    assert_eq!(adoption.deadline(SECOND), SECOND * 10, "the view before is not adopted by all");
    adoption.fence(None);
    assert_eq!(adoption.deadline(SECOND), SECOND * 10, "nor is it now");
    assert!(MEMBERS.into_iter().all(|id| adoption.adopted(id)));
    adoption.fence(Some(SECOND * 3));
    assert_eq!(adoption.deadline(SECOND), SECOND * 4, "who has adopted it has waited already");
    adoption.fence(None);
    assert_eq!(adoption.deadline(SECOND), SECOND);
}

#[test]
fn only_members_are_waited_for() {
    breaks("V2", |primary| {
        primary.informed().views.adoption.confirm_by([ReplicaId(99)].into_iter());
    });
}
