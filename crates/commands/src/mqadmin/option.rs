//! The options of a command. Their names are mqadmin's; some short names have two letters.

/// One option of a command.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// Short name without its dash; empty if there is none.
    pub short: &'static str,
    pub long: &'static str,
    pub about: &'static str,
    /// Whether a value follows.
    pub value: bool,
    pub required: bool,
    /// Exactly one option of each group must be given; 0 is no group.
    pub group: u8,
}

impl Opt {
    pub const fn required(mut self) -> Opt {
        self.required = true;
        self
    }

    pub const fn one_of(mut self, group: u8) -> Opt {
        self.group = group;
        self
    }

    /// The name under which values are looked up and options are sorted.
    pub fn key(&self) -> &'static str {
        if self.short.is_empty() { self.long } else { self.short }
    }
}

/// An option with a value.
pub const fn value(short: &'static str, long: &'static str, about: &'static str) -> Opt {
    Opt { short, long, about, value: true, required: false, group: 0 }
}

/// An option without a value.
pub const fn switch(short: &'static str, long: &'static str, about: &'static str) -> Opt {
    Opt { short, long, about, value: false, required: false, group: 0 }
}

pub const HELP: Opt = switch("h", "help", "Print help");
pub const NAMESRV: Opt = value(
    "n",
    "namesrvAddr",
    "Name servers, host:port, separated by ';'; NAMESRV_ADDR or 127.0.0.1:9876 without it",
);

/// A command's own options and the common ones, in mqadmin's order. A command may have its own description of `-n`.
pub fn all(own: &[Opt]) -> Vec<Opt> {
    let common = [HELP, NAMESRV].into_iter().filter(|common| own.iter().all(|own| own.short != common.short));
    let mut options: Vec<Opt> = own.iter().copied().chain(common).collect();
    options.sort_by_key(|option| option.key().to_ascii_lowercase());
    options
}
