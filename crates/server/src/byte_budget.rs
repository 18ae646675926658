//! One budget for the bytes of requests and answers under way, over all ports.
//!
//! A connection has an [`Account`]. Its requests and answers hold [`Grant`]s of that account, from the first byte in to the
//! last byte out. An account takes bytes from the budget in blocks and keeps a small surplus, so that a small request does not write
//! to memory that other connections use. The last quarter of the budget is reserved for connections that hold little, so that a few
//! connections with large requests cannot use it up.
//!
//! Invariants: the bytes that all accounts have taken are at most the limit, except for what [`Account::grant_anyway`] granted; such
//! a debt is paid by the next bytes that are released. The grants of an account are at most what the account has taken, except while
//! a request of it waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Mutex, Notify, Semaphore};

/// The default of the setting.
pub const DEFAULT_BYTES: usize = 1 << 30;
/// How long a request may wait for bytes before it is refused.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(20);

/// Grants are counted in grains of this many bytes, so that both counters of an account fit into one word.
const GRAIN: usize = 64;
/// Accounts take multiples of this from the budget. In grains.
const UNIT: u32 = (1 << 10) / GRAIN as u32;
/// What an account takes for small requests while half of the budget is free. In grains.
const BLOCK: u32 = (32 << 10) / GRAIN as u32;
/// Surplus that an account keeps at most. In grains.
const SURPLUS_MAX: u32 = 4 * BLOCK;
/// A connection that holds no more than this may use the reserve. In grains.
const RESERVE_USE_MAX: u32 = (256 << 10) / GRAIN as u32;

/// Bytes that all connections together may hold. Clones share one budget.
#[derive(Debug, Clone)]
pub struct ByteBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// In units.
    free: Semaphore,
    limit: u32,
    /// Units granted beyond the limit.
    debt: AtomicUsize,
    /// Locked by the request that waits for bytes outside the reserve, so that such requests are served in order.
    turn: Mutex<()>,
    /// Wakes that request when bytes were released.
    released: Notify,
}

/// What must be left of the budget when bytes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    Nothing,
    Reserve,
}

impl Default for ByteBudget {
    fn default() -> Self {
        ByteBudget::new(DEFAULT_BYTES)
    }
}

impl ByteBudget {
    pub fn new(bytes: usize) -> ByteBudget {
        let limit = u32::try_from(bytes / (GRAIN * UNIT as usize)).unwrap_or(u32::MAX).max(1);
        let free = Semaphore::new(limit as usize);
        ByteBudget(Arc::new(Shared {
            free,
            limit,
            debt: AtomicUsize::new(0),
            turn: Mutex::new(()),
            released: Notify::new(),
        }))
    }

    pub fn limit(&self) -> usize {
        self.0.limit as usize * UNIT as usize * GRAIN
    }

    /// Bytes that accounts have taken, their surplus included.
    pub fn used(&self) -> usize {
        let free = self.0.free.available_permits().min(self.0.limit as usize);
        let taken = self.0.limit as usize - free + self.0.debt.load(Ordering::Relaxed);
        taken * UNIT as usize * GRAIN
    }

    fn reserve(&self) -> usize {
        self.0.limit as usize / 4
    }

    /// Whether accounts may keep a surplus. All surpluses together are at most half of the budget.
    fn allows_surplus(&self) -> bool {
        self.0.free.available_permits() >= self.0.limit as usize / 2
    }

    /// Whether only the reserve is left. Then a peer must read its answers at a minimum rate.
    pub(crate) fn is_scarce(&self) -> bool {
        self.0.free.available_permits() <= self.reserve()
    }

    /// An account for a connection that may hold `bytes_max`, and a quarter of the budget at most.
    pub(crate) fn account(&self, bytes_max: usize) -> Arc<Account> {
        let max = bytes_max.min(self.limit() / 4);
        Arc::new(Account {
            budget: self.clone(),
            max: grains(max),
            counters: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
        })
    }

    fn try_take(&self, units: u32, leave: Leave) -> bool {
        let left = self.0.free.available_permits().saturating_sub(units as usize);
        if leave == Leave::Reserve && left < self.reserve() {
            return false;
        }
        self.0.free.try_acquire_many(units).map(|taken| taken.forget()).is_ok()
    }

    async fn take(&self, units: u32, leave: Leave) {
        match leave {
            // The semaphore is never closed.
            Leave::Nothing => drop(self.0.free.acquire_many(units).await.map(|taken| taken.forget())),
            // A request that waits in the semaphore would collect all bytes that are released, also those of the reserve.
            Leave::Reserve => {
                let _turn = self.0.turn.lock().await;
                while !self.try_take(units, leave) {
                    self.0.released.notified().await;
                }
            }
        }
    }

