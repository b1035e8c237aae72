//! Stores that are so large that not every reservation is read each time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::store::index::NAME;

/// A store that another has filled, and the folder that it is in.
fn filled(count: u32) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path()).unwrap();
    for number in 0..count {
        by_another(folder.path(), ip(number), &format!("other{number}"));
    }
    (folder, store)
}

/// From 10.1.0.0 on.
fn ip(number: u32) -> IpAddr {
    IpAddr::from((0x0a01_0000 + number).to_be_bytes())
}

/// As the reference plugin reserves.
fn by_another(folder: &Path, ip: IpAddr, id: &str) {
    fs::write(folder.join(ip.to_string()), format!("{id}\r\neth0")).unwrap();
}

fn attachment(id: &str) -> Attachment {
    Attachment::new("net", id, "eth0")
}

fn lock(store: &Store) -> Locked<'_> {
    store.lock(Duration::from_secs(5)).unwrap().unwrap()
}

/// What an attachment holds, and whether every reservation was read to know it.
fn look(store: &Store, id: &str) -> (BTreeSet<IpAddr>, bool) {
    let (held, taken) = lock(store).look(&attachment(id)).unwrap();
    (held.ips().collect(), taken.is_certain())
}

fn add(store: &Store, id: &str, ips: &[IpAddr]) {
    let mut locked = lock(store);
    let (held, _) = locked.look(&attachment(id)).unwrap();
    locked.reserve_all(&attachment(id), &held, ips).unwrap();
}

fn del(store: &Store, id: &str) {
    let mut locked = lock(store);
    let (held, _) = locked.look(&attachment(id)).unwrap();
    locked.release_all(&attachment(id), &held).unwrap();
}

#[test]
fn a_small_store_has_no_index() {
    let (folder, store) = filled(60);
    add(&store, "abc", &[ip(100)]);
    assert_eq!(look(&store, "abc"), ([ip(100)].into(), true));
    assert!(!folder.path().join(NAME).exists());
}

#[test]
fn all_is_read_once_and_again_after_another_has_written() {
    let (folder, store) = filled(100);
    add(&store, "abc", &[ip(200)]);
    for _ in 0..3 {
        assert_eq!(look(&store, "abc"), ([ip(200)].into(), false));
        assert_eq!(look(&store, "other7"), ([ip(7)].into(), false));
        assert_eq!(look(&store, "nobody"), ([].into(), false));
    }
    by_another(folder.path(), ip(201), "late");
    assert_eq!(look(&store, "late"), ([ip(201)].into(), true));
    assert_eq!(look(&store, "late"), ([ip(201)].into(), false));
    // A reservation that goes by another's hand, whose attachment gets another one.
    fs::remove_file(folder.path().join("10.1.0.200")).unwrap();
    by_another(folder.path(), ip(202), "abc");
    assert_eq!(look(&store, "abc"), ([ip(202)].into(), true));
    del(&store, "abc");
    assert_eq!(look(&store, "abc"), ([].into(), false));
    assert!(!folder.path().join("10.1.0.202").exists());
}

#[test]
fn what_the_index_says_is_looked_up() {
    let (folder, store) = filled(100);
    assert!(look(&store, "abc").1);
    // Of a file that is written over, the folder shows nothing.
    by_another(folder.path(), ip(7), "stranger");
    assert_eq!(look(&store, "other7"), ([].into(), false));
    del(&store, "other7");
    assert!(folder.path().join("10.1.0.7").exists());
}

#[test]
fn the_oldest_format_and_a_second_address_are_found() {
    let (folder, store) = filled(100);
    fs::write(folder.path().join("10.1.0.150"), "old\n").unwrap();
    assert!(look(&store, "old").1);
    assert_eq!(look(&store, "old"), ([ip(150)].into(), false));
    add(&store, "abc", &[ip(160)]);
    add(&store, "abc", &["fd00::1".parse().unwrap()]);
    let both = [ip(160), "fd00::1".parse().unwrap()].into();
    assert_eq!(look(&store, "abc"), (both, false));
    del(&store, "old");
    del(&store, "abc");
    assert!(look(&store, "old").0.is_empty() && look(&store, "abc").0.is_empty());
    assert!(!folder.path().join("10.1.0.150").exists());
}

#[test]
fn an_id_that_no_file_can_be_named_by_is_found_as_well() {
    let (_folder, store) = filled(100);
    let long = "a".repeat(300);
    add(&store, &long, &[ip(200)]);
    assert_eq!(look(&store, &long), ([ip(200)].into(), true));
    del(&store, &long);
    assert_eq!(look(&store, &long), ([].into(), true));
}

