//! CPU time and memory of the server's processes.

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

/// Resources that processes have used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Usage {
    pub cpu: Duration,
    pub memory_bytes: u64,
}

impl Usage {
    /// Reads CPU time and resident memory of the processes.
    pub fn of(pids: &[u32]) -> anyhow::Result<Usage> {
        pids.iter().try_fold(Usage::default(), |sum, pid| {
            let usage = process(*pid).with_context(|| format!("cannot read the usage of process {pid}"))?;
            Ok(Usage { cpu: sum.cpu + usage.cpu, memory_bytes: sum.memory_bytes + usage.memory_bytes })
        })
    }
}

fn process(pid: u32) -> anyhow::Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let ticks = cpu_ticks(&stat).context("its stat file has another form")?;
    let memory_kib = resident_kib(&status).context("its status file has no VmRSS")?;
    Ok(Usage { cpu: Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND), memory_bytes: memory_kib << 10 })
}

/// Ticks per second of CPU time in /proc. The kernel fixes this value for user space on all architectures.
const TICKS_PER_SECOND: u64 = 100;

/// User and system time. They follow the process's name, which stands in parentheses and may contain blanks.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn resident_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_hold_anything() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 2000 0 1 0 150 25 0 0 20 0 8 0 100 1000 10";
        assert_eq!(cpu_ticks(stat), Some(175));
        assert_eq!(cpu_ticks("42 (cut"), None);
    }

    #[test]
    fn resident_memory_is_read_from_its_line() {
        assert_eq!(resident_kib("Name:\tx\nVmPeak:\t 9 kB\nVmRSS:\t  1234 kB\n"), Some(1234));
        assert_eq!(resident_kib("Name:\tx\n"), None);
    }
}
