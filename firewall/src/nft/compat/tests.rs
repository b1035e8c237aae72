use super::*;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap();
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn numbers(values: &[(u16, u32)]) -> Vec<u8> {
    let values = values.iter();
    values
        .flat_map(|(kind, value)| attribute(*kind, &value.to_be_bytes()))
        .collect()
}

fn expression(name: &str, data: &[u8]) -> Vec<u8> {
    let name = attribute(1, &[name.as_bytes(), &[0]].concat());
    attribute(1, &[name, attribute(2, data)].concat())
}

fn meta(key: u32) -> Vec<u8> {
    expression("meta", &numbers(&[(2, key), (1, 1)]))
}

fn payload(base: u32, offset: u32, length: u32) -> Vec<u8> {
    let parts = [(1, 1), (2, base), (3, offset), (4, length)];
    expression("payload", &numbers(&parts))
}

fn masked(mask: &[u8]) -> Vec<u8> {
    let length = u32::try_from(mask.len()).unwrap();
    let value = |kind, bytes: &[u8]| attribute(kind, &attribute(1, bytes));
    let parts = [
        numbers(&[(1, 1), (2, 1), (3, length), (6, 0)]),
        value(4, mask),
        value(5, &vec![0; mask.len()]),
    ];
    expression("bitwise", &parts.concat())
}

fn compared(operator: u32, value: &[u8]) -> Vec<u8> {
    let value = attribute(3, &attribute(1, value));
    let parts = [numbers(&[(1, 1), (2, operator)]), value];
    expression("cmp", &parts.concat())
}

fn is(value: &[u8]) -> Vec<u8> {
    compared(0, value)
}

fn extended(kind: &str, name: &str, revision: u32, info: &[u8]) -> Vec<u8> {
    let name = attribute(1, &[name.as_bytes(), &[0]].concat());
    let info = attribute(3, info);
    expression(kind, &[name, numbers(&[(2, revision)]), info].concat())
}

fn verdict_of(code: i32, chain: &str) -> Vec<u8> {
    let mut verdict = numbers(&[(1, code.cast_unsigned())]);
    if !chain.is_empty() {
        verdict.extend(attribute(2, &[chain.as_bytes(), &[0]].concat()));
    }
    let data = attribute(2, &attribute(2, &verdict));
    expression("immediate", &[numbers(&[(1, 0)]), data].concat())
}

/// A structure of that size with some of its parts.
fn info(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for (at, part) in parts {
        bytes[*at..at + part.len()].copy_from_slice(part);
    }
    bytes
}

/// Ports in the kernel's own order.
fn ports(ports: &[u16]) -> Vec<u8> {
    ports.iter().flat_map(|port| port.to_ne_bytes()).collect()
}

fn dnat(revision: u32, size: usize, address: &[u8]) -> Vec<u8> {
    let port = 80_u16.to_be_bytes();
    let parts: [(usize, &[u8]); 5] = [
        (0, &3_u32.to_ne_bytes()),
        (4, address),
        (20, address),
        (36, &port),
        (38, &port),
    ];
    extended("target", "DNAT", revision, &info(size, &parts))
}

/// A line, the expressions of the rule, and how many of their bytes say nothing.
type Case = (Family, &'static str, Vec<Vec<u8>>, usize);

const TCP: [u8; 1] = [6];
const MARK: u32 = 0x2000;

fn native() -> Vec<Case> {
    let pod = [10, 1, 2, 2];
    vec![
        (
            Family::V4,
            "-s 10.1.0.0/22 -d 192.168.77.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK",
            vec![
                meta(16),
                is(&TCP),
                payload(1, 12, 4),
                masked(&[255, 255, 252, 0]),
                is(&[10, 1, 0, 0]),
                payload(1, 16, 4),
                is(&[192, 168, 77, 1]),
                payload(2, 2, 2),
                is(&8080_u16.to_be_bytes()),
                verdict_of(JUMP, "CNI-HOSTPORT-SETMARK"),
            ],
            0,
        ),
        (
            Family::V4,
            "! -d 224.0.0.0/4 -p tcp -j RETURN",
            vec![
                // The protocol as older programs ask for it.
                payload(1, 9, 1),
                is(&TCP),
                payload(1, 16, 1),
                masked(&[0xf0]),
                compared(1, &[224]),
                verdict_of(-5, ""),
            ],
            0,
        ),
        (
            Family::V6,
            "-s fd00::2/128 -d fd00::/64 -g OTHER",
            vec![
                payload(1, 8, 16),
                is(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]),
                payload(1, 24, 8),
                is(&[0xfd, 0, 0, 0, 0, 0, 0, 0]),
                verdict_of(GOTO, "OTHER"),
            ],
            0,
        ),
        (
            Family::V4,
            "-s 10.1.2.2/32 -m mark --mark 0x2000/0x2000 -j ACCEPT",
            vec![
                payload(1, 12, 4),
                is(&pod),
                meta(3),
                masked(&MARK.to_ne_bytes()),
                is(&MARK.to_ne_bytes()),
                verdict_of(1, ""),
            ],
            0,
        ),
    ]
}