#[test]
fn after_a_kill_in_the_middle_all_is_read() {
    let (folder, store) = filled(100);
    assert!(look(&store, "abc").1);
    // Reserved, and not noted.
    let locked = lock(&store);
    locked.reserve_each(&attachment("abc"), &[ip(200)]).unwrap();
    drop(locked);
    assert_eq!(look(&store, "abc"), ([ip(200)].into(), true));
    // Freed, and not noted.
    fs::remove_file(folder.path().join("10.1.0.200")).unwrap();
    assert_eq!(look(&store, "abc"), ([].into(), true));
}

/// What another writes is seen, whatever the clock was then and is now.
#[test]
fn a_clock_that_jumps_hides_no_change() {
    const HOUR: Duration = Duration::from_secs(3600);
    let (folder, store) = filled(100);
    let now = std::time::SystemTime::now();
    let set = |path: &Path, time| fs::File::open(path).unwrap().set_modified(time).unwrap();
    let index = folder.path().join(NAME);
    let times = [now - HOUR, now, now + HOUR, std::time::UNIX_EPOCH];
    for (round, (of_store, of_index)) in times
        .into_iter()
        .flat_map(|time| times.map(|other| (time, other)))
        .enumerate()
    {
        look(&store, "abc");
        let number = u32::try_from(200 + round).unwrap();
        let id = format!("late{round}");
        // Sealed by one clock, then changed by another.
        set(&index, of_index);
        set(folder.path(), of_index);
        by_another(folder.path(), ip(number), &id);
        // The same time as the seal's only by a clock that is there again: no change is so old.
        if of_store != of_index || of_store >= now {
            set(folder.path(), of_store);
        }
        assert_eq!(look(&store, &id).0, [ip(number)].into(), "{round}");
    }
}

#[test]
fn a_store_that_is_small_again_loses_its_index() {
    let (folder, store) = filled(70);
    assert!(look(&store, "abc").1);
    assert!(folder.path().join(NAME).exists());
    for number in 0..10 {
        fs::remove_file(folder.path().join(ip(number).to_string())).unwrap();
    }
    assert!(look(&store, "abc").1);
    assert!(!folder.path().join(NAME).exists());
}

#[test]
fn an_index_that_cannot_be_made_is_done_without() {
    let (folder, store) = filled(100);
    fs::write(folder.path().join(NAME), "").unwrap();
    add(&store, "abc", &[ip(200)]);
    assert_eq!(look(&store, "abc"), ([ip(200)].into(), true));
    del(&store, "abc");
    assert_eq!(look(&store, "abc"), ([].into(), true));
}

/// Whatever is done, and by whom, both ways of looking see the same.
#[test]
fn the_index_and_the_files_agree() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let (folder, store) = filled(100);
    let mut uncertain = 0;
    for round in 0..400 {
        let id = format!("pod{}", random.u32(..20));
        let free = ip(random.u32(200..4000));
        let is_free = !folder.path().join(free.to_string()).exists();
        match random.u32(..10) {
            0..4 if is_free => add(&store, &id, &[free]),
            4..8 => del(&store, &id),
            8 if is_free => by_another(folder.path(), free, &id),
            _ => {
                // The reference's DEL.
                for one in store
                    .reservations(&attachment(&id))
                    .unwrap()
                    .held
                    .to_release()
                {
                    fs::remove_file(folder.path().join(one.ip.to_string())).unwrap();
                }
            }
        }
        let id = format!("pod{}", random.u32(..20));
        let by_files = store.reservations(&attachment(&id)).unwrap();
        let expected: BTreeSet<IpAddr> = by_files.held.ips().collect();
        let (seen, certain) = look(&store, &id);
        assert_eq!(seen, expected, "{id}, round {round} of seed {seed}");
        uncertain += u32::from(!certain);
    }
    assert!(uncertain > 100, "{uncertain} of seed {seed}");
}

#[test]
fn addresses_are_asked_for_one_by_one_and_then_all_at_once() {
    let (folder, store) = filled(300);
    fs::write(folder.path().join(ip(5).to_string()), "").unwrap();
    let taken = Taken::of(&store);
    assert!(!taken.is_certain());
    // Named by a file that names nobody: free, as long as files are read.
    assert!(!taken.contains(ip(5)));
    assert!(
        (0..300)
            .filter(|number| *number != 5)
            .all(|number| taken.contains(ip(number)))
    );
    assert!(!taken.contains(ip(300)));
    assert!(taken.contains(ip(5)));
}
