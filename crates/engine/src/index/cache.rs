//! Recently read index blocks, bounded: two generations, the older one dropped whole when the younger is full.

use std::sync::Arc;

use redstart_log::SegmentId;
use rustc_hash::FxHashMap;

use crate::Entry;

type Key = (SegmentId, u64);

#[derive(Debug)]
pub(crate) struct BlockCache {
    young: FxHashMap<Key, Arc<Vec<Entry>>>,
    old: FxHashMap<Key, Arc<Vec<Entry>>>,
    generation_max: usize,
}

impl BlockCache {
    pub fn new(blocks_max: usize) -> BlockCache {
        BlockCache {
            young: FxHashMap::default(),
            old: FxHashMap::default(),
            generation_max: (blocks_max / 2).max(1),
        }
    }

    pub fn get(&mut self, key: Key) -> Option<Arc<Vec<Entry>>> {
        if let Some(block) = self.young.get(&key) {
            return Some(block.clone());
        }
        let block = self.old.remove(&key)?;
        self.insert(key, block.clone());
        Some(block)
    }

    pub fn insert(&mut self, key: Key, block: Arc<Vec<Entry>>) {
        if self.young.len() >= self.generation_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_never_holds_more_than_its_bound_and_keeps_what_is_used() {
        let mut cache = BlockCache::new(8);
        let hot = (SegmentId(0), 0);
        cache.insert(hot, Arc::default());
        for block in 1..100 {
            cache.insert((SegmentId(0), block), Arc::default());
            assert!(cache.get(hot).is_some(), "after block {block}");
            assert!(cache.young.len() + cache.old.len() <= 8);
        }
        assert!(cache.get((SegmentId(0), 1)).is_none());
    }
}
