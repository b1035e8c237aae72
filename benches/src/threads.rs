//! Work for several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Outcome;

/// Does `work` for every item, `threads` at a time, and collects what it gives, in no order.
///
/// # Errors
/// The first of an item; the others are done all the same.
pub fn at_once<I: Sync, T: Send>(
    threads: usize,
    items: &[I],
    work: impl Fn(&I) -> Outcome<T> + Sync,
) -> Outcome<Vec<T>> {
    let next = AtomicUsize::new(0);
    let one = || {
        let mut done = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(work(item));
        }
        done
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect()
    });
    let mut collected = Vec::with_capacity(items.len());
    for done in all {
        let done = done.map_err(|_| "a thread ended before its work was done")?;
        for item in done {
            collected.push(item?);
        }
    }
    Ok(collected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_once() {
        let items: Vec<u32> = (0..100).collect();
        let mut done = at_once(8, &items, |item| Ok(*item)).unwrap();
        done.sort_unstable();
        assert_eq!(done, items);
    }

    #[test]
    fn one_that_fails() {
        let fail = |item: &u32| {
            if *item == 7 {
                Err("seven".into())
            } else {
                Ok(())
            }
        };
        let error = at_once(2, &[6, 7, 8], fail).unwrap_err();
        assert_eq!(error.to_string(), "seven");
    }
}
