//! The node daemon: disks, replicas, attached volumes, coordinator, API, metrics.
