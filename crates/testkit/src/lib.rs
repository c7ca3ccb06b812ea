//! Contract suites for the ports, fakes and generators. Tests only: nothing of it is in the binary.

pub mod disk;
pub mod pacer;
pub mod queue;
pub mod scanner;
pub mod store;
