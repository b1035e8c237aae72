//! What `iptables-save` prints.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| firewall::fuzzing::iptables(text));
