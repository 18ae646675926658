//! The engine's settings for tests.

use redstart_engine::{Config, Retention};

/// However full the disk is that the test runs on, nothing is removed or refused for that.
pub fn engine() -> Config {
    let never = 101;
    let retention = Retention {
        clean_percent: never,
        forced_percent: never,
        refuse_percent: never,
        ..Retention::default()
    };
    Config { retention, ..Config::default() }
}
