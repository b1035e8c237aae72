use super::*;

/// Takes `interrupted` as the first lists' fate, and tells how many were made.
fn lists_made(interrupted: usize) -> usize {
    let mut made = 0;
    let last = until_whole(|| {
        made += 1;
        Ok((made, made <= interrupted))
    });
    assert_eq!(last.expect("list"), made);
    made
}

#[test]
fn an_interrupted_list_is_repeated_five_times_at_most() {
    assert_eq!(lists_made(0), 1);
    assert_eq!(lists_made(1), 2);
    assert_eq!(lists_made(5), 6);
    assert_eq!(lists_made(100), 6);
}

/// An `NLMSG_ERROR` without its code: a copy of the request (its header, 4 bytes of payload
/// unless cut), then the offset of what was wrong and the text.
fn refusal_bytes(cut: bool) -> ErrorMessage {
    let mut bytes = Vec::from(20_u32.to_ne_bytes());
    bytes.extend([0; 12]);
    if !cut {
        // Looks like a text, which it is not.
        bytes.extend([0x08, 0x00, 0x01, 0x00]);
    }
    let attribute = |kind, value: &[u8]| {
        let nla = netlink_packet_core::DefaultNla::new(kind, value.to_vec());
        let mut bytes = vec![0; netlink_packet_core::Emitable::buffer_len(&nla)];
        netlink_packet_core::Emitable::emit(&nla, &mut bytes);
        bytes
    };
    bytes.extend(attribute(2, &[0; 4]));
    bytes.extend(attribute(
        NLMSGERR_ATTR_MSG,
        b"Nexthop has invalid gateway\0",
    ));
    let mut message = ErrorMessage::default();
    message.header = bytes;
    message
}

#[test]
fn the_text_is_behind_the_copy_of_the_request() {
    let text = "Nexthop has invalid gateway";
    let whole = refusal_bytes(false);
    assert_eq!(refusal_text(NLM_F_ACK_TLVS, &whole), text);
    let cut = refusal_bytes(true);
    assert_eq!(refusal_text(NLM_F_ACK_TLVS | NLM_F_CAPPED, &cut), text);
    assert_eq!(refusal_text(NLM_F_CAPPED, &cut), "");
}

#[test]
fn cut_bytes_hold_no_text() {
    let whole = refusal_bytes(true);
    for length in 0..whole.header.len() - 1 {
        let mut cut = ErrorMessage::default();
        cut.header = whole.header[..length].to_vec();
        assert_eq!(refusal_text(NLM_F_ACK_TLVS | NLM_F_CAPPED, &cut), "");
        refusal_text(NLM_F_ACK_TLVS, &cut);
    }
    let mut absurd = ErrorMessage::default();
    absurd.header = vec![0xff; 64];
    assert_eq!(refusal_text(NLM_F_ACK_TLVS, &absurd), "");
}

#[test]
fn an_error_says_what_was_done_and_why_it_failed() {
    let text = || "Nexthop has invalid gateway".to_owned();
    let error = refusal(-22, text, format_args!("add route")).expect_err("refused");
    assert_eq!(error.errno(), Some(22));
    assert_eq!(
        error.to_string(),
        "add route: Invalid argument (os error 22) (Nexthop has invalid gateway)"
    );
    let error = refusal(-17, String::new, format_args!("add route")).expect_err("refused");
    assert_eq!(error.to_string(), "add route: File exists (os error 17)");
    assert!(refusal(0, text, format_args!("add route")).is_ok());
}
