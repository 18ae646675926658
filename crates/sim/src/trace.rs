//! What happened in a run, as text: hashed to compare runs, kept for the end of a failed one, printed on request.

use std::collections::VecDeque;

const KEPT_LINES: usize = 60;

#[derive(Debug)]
pub struct Trace {
    lines: VecDeque<String>,
    hash: u64,
    count: u64,
    print: bool,
}

impl Trace {
    pub fn new(print: bool) -> Trace {
        Trace { lines: VecDeque::new(), hash: 0xCBF2_9CE4_8422_2325, count: 0, print }
    }

    pub fn line(&mut self, line: String) {
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        self.count += 1;
        if self.print {
            println!("{:>5} {line}", self.count);
        }
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The same for two runs only if every line was.
    pub fn hash(&self) -> u64 {
        self.hash ^ self.count
    }

    /// The last lines.
    pub fn tail(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}
