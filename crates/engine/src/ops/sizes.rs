//! How large segments and frames become: a property of the shard, which a record says since its birth. So every replica that comes to
//! lead begins segments of the same size, whatever the settings of its node are.

use redstart_log::Sizes;

use super::Engine;
use crate::record::Decision;

/// Namespace and keys of the settings that hold it.
const SHARD: &str = "shard";
const SEGMENT_BYTES: &str = "segment_bytes";
const FRAME_BYTES_MAX: &str = "frame_bytes_max";

impl Engine {
    /// The sizes of the shard; `None` until they are recorded.
    pub fn sizes(&self) -> Option<Sizes> {
        let number = |key| self.setting(SHARD, key)?.parse::<u64>().ok();
        let payload_bytes_max = usize::try_from(number(FRAME_BYTES_MAX)?).ok()?;
        Some(Sizes { segment_bytes: number(SEGMENT_BYTES)?, payload_bytes_max })
    }

    /// Records the sizes that the log has now as those of the shard, unless it has some. The owner of a new log does this, and that
    /// of one which was written before sizes were recorded.
    pub fn record_sizes(&mut self) {
        if self.sizes().is_some() {
            return;
        }
        let Sizes { segment_bytes, payload_bytes_max } = self.log.sizes();
        for (key, value) in [(SEGMENT_BYTES, segment_bytes), (FRAME_BYTES_MAX, payload_bytes_max as u64)] {
            let (namespace, key, value) = (SHARD.to_owned(), key.to_owned(), Some(value.to_string()));
            self.propose(None, Decision::Setting { namespace, key, value });
        }
    }

    /// The log writes as the shard's sizes say, before anything is appended here.
    pub(super) fn use_sizes(&mut self) {
        if let Some(sizes) = self.sizes() {
            self.log.set_sizes(sizes);
        }
    }
}
