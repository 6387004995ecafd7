use super::*;

#[test]
fn an_identity_survives_text() {
    let id = VolumeId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    assert_eq!(id.to_string(), "01234567-89ab-cdef-0123-456789abcdef");
    assert_eq!(id.to_string().parse(), Ok(id));
}

#[test]
fn a_wrong_identity_is_refused() {
    for text in
        ["", "0123", "0123456789abcdef0123456789abcdef0", "g123456789abcdef0123456789abcdef"]
    {
        assert_eq!(text.parse::<VolumeId>(), Err(ParseIdentityError), "{text}");
    }
}
