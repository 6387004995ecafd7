//! Block protocols for clients elsewhere: NBD.