fn extensions() -> Vec<Case> {
    let any_to_80 = ports(&[0, 65535, 80, 80]);
    let multiport = [&[1, 2][..], &ports(&[8080, 80])].concat();
    let v6 = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    let of = |name, revision, info: &[u8]| extended("match", name, revision, info);
    vec![
        (
            Family::V4,
            r#"-p tcp -m comment --comment "a \" -j b" -m multiport --dports 8080,80 -j CNI-a"#,
            vec![
                meta(16),
                is(&TCP),
                of("comment", 0, &info(256, &[(0, b"a \" -j b")])),
                of("multiport", 1, &info(48, &[(0, &multiport)])),
                verdict_of(JUMP, "CNI-a"),
            ],
            // Behind the comment's zero, and thirteen ports.
            247 + 26,
        ),
        (
            Family::V4,
            "-p tcp -m tcp --dport 80 -j DNAT --to-destination 10.1.2.2:80",
            vec![
                meta(16),
                is(&TCP),
                of("tcp", 0, &info(16, &[(0, &any_to_80)])),
                dnat(2, 48, &[10, 1, 2, 2]),
            ],
            // Fill of the match, and the base of port ranges with its fill.
            4 + 8,
        ),
        (
            Family::V6,
            "-m udp --dport 80 -j DNAT --to-destination [fd00::2]:80",
            vec![
                of("udp", 0, &info(16, &[(0, &any_to_80)])),
                dnat(1, 40, &v6),
            ],
            7,
        ),
    ]
}

fn other_extensions() -> Vec<Case> {
    let mark = MARK.to_ne_bytes();
    let marked = |size| info(size, &[(0, &mark), (4, &mark)]);
    let (to_80, once) = (ports(&[80, 80, 0, 65535]), 1_u32.to_ne_bytes());
    let sctp = info(296, &[(0, &to_80), (284, &2_u32.to_ne_bytes())]);
    let of = |name, revision, info: &[u8]| extended("match", name, revision, info);
    vec![
        (
            Family::V6,
            "-m sctp --dport 80 -j MASQUERADE",
            vec![
                of("sctp", 0, &sctp),
                extended("target", "MASQUERADE", 0, &info(40, &[])),
            ],
            // Source ports and chunks; addresses and ports.
            4 + 276 + 4 + 36,
        ),
        (
            Family::V4,
            "-m addrtype --dst-type LOCAL -j MARK --set-xmark 0x2000/0x2000",
            vec![
                of("addrtype", 1, &info(8, &[(2, &4_u16.to_ne_bytes())])),
                extended("target", "MARK", 2, &marked(8)),
            ],
            0,
        ),
        (
            Family::V4,
            "-m mark --mark 0x2000/0x2000 -j MASQUERADE",
            vec![
                of("mark", 1, &marked(16)),
                extended("target", "MASQUERADE", 0, &info(24, &[(0, &once)])),
            ],
            7 + 16,
        ),
    ]
}

fn line(family: Family, list: &[u8]) -> Option<String> {
    let rule = rule(family, "X", list)?;
    rule.append().strip_prefix("-A X ").map(str::to_owned)
}

fn cases() -> impl Iterator<Item = (Family, &'static str, Vec<u8>, usize)> {
    let cases = [native(), extensions(), other_extensions()]
        .into_iter()
        .flatten();
    cases.map(|(family, line, list, idle)| (family, line, list.concat(), idle))
}

#[test]
fn rules_are_put_into_the_lines_of_iptables() {
    for (family, expected, list, _) in cases() {
        assert_eq!(line(family, &list).as_deref(), Some(expected));
        // A count is no condition, and nothing comes behind what is done.
        let counter = expression("counter", &[0; 24]);
        let counted = [counter.clone(), list.clone()].concat();
        assert_eq!(line(family, &counted).as_deref(), Some(expected));
        assert_eq!(line(family, &[list, counter].concat()), None);
    }
}

#[test]
fn a_rule_that_is_cut_has_no_line() {
    for (family, expected, list, _) in cases() {
        for length in 0..list.len() {
            let cut = line(family, &list[..length]);
            assert_eq!(cut, None, "{expected}: {length}");
            target(&list[..length]);
        }
    }
}

