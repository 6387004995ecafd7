//! The simulator: the shipped core and encoders under simulated disks, network, clock and coordinator.
