//! The tests of this package need programs of somebody else's.