/// All bytes count but those that fill something up.
#[test]
fn a_rule_that_is_another_has_another_line() {
    for (family, expected, list, idle) in cases() {
        let mut same = Vec::new();
        for at in 0..list.len() {
            for bit in [1, 0x10] {
                let mut changed = list.clone();
                changed[at] ^= bit;
                target(&changed);
                if line(family, &changed).as_deref() == Some(expected) && same.last() != Some(&at) {
                    same.push(at);
                }
            }
        }
        let fills = fills(&list);
        let beyond = same.iter().filter(|at| !fills.contains(at));
        assert_eq!(beyond.count(), idle, "{expected}: {same:?}");
    }
}

/// The places between the attributes of a list, at any depth that [`expression`] makes.
fn fills(list: &[u8]) -> Vec<usize> {
    let mut fills = Vec::new();
    let mut walk = vec![(0, list.len())];
    while let Some((begin, end)) = walk.pop() {
        let mut at = begin;
        while at + 4 <= end {
            let length = usize::from(u16::from_ne_bytes([list[at], list[at + 1]]));
            if length < 4 || at + length > end {
                break;
            }
            let next = (at + length).next_multiple_of(4).min(end);
            fills.extend(at + length..next);
            if attributes(&list[at + 4..at + length]).is_some() {
                walk.push((at + 4, at + length));
            }
            at = next;
        }
    }
    fills
}

#[test]
fn what_is_not_known_for_certain_has_no_line() {
    let accept = verdict_of(1, "");
    for (what, list) in [
        ("an expression", vec![expression("limit", &[])]),
        ("a match", vec![extended("match", "limit", 0, &[0; 48])]),
        (
            "a revision",
            vec![extended("match", "comment", 1, &[0; 256])],
        ),
        (
            "no end of a comment",
            vec![extended("match", "comment", 0, &[b'a'; 256])],
        ),
        ("a size", vec![extended("match", "comment", 0, &[0; 248])]),
        ("a key of meta", vec![meta(6), is(&[0; 16])]),
        (
            "another register's value",
            vec![payload(2, 2, 2), is(&[0, 80])],
        ),
        (
            "a source port",
            vec![meta(16), is(&TCP), payload(2, 0, 2), is(&[0, 80])],
        ),
        ("less than", vec![meta(16), compared(2, &TCP)]),
        ("no protocol", vec![meta(16), compared(1, &TCP)]),
        ("nothing loaded", vec![is(&TCP)]),
        ("two protocols", vec![meta(16), is(&TCP), is(&[17])]),
        ("an unknown protocol", vec![meta(16), is(&[1])]),
        (
            "two masks",
            vec![
                payload(1, 12, 4),
                masked(&[255; 4]),
                masked(&[255; 4]),
                is(&[10, 0, 0, 0]),
            ],
        ),
        (
            "a mask with gaps",
            vec![
                payload(1, 12, 4),
                masked(&[255, 0, 255, 0]),
                is(&[10, 0, 1, 0]),
            ],
        ),
        (
            "bits beside the mask",
            vec![
                payload(1, 12, 4),
                masked(&[255, 0, 0, 0]),
                is(&[10, 1, 0, 0]),
            ],
        ),
        (
            "a longer value",
            vec![payload(1, 12, 2), is(&[10, 1, 0, 0])],
        ),
        (
            "another header",
            vec![payload(0, 12, 4), is(&[10, 1, 0, 0])],
        ),
    ] {
        let list = [list.concat(), accept.clone()].concat();
        assert_eq!(line(Family::V4, &list), None, "{what}");
    }
    assert_eq!(line(Family::V4, &accept).as_deref(), Some("-j ACCEPT"));
    // It would go on to the next rule.
    assert_eq!(line(Family::V4, &[]), None);
}

#[test]
fn where_a_rule_leads_is_known_whatever_it_asks() {
    let list = [expression("limit", &[1, 2, 3]), verdict_of(JUMP, "CNI-a")].concat();
    assert_eq!(line(Family::V4, &list), None);
    assert_eq!(target(&list), Some("CNI-a"));
    assert_eq!(target(&verdict_of(1, "")), None);
}

/// A list with bytes of any value at any places.
#[test]
fn no_bytes_make_it_panic() {
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    for (family, _, list, _) in cases() {
        for _ in 0..2000 {
            let mut changed = list.clone();
            for _ in 0..=next(8) {
                let at = next(changed.len());
                changed[at] = u8::try_from(next(256)).unwrap();
            }
            line(family, &changed);
            target(&changed);
        }
    }
}
