use crate::segment_file;

/// How a log is laid out. Set once, when it is opened; segments written under other options stay readable.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of a segment file, allocated when it is created. Default 256 MiB; at least 4 KiB.
    pub segment_bytes: u64,
    /// Largest payload of one frame. Default 64 MiB; lowered to what fits in a segment.
    pub payload_bytes_max: usize,
    /// How many segment files stay open for reads. Default 512; at least 1.
    pub open_files_max: usize,
    /// How far zeros are written ahead of small frames. Default 1 MiB; 0 for not at all.
    pub ahead_bytes: u64,
    /// A bug to plant, so that a simulation can prove that it would notice.
    #[cfg(feature = "sim")]
    pub planted: Option<Planted>,
}

/// How large segments and frames become. A property of a shard, which its replicas agree on, not of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// See [`Options::segment_bytes`].
    pub segment_bytes: u64,
    /// See [`Options::payload_bytes_max`].
    pub payload_bytes_max: usize,
}

/// Known bugs, each of which a simulation must catch.
#[cfg(feature = "sim")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Planted {
    /// `flush` publishes frames without syncing them.
    SkipFsync,
    /// Directory changes are never synced.
    SkipDirSync,
    /// `flush` also publishes the frames that were appended while it synced.
    CommitBeforeSync,
    /// Recovery does not look at checksums.
    IgnoreTornTail,
    /// Recovery leaves the bytes after the cut in place.
    KeepTailGarbage,
    /// `flush` publishes frames although their sync failed.
    SwallowFsyncError,
}

#[cfg(feature = "sim")]
impl Planted {
    /// Every bug that can be planted.
    pub const ALL: [Self; 6] = [
        Self::SkipFsync,
        Self::SkipDirSync,
        Self::CommitBeforeSync,
        Self::IgnoreTornTail,
        Self::KeepTailGarbage,
        Self::SwallowFsyncError,
    ];
}

/// Answers "is this bug planted?"; a constant `false` in a build without the `sim` feature.
macro_rules! planted {
    ($options:expr, $bug:ident) => {{
        #[cfg(feature = "sim")]
        let planted = $options.planted == Some(crate::options::Planted::$bug);
        #[cfg(not(feature = "sim"))]
        let planted = {
            let _ = &$options;
            false
        };
        planted
    }};
}
pub(crate) use planted;

const SEGMENT_BYTES_MIN: u64 = 4096;

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 256 << 20,
            payload_bytes_max: 64 << 20,
            open_files_max: 512,
            ahead_bytes: 1 << 20,
            #[cfg(feature = "sim")]
            planted: None,
        }
    }
}

impl Options {
    /// Files that a log may have open beside [`Options::open_files_max`]: directory, lock, manifest, the active segment, the
    /// spare, two segments that are full and not sealed, an index and a checkpoint that are being written, and a segment and
    /// an index that are being checked.
    pub const FILES_BESIDE: usize = 11;

    /// Default options with another segment size.
    pub fn with_segment_bytes(segment_bytes: u64) -> Self {
        Self { segment_bytes, ..Self::default() }
    }

    /// The options with every field brought into its range.
    pub(crate) fn sanitized(mut self) -> Self {
        let Sizes { segment_bytes, payload_bytes_max } = self.sizes();
        (self.segment_bytes, self.payload_bytes_max) = (segment_bytes, payload_bytes_max);
        self.open_files_max = self.open_files_max.max(1);
        self
    }

    pub fn sizes(&self) -> Sizes {
        let Self { segment_bytes, payload_bytes_max, .. } = *self;
        Sizes { segment_bytes, payload_bytes_max }.sanitized()
    }
}

impl Sizes {
    /// The sizes brought into their range.
    pub(crate) fn sanitized(self) -> Self {
        let segment_bytes = self.segment_bytes.max(SEGMENT_BYTES_MIN);
        let payload_bytes_max = self.payload_bytes_max.min(segment_file::payload_bytes_max(segment_bytes));
        Self { segment_bytes, payload_bytes_max }
    }
}
