//! Bytes on the network: the replication protocol.
