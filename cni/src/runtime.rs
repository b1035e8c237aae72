//! The runtime's side: network configuration lists, capabilities, calling a chain, the cache.
