//! The `kerf` command: what the controller would do with a cluster, told without one.
