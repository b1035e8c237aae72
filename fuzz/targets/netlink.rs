//! Messages of the kernel about links, addresses, routes, rules, qdiscs and flows.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| net::fuzzing::answer(bytes));
