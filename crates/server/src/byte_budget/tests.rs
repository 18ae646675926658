//! Grants, their limits and waits.

use super::*;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

#[test]
fn what_is_granted_is_counted_and_released() {
    let budget = ByteBudget::new(64 * MIB);
    let account = budget.account(usize::MAX);
    let grant = account.try_grant(100).unwrap();
    assert_eq!((account.used(), budget.used()), (128, 32 * KIB), "a block, most of it surplus");
    let large = account.try_grant(2 * MIB).unwrap();
    assert!((2 * MIB..3 * MIB).contains(&budget.used()));
    drop(large);
    assert!(budget.used() <= 160 * KIB, "{}", budget.used());
    account.trim();
    assert_eq!(budget.used(), KIB, "no surplus");
    drop(grant);
    drop(account);
    assert_eq!(budget.used(), 0);
}

#[test]
fn small_grants_one_after_the_other_leave_the_budget_alone() {
    let budget = ByteBudget::new(64 * MIB);
    let account = budget.account(usize::MAX);
    drop(account.try_grant(1000).unwrap());
    let free = budget.0.free.available_permits();
    for _ in 0..1000 {
        let _held: Vec<Grant> = (0..8).map(|_| account.try_grant(1000).unwrap()).collect();
        assert_eq!(budget.0.free.available_permits(), free);
    }
}

#[test]
fn a_connection_has_a_share_and_all_have_the_limit() {
    let budget = ByteBudget::new(64 * MIB);
    let accounts: Vec<_> = (0..5).map(|_| budget.account(usize::MAX)).collect();
    let mut held = Vec::new();
    for account in &accounts[..3] {
        held.push(account.try_grant(16 * MIB).unwrap());
        assert_eq!(account.try_grant(1).unwrap_err(), Spent::Connection(16 * MIB));
    }
    assert_eq!(accounts[4].try_grant(MIB).unwrap_err(), Spent::All(64 * MIB), "the reserve is for others");
    assert_eq!(accounts[4].used(), 0, "what was refused is not counted");
    let little: Vec<_> = (0..64).map(|_| budget.account(MIB).try_grant(256 * KIB).unwrap()).collect();
    assert_eq!(budget.account(MIB).try_grant(1).unwrap_err(), Spent::All(64 * MIB));
    drop(little);
    held.pop();
    assert!(accounts[4].try_grant(MIB).is_ok());
    assert!(budget.account(MIB).try_grant(MIB + 1).is_err());
}

#[test]
fn a_debt_is_paid_before_anything_is_granted_again() {
    let budget = ByteBudget::new(8 * MIB);
    let account = budget.account(usize::MAX);
    let held = account.grant_anyway(10 * MIB);
    assert_eq!(budget.used(), 10 * MIB);
    let other = budget.account(usize::MAX);
    assert_eq!(other.try_grant(1).unwrap_err(), Spent::All(8 * MIB));
    drop(held);
    account.trim();
    assert_eq!(budget.used(), 0);
    assert!(other.try_grant(2 * MIB).is_ok());
}

#[test]
fn no_surplus_is_kept_when_half_of_the_budget_is_used() {
    let budget = ByteBudget::new(MIB);
    let account = budget.account(usize::MAX);
    let grant = account.try_grant(100).unwrap();
    assert_eq!(budget.used(), 32 * KIB);
    let hogs: Vec<_> = (0..3).map(|_| budget.account(usize::MAX).try_grant(192 * KIB).unwrap()).collect();
    drop(account.try_grant(100).unwrap());
    assert!(!budget.allows_surplus() && !budget.is_scarce());
    assert!(budget.used() <= 578 * KIB, "{}", budget.used());
    drop(account.try_grant(5 * KIB).unwrap());
    assert!(budget.used() <= 578 * KIB, "{}", budget.used());
    drop((grant, hogs));
    assert_eq!(budget.used(), 0);
}

#[test]
fn grants_change_their_size_and_move_into_one_another() {
    let budget = ByteBudget::new(64 * MIB);
    let account = budget.account(8 * MIB);
    let mut grant = account.try_grant(MIB).unwrap();
    let mut part = account.nothing();
    part.absorb(&mut grant, MIB / 4);
    assert_eq!((grant.bytes(), part.bytes(), account.used()), (MIB * 3 / 4, MIB / 4, MIB));
    part.try_resize(MIB / 2).unwrap();
    assert_eq!(account.used(), MIB * 5 / 4);
    assert!(part.try_resize(9 * MIB).is_err());
    assert_eq!(part.bytes(), MIB / 2, "a refused change changes nothing");
    part.resize_anyway(9 * MIB);
    part.resize_anyway(0);
    grant.merge(part);
    assert_eq!((grant.bytes(), account.used()), (MIB * 3 / 4, MIB * 3 / 4));
    drop(grant);
    assert_eq!(account.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_its_own_connection_and_for_all_but_not_for_ever() {
    let budget = ByteBudget::new(16 * MIB);
    let (one, other) = (budget.account(4 * MIB), budget.account(4 * MIB));
    let held = one.try_grant(4 * MIB).unwrap();
    assert_eq!(one.grant(1).await.unwrap_err(), Spent::Connection(4 * MIB));
    let waiting = tokio::spawn({
        let one = one.clone();
        async move { one.grant(3 * MIB).await.map(|grant| grant.bytes()) }
    });
    tokio::task::yield_now().await;
    drop(held);
    assert_eq!(waiting.await.unwrap(), Ok(3 * MIB));

    one.trim();
    let hogs: Vec<_> = (0..3).map(|_| budget.account(4 * MIB).try_grant(4 * MIB).unwrap()).collect();
    assert!(other.grant(1).await.is_ok(), "the reserve is there");
    assert_eq!(other.grant(MIB).await.unwrap_err(), Spent::All(16 * MIB));
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { other.grant(1 << 40).await.map(|grant| grant.bytes()) }
    });
    tokio::task::yield_now().await;
    drop(hogs);
    assert_eq!(
        waiting.await.unwrap(),
        Ok(4 * MIB),
        "one that is too large gets all that a connection may have"
    );
    assert_eq!((one.used(), other.used()), (0, 0));
    drop((one, other));
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn a_wait_that_is_dropped_takes_nothing() {
    let budget = ByteBudget::new(16 * MIB);
    let hogs: Vec<_> = (0..3).map(|_| budget.account(4 * MIB).try_grant(4 * MIB).unwrap()).collect();
    let account = budget.account(usize::MAX);
    let waiting = tokio::spawn({
        let account = account.clone();
        async move { account.grant(2 * MIB).await }
    });
    while account.used() == 0 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_eq!(account.used(), 0);
    drop((hogs, account));
    assert_eq!(budget.used(), 0);
}

#[test]
fn threads_that_take_and_release_leave_nothing_counted() {
    let budget = ByteBudget::new(4 * MIB);
    std::thread::scope(|scope| {
        for seed in 1..=4_usize {
            let budget = &budget;
            scope.spawn(move || {
                let account = budget.account(MIB);
                let mut held = Vec::new();
                for n in 0..20_000_usize {
                    let size = (n.wrapping_mul(seed * 7919) % 97) * 1000;
                    held.extend(account.try_grant(size));
                    if held.len() > n % 13 {
                        held.swap_remove(n % held.len());
                    }
                    assert!(account.used() <= MIB);
                }
            });
        }
    });
    assert_eq!(budget.used(), 0);
}
