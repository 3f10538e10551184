//! Tests of the reference server against third-party mail and DNS software.
