use tempfile::TempDir;

use redstart_engine::MessageType;

use crate::support::{open, processor_time, resident_mib, set_up};

pub fn idle() {
    let dir = TempDir::new().expect("a directory");
    let opened = open(&dir);
    set_up(&opened.shard.handle(), MessageType::Normal);
    let before = processor_time();
    std::thread::sleep(std::time::Duration::from_secs(3));
    println!(
        "  an idle shard: {:.1} MiB resident, {:?} of processor time in 3 s",
        resident_mib(),
        processor_time() - before
    );
    opened.shard.stop().expect("a clean stop");
}
