//! Ports of the node that lead to a pod.
