//! Metrics of the process, from the operating system. Where the system does not provide one, it has no sample.

use std::fs;

use super::{catalogue, text::Text};

/// Clock ticks per second in `/proc`: the same on every architecture of Linux.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn write(text: &mut Text) {
    let memory = memory();
    let values = [
        (catalogue::PROCESS_CPU, Some(cpu_seconds())),
        (catalogue::PROCESS_RSS, memory.map(|(_, resident)| resident)),
        (catalogue::PROCESS_VSZ, memory.map(|(virtual_size, _)| virtual_size)),
        (catalogue::PROCESS_FDS, open_files()),
        (catalogue::PROCESS_FDS_MAX, files_max()),
        (catalogue::PROCESS_START, start_time()),
    ];
    for (family, value) in values {
        let mut samples = text.family(family);
        if let Some(value) = value {
            samples.put(&[], value);
        }
    }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Virtual and resident memory.
fn memory() -> Option<(f64, f64)> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_whitespace().map_while(|word| word.parse::<f64>().ok());
    let page = rustix::param::page_size() as f64;
    Some((pages.next()? * page, pages.next()? * page))
}

fn open_files() -> Option<f64> {
    // One of them is the directory that is being read.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

fn files_max() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn start_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may have spaces in it; what follows it does not. The start is the 22nd field of all.
    let after_name = stat.rsplit_once(')')?.1;
    let ticks: f64 = after_name.split_whitespace().nth(19)?.parse().ok()?;
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + ticks / TICKS_PER_SECOND)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_kernel_provides_plausible_values() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let started = start_time().unwrap();
        assert!(started <= now + 1.0 && started > now - 3600.0 * 24.0, "{started} at {now}");
        let (virtual_size, resident) = memory().unwrap();
        assert!(resident > 100_000.0 && virtual_size >= resident);
        assert!(open_files().unwrap() >= 3.0 && files_max().unwrap() >= open_files().unwrap());
        assert!(cpu_seconds() > 0.0);
    }
}
