//! Datagrams of nf_tables.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| firewall::fuzzing::nftables(bytes));