    fn take_anyway(&self, units: u32) {
        let left = u32::try_from(self.0.free.available_permits()).unwrap_or(u32::MAX).min(units);
        let taken = if self.try_take(left, Leave::Nothing) { left } else { 0 };
        self.0.debt.fetch_add((units - taken) as usize, Ordering::Relaxed);
    }

    fn release(&self, units: u32) {
        let units = units as usize;
        let pay = |debt: usize| (debt > 0).then(|| debt - debt.min(units));
        let paid = self.0.debt.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay);
        self.0.free.add_permits(units - paid.map_or(0, |debt| debt.min(units)));
        self.0.released.notify_one();
    }
}

/// The budget or the share of the connection is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Spent {
    #[error("bytes of requests and answers of this connection: the limit is {0}")]
    Connection(usize),
    #[error("bytes of requests and answers of all connections: the limit is {0}")]
    All(usize),
}

/// What one connection holds of the budget.
#[derive(Debug)]
pub(crate) struct Account {
    budget: ByteBudget,
    /// In grains, like the counters.
    max: u32,
    /// Granted (high half) and taken from the budget (low half).
    counters: AtomicU64,
    /// Requests that wait until another grant of this account ends.
    waiting: AtomicUsize,
    freed: Notify,
}

impl Account {
    pub fn budget(&self) -> &ByteBudget {
        &self.budget
    }

    /// Bytes granted.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        split(self.counters.load(Ordering::Relaxed)).0 as usize * GRAIN
    }

    /// An empty grant, to be resized.
    pub fn nothing(self: &Arc<Self>) -> Grant {
        Grant { account: self.clone(), grains: 0 }
    }

    /// Grants bytes if they are free now.
    pub fn try_grant(self: &Arc<Self>, bytes: usize) -> Result<Grant, Spent> {
        let grains = grains(bytes);
        self.try_take(grains)?;
        Ok(Grant { account: self.clone(), grains })
    }

    /// Grants bytes for something that is in memory already and can no longer be refused, beyond the limits if necessary.
    pub fn grant_anyway(self: &Arc<Self>, bytes: usize) -> Grant {
        let mut grant = self.nothing();
        grant.resize_anyway(bytes);
        grant
    }

    /// Waits for bytes, first come, first served, for [`WAIT_MAX`] at most.
    pub async fn grant(self: &Arc<Self>, bytes: usize) -> Result<Grant, Spent> {
        let tried = self.try_grant(bytes);
        if tried.is_ok() {
            return tried;
        }
        tokio::time::timeout(WAIT_MAX, self.wait(bytes)).await.or(tried)
    }

    async fn wait(self: &Arc<Self>, bytes: usize) -> Grant {
        // A request that is larger than the account's share gets the whole share.
        let grains = grains(bytes).min(self.max);
        let missing = loop {
            if let Ok(missing) = self.claim(grains, self.max) {
                break missing;
            }
            let _waiting = Waiting::new(&self.waiting);
            let freed = self.freed.notified();
            if let Ok(missing) = self.claim(grains, self.max) {
                break missing;
            }
            freed.await;
        };
        // If this future is dropped, the grant releases the claim.
        let grant = Grant { account: self.clone(), grains };
        if missing.grains > 0 {
            let units = missing.grains.div_ceil(UNIT);
            self.budget.take(units, missing.leave).await;
            self.counters.fetch_add(u64::from(units * UNIT), Ordering::SeqCst);
        }
        grant
    }

    fn try_take(&self, grains: u32) -> Result<(), Spent> {
        let missing = self.claim(grains, self.max)?;
        if missing.grains == 0 {
            return Ok(());
        }
        let exact = missing.grains.div_ceil(UNIT);
        let block = exact.next_multiple_of(BLOCK / UNIT);
        let units = if self.budget.allows_surplus() && self.budget.try_take(block, Leave::Reserve) {
            block
        } else if self.budget.try_take(exact, missing.leave) {
            exact
        } else {
            self.release(grains);
            return Err(Spent::All(self.budget.limit()));
        };
        self.counters.fetch_add(u64::from(units * UNIT), Ordering::SeqCst);
        Ok(())
    }

    fn take_anyway(&self, grains: u32) {
        let Ok(missing) = self.claim(grains, u32::MAX) else { return };
        if missing.grains > 0 {
            let units = missing.grains.div_ceil(UNIT);
            self.budget.take_anyway(units);
            self.counters.fetch_add(u64::from(units * UNIT), Ordering::SeqCst);
        }
    }

    /// Counts a grant. Returns what has to be taken from the budget for it.
    fn claim(&self, grains: u32, max: u32) -> Result<Missing, Spent> {
        let mut counters = self.counters.load(Ordering::SeqCst);
        loop {
            let (granted, taken) = split(counters);
            let Some(next) = granted.checked_add(grains).filter(|next| *next <= max) else {
                return Err(Spent::Connection(self.max as usize * GRAIN));
            };
            let changed = counters + (u64::from(grains) << 32);
            match self.counters.compare_exchange_weak(counters, changed, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    let leave = if next <= RESERVE_USE_MAX { Leave::Nothing } else { Leave::Reserve };
                    return Ok(Missing { grains: next.saturating_sub(taken).min(grains), leave });
                }
                Err(found) => counters = found,
            }
        }
    }

    fn release(&self, grains: u32) {
        let before = self.counters.fetch_sub(u64::from(grains) << 32, Ordering::SeqCst);
        let (granted, taken) = split(before);
        let surplus = taken.saturating_sub(granted - grains);
        if surplus > SURPLUS_MAX {
            self.keep_surplus(BLOCK);
        } else if surplus >= UNIT && !self.budget.allows_surplus() {
            self.keep_surplus(0);
        }
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_waiters();
        }
    }

    /// Releases the surplus. Called now and then, so that an idle connection holds nothing.
    pub fn trim(&self) {
        self.keep_surplus(0);
    }

    /// Releases the surplus beyond `surplus`.
    fn keep_surplus(&self, surplus: u32) {
        let mut counters = self.counters.load(Ordering::SeqCst);
        loop {
            let (granted, taken) = split(counters);
            let units = taken.saturating_sub(granted).saturating_sub(surplus) / UNIT;
            if units == 0 {
                return;
            }
            let changed = counters - u64::from(units * UNIT);
            match self.counters.compare_exchange_weak(counters, changed, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return self.budget.release(units),
                Err(found) => counters = found,
            }
        }
    }
}

