//! How long a delivered message may be invisible to other consumers.

use std::time::Duration;

/// What a consumer may ask for.
pub(crate) const MIN: Duration = Duration::from_secs(10);
pub(crate) const MAX: Duration = Duration::from_secs(12 * 3600);
/// A message that a consumer returns is invisible for at least this long: some clients compute no delay themselves.
pub(crate) const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);

/// The shard's clock is rounded down to milliseconds. With one more, the message does not come again before the client's own
/// count of the time is over.
pub(crate) fn not_early(invisible: Duration) -> Duration {
    if invisible < MAX { invisible + Duration::from_millis(1) } else { invisible }
}
