//! Network namespaces as nodes, pods and outside hosts, with servers and probes in them.