/// What an account has to take from the budget for a grant.
struct Missing {
    grains: u32,
    leave: Leave,
}

impl Drop for Account {
    fn drop(&mut self) {
        // No grant is left: each holds the account.
        self.trim();
    }
}

/// Counts a waiting task while it exists.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Waiting<'a> {
        count.fetch_add(1, Ordering::SeqCst);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Bytes of one account; released when dropped.
#[derive(Debug)]
pub(crate) struct Grant {
    account: Arc<Account>,
    grains: u32,
}

impl Grant {
    pub fn bytes(&self) -> usize {
        self.grains as usize * GRAIN
    }

    /// Changes the size of the grant. Fails if it has to grow and the bytes are not free.
    pub fn try_resize(&mut self, bytes: usize) -> Result<(), Spent> {
        let grains = grains(bytes);
        if grains > self.grains {
            self.account.try_take(grains - self.grains)?;
            self.grains = grains;
        }
        self.shrink(grains);
        Ok(())
    }

    /// Changes the size of the grant, beyond the limits if necessary: for something that can no longer be refused.
    pub fn resize_anyway(&mut self, bytes: usize) {
        let grains = grains(bytes);
        if grains > self.grains {
            self.account.take_anyway(grains - self.grains);
            self.grains = grains;
        }
        self.shrink(grains);
    }

    fn shrink(&mut self, grains: u32) {
        if grains < self.grains {
            self.account.release(self.grains - grains);
            self.grains = grains;
        }
    }

    /// Moves `bytes` from another grant of the same account to this one, or as many as it has.
    pub fn absorb(&mut self, other: &mut Grant, bytes: usize) {
        debug_assert!(Arc::ptr_eq(&self.account, &other.account), "a grant does not leave its account");
        let moved = grains(bytes).min(other.grains);
        other.grains -= moved;
        self.grains += moved;
    }

    /// Adds another grant of the same account to this one.
    pub fn merge(&mut self, mut other: Grant) {
        self.absorb(&mut other, usize::MAX);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if self.grains > 0 {
            self.account.release(self.grains);
        }
    }
}

fn grains(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(GRAIN)).unwrap_or(u32::MAX)
}

/// The grains that are granted, and those that are taken.
fn split(counters: u64) -> (u32, u32) {
    ((counters >> 32) as u32, counters as u32)
}

#[cfg(test)]
mod tests;
