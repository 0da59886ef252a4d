//! One tensor API for every device.
