use std::time::Duration;

/// The first pause after a failure, and the longest.
const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(500);

/// How long to wait before something is tried again that got nowhere: twice as long each time, up to a bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pause(Duration);

impl Pause {
    /// The pause after one more failure.
    pub fn longer(self) -> Pause {
        Pause((self.0 * 2).clamp(FIRST, LONGEST))
    }

    pub fn after(self, uptime: Duration) -> Duration {
        uptime + self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut pause = Pause::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pause = pause.longer();
            pauses.push(pause.after(Duration::ZERO).as_millis());
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 500, 500]);
    }
}
