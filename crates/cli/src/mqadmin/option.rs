//! What a command is called and which options it takes. The names are mqadmin's; so are the short forms, of which some
//! have two letters.

/// One option of a command.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// Without its dash; empty when there is only the long name.
    pub short: &'static str,
    pub long: &'static str,
    pub about: &'static str,
    /// Whether a value follows.
    pub value: bool,
    pub required: bool,
    /// Of the options with one number (not 0), exactly one is to be given.
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

    /// By what it is asked for and sorted.
    pub fn key(&self) -> &'static str {
        if self.short.is_empty() { self.long } else { self.short }
    }
}

/// An option with a value.
pub const fn value(short: &'static str, long: &'static str, about: &'static str) -> Opt {
    Opt { short, long, about, value: true, required: false, group: 0 }
}

/// An option without one.
pub const fn switch(short: &'static str, long: &'static str, about: &'static str) -> Opt {
    Opt { short, long, about, value: false, required: false, group: 0 }
}

pub const HELP: Opt = switch("h", "help", "Print help");
pub const NAMESRV: Opt = value(
    "n",
    "namesrvAddr",
    "Name servers, host:port, separated by ';'; NAMESRV_ADDR or 127.0.0.1:9876 without it",
);

/// Every option of a command that has these of its own, as mqadmin sorts them. A command may describe `-n` itself.
pub fn all(own: &[Opt]) -> Vec<Opt> {
    let common = [HELP, NAMESRV].into_iter().filter(|common| own.iter().all(|own| own.short != common.short));
    let mut options: Vec<Opt> = own.iter().copied().chain(common).collect();
    options.sort_by_key(|option| option.key().to_ascii_lowercase());
    options
}
