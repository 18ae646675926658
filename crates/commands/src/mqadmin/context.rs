//! The context of a command: its options, the connection to the cluster, and its output.

use std::{
    cell::RefCell,
    fmt,
    io::{self, Write as _},
    str::FromStr,
};

use anyhow::{Context as _, bail};
use redstart_client::admin::{Admin, Broker, Target};

use super::parse::Given;

/// The result of a command.
pub type Outcome = anyhow::Result<()>;

pub struct Context {
    pub given: Given,
    pub admin: Admin,
    out: RefCell<io::BufWriter<io::Stdout>>,
}

/// Prints a line.
macro_rules! say {
    ($context:expr) => { $context.print(format_args!("\n"))? };
    ($context:expr, $($text:tt)*) => {{
        $context.print(format_args!($($text)*))?;
        $context.print(format_args!("\n"))?;
    }};
}
pub(super) use say;

impl Context {
    pub fn new(given: Given, admin: Admin) -> Context {
        Context { given, admin, out: RefCell::new(io::BufWriter::new(io::stdout())) }
    }

    pub fn print(&self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.out.borrow_mut().write_fmt(text)
    }

    pub fn flush(&self) -> io::Result<()> {
        self.out.borrow_mut().flush()
    }

    pub fn has(&self, option: &str) -> bool {
        self.given.has(option)
    }

    pub fn get(&self, option: &str) -> Option<&str> {
        self.given.get(option)
    }

    /// The value of a required option.
    pub fn text(&self, option: &str) -> anyhow::Result<&str> {
        self.get(option).with_context(|| format!("the option -{option} is missing"))
    }

    pub fn number<T: FromStr>(&self, option: &str) -> anyhow::Result<T> {
        number(option, self.text(option)?)
    }

    pub fn number_or<T: FromStr>(&self, option: &str, default: T) -> anyhow::Result<T> {
        self.get(option).map_or(Ok(default), |text| number(option, text))
    }

    /// A boolean as Java's `Boolean.parseBoolean` reads it: everything but "true" is false.
    pub fn is_true(&self, option: &str) -> bool {
        self.is_true_or(option, false)
    }

    pub fn is_true_or(&self, option: &str, default: bool) -> bool {
        self.get(option).map_or(default, |text| text.eq_ignore_ascii_case("true"))
    }

    /// The address of `-b`, or those of the masters of the cluster of `-c`.
    pub async fn masters(&self) -> anyhow::Result<Vec<String>> {
        self.addressed(true).await
    }

    /// The address of `-b`, or those of all brokers of the cluster of `-c`.
    pub async fn brokers(&self) -> anyhow::Result<Vec<String>> {
        self.addressed(false).await
    }

    async fn addressed(&self, masters: bool) -> anyhow::Result<Vec<String>> {
        if let Some(address) = self.get("b") {
            return Ok(vec![address.to_owned()]);
        }
        let Some(cluster) = self.get("c") else { bail!("either -b or -c is needed") };
        let brokers = self.of_cluster(cluster).await?;
        let wanted = brokers.into_iter().filter(|broker| !masters || broker.id == 0);
        Ok(wanted.map(|broker| broker.address).collect())
    }

    /// All brokers of a cluster; an unknown cluster is an error.
    pub async fn of_cluster(&self, cluster: &str) -> anyhow::Result<Vec<Broker>> {
        self.admin.masters(&Target::Cluster(cluster.to_owned())).await?;
        let mut brokers = self.admin.brokers().await?;
        brokers.retain(|broker| broker.cluster == cluster);
        Ok(brokers)
    }
}

fn number<T: FromStr>(option: &str, text: &str) -> anyhow::Result<T> {
    text.parse().ok().with_context(|| format!("the option -{option} needs a number, not {text:?}"))
}
