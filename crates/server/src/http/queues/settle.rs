//! What becomes of deliveries: acked, returned, kept for longer, or given up.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use http::StatusCode;
use hyper::body::Incoming;
use redstart_engine::{AckError, Engine, ForwardError, Receipt, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    super::{
        answer::{Answer, json},
        body::{self, BodyLimits},
        call::Call,
        refusal::Refusal,
    },
    SMALL_BODY_BYTES_MAX, Served, State,
    bounded::Bounded,
    operation::Step,
    read_json,
    refusals::unknown_handle,
};
use crate::{
    dead_letter_reason::dead_letter_reason,
    invisible_time::{self, RETRY_DELAY_MIN, not_early},
    scope::{Scope, ScopedError},
    shard::ChangeError,
    shards::{ServedShard, ShardNumber},
};

const HANDLES_MAX: usize = 1024;
/// Dead letters are messages that are stored again.
const DEAD_LETTERS_MAX: usize = 32;

/// Deliveries, and what to do with them.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settling {
    handle: Option<String>,
    #[serde(default)]
    handles: Bounded<String, HANDLES_MAX>,
    /// Of a nack; without it the group's retry policy decides.
    delay_ms: Option<u64>,
    /// Of a renewal.
    invisible_ms: Option<u64>,
    /// Of a dead letter.
    reason: Option<String>,
}

/// What is done with each delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Ack,
    /// It comes again after this time, or after what the group's policy says.
    Return(Option<Duration>),
    Renew(Duration),
    GiveUp(Option<String>),
}

#[derive(Debug, Serialize)]
struct Settled {
    /// Deliveries for which it was done.
    done: usize,
    failed: Vec<Failed>,
}

#[derive(Debug, Serialize)]
struct Failed {
    handle: String,
    code: &'static str,
    message: String,
}

type Outcome = Result<(), Refusal>;

impl Settling {
    /// What to do, with which handles.
    fn checked(self, step: Step) -> Result<(Change, Vec<String>), Refusal> {
        let unused = |field: &str, there: bool| match there {
            false => Ok(()),
            true => Err(Refusal::bad("bad_request", format!("{field} means nothing here"))),
        };
        unused("delay_ms", self.delay_ms.is_some() && step != Step::Nack)?;
        unused("invisible_ms", self.invisible_ms.is_some() && step != Step::Renew)?;
        unused("reason", self.reason.is_some() && step != Step::DeadLetter)?;
        let handles = match (self.handle, self.handles.0) {
            (Some(handle), list) if list.is_empty() => vec![handle],
            (None, list) if !list.is_empty() => list,
            (Some(_), _) => {
                return Err(Refusal::bad("bad_request", "there can be handle or handles, not both"));
            }
            (None, _) => return Err(Refusal::bad("bad_request", "handle or handles is missing")),
        };
        let out_of_range = |what: &str, value: u64, from: u128| {
            let to = invisible_time::MAX.as_millis();
            let why = format!("{what} is {value}; it must be from {from} to {to}");
            Refusal::bad("out_of_range", why)
        };
        let change = match step {
            Step::Nack => {
                let delay = self.delay_ms.map(Duration::from_millis);
                if let Some(ms) =
                    self.delay_ms.filter(|_| delay.is_some_and(|delay| delay > invisible_time::MAX))
                {
                    return Err(out_of_range("delay_ms", ms, 0));
                }
                Change::Return(delay)
            }
            Step::Renew => {
                let ms = self
                    .invisible_ms
                    .ok_or_else(|| Refusal::bad("bad_request", "invisible_ms is missing"))?;
                let time = Duration::from_millis(ms);
                if !(invisible_time::MIN..=invisible_time::MAX).contains(&time) {
                    return Err(out_of_range("invisible_ms", ms, invisible_time::MIN.as_millis()));
                }
                Change::Renew(time)
            }
            Step::DeadLetter => {
                if handles.len() > DEAD_LETTERS_MAX {
                    let why = format!(
                        "{} handles; at most {DEAD_LETTERS_MAX} are given up at a time",
                        handles.len()
                    );
                    return Err(Refusal::bad("out_of_range", why));
                }
                Change::GiveUp(self.reason.as_deref().and_then(dead_letter_reason))
            }
            Step::Ack | Step::Receive => Change::Ack,
        };
        Ok((change, handles))
    }
}

impl State {
    pub(super) async fn settle(
        &self,
        served: &Served,
        call: Call,
        body: Incoming,
        scope: Scope,
        step: Step,
    ) -> Result<Answer, Refusal> {
        let limits = BodyLimits { bytes_max: SMALL_BODY_BYTES_MAX, timeout: call.limits.idle_timeout };
        let (body, _grant) = body::read(body, &call.caller, limits).await?;
        let (change, handles) = read_json::<Settling>(&body)?.checked(step)?;
        let scope = Arc::new(scope);
        let outcomes = match change {
            Change::GiveUp(reason) => give_up(served, &scope, &handles, reason.as_deref()).await,
            change => record(served, &scope, &handles, &change).await,
        };
        answer(&handles, &outcomes)
    }
}

/// All done: 200. All failed: as the first one. Both: 207, with those that failed.
fn answer(handles: &[String], outcomes: &[Outcome]) -> Result<Answer, Refusal> {
    let failed =
        handles.iter().zip(outcomes).filter_map(|(handle, outcome)| Some((handle, outcome.as_ref().err()?)));
    let failed: Vec<(&String, &Refusal)> = failed.collect();
    let status = match failed.first() {
        None => StatusCode::OK,
        Some((_, first)) if handles.len() == 1 => return Err((*first).clone()),
        Some((_, first)) if failed.len() == handles.len() => first.status,
        Some(_) => StatusCode::MULTI_STATUS,
    };
    let done = handles.len() - failed.len();
    let shown = |(handle, refusal): (&'_ String, &'_ Refusal)| Failed {
        handle: handle.clone(),
        code: refusal.code,
        message: refusal.message.clone(),
    };
    Ok(json(status, &Settled { done, failed: failed.into_iter().map(shown).collect() }))
}

/// Changes that are facts: those of a shard together.
async fn record(served: &Served, scope: &Arc<Scope>, handles: &[String], change: &Change) -> Vec<Outcome> {
    let mut outcomes = vec![Err(unknown_handle()); handles.len()];
    let mut by_shard: BTreeMap<ShardNumber, Vec<(usize, Receipt)>> = BTreeMap::new();
    for (at, handle) in handles.iter().enumerate() {
        if let Some((shard, receipt)) = served.signer.read_receipt(handle) {
            by_shard.entry(shard).or_default().push((at, receipt));
        }
    }
    for (number, entries) in by_shard {
        let Some(shard) = served.shards.get(number) else { continue };
        let places: Vec<usize> = entries.iter().map(|(at, _)| *at).collect();
        let (scope, change) = (scope.clone(), change.clone());
        let receipts: Vec<Receipt> = entries.into_iter().map(|(_, receipt)| receipt).collect();
        let recorded = async {
            let asked =
                shard.handle.record(move |engine, now| apply(engine, &scope, &receipts, &change, now))?;
            Ok::<_, Refusal>(asked.await?)
        };
        // What one shard refuses says nothing about the deliveries of another.
        match recorded.await {
            Ok(recorded) => places.iter().zip(recorded).for_each(|(at, outcome)| outcomes[*at] = outcome),
            Err(refusal) => places.iter().for_each(|at| outcomes[*at] = Err(refusal.clone())),
        }
    }
    outcomes
}

/// Runs on the owner thread.
fn apply(
    engine: &mut Engine,
    scope: &Scope,
    receipts: &[Receipt],
    change: &Change,
    now: Timestamp,
) -> Vec<Outcome> {
    let fitting: Vec<Outcome> =
        receipts.iter().map(|receipt| Ok(scope.check(engine, *receipt, None)?)).collect();
    let fits = receipts.iter().zip(&fitting).filter(|(_, fit)| fit.is_ok()).map(|(receipt, _)| *receipt);
    let fits: Vec<Receipt> = fits.collect();
    let done: Vec<Result<(), AckError>> = match change {
        Change::Ack => engine.ack_batch(&fits, now),
        Change::Renew(time) => {
            fits.iter().map(|receipt| engine.renew(*receipt, not_early(*time), now)).collect()
        }
        Change::Return(delay) => {
            let delays: Vec<Duration> = fits
                .iter()
                .map(|receipt| delay.unwrap_or_else(|| policy_delay(engine, scope, *receipt)))
                .collect();
            let returned = fits.iter().zip(delays).map(|(receipt, delay)| {
                engine.change_invisible(*receipt, not_early(delay.max(RETRY_DELAY_MIN)), now).map(drop)
            });
            returned.collect()
        }
        // Given up by `give_up`: a dead letter is a decision.
        Change::GiveUp(_) => Vec::new(),
    };
    let mut done = done.into_iter();
    let mut next = |()| done.next().unwrap_or(Err(AckError::Unknown)).map_err(Refusal::from);
    fitting.into_iter().map(|fit| fit.and_then(&mut next)).collect()
}

/// When the group's policy lets a failed message come again.
fn policy_delay(engine: &Engine, scope: &Scope, receipt: Receipt) -> Duration {
    let attempts = engine.attempts(receipt).unwrap_or(1);
    let policy = engine.group_config(&scope.group).map(|config| config.retry.delay(attempts.into()));
    policy.unwrap_or(RETRY_DELAY_MIN).min(invisible_time::MAX)
}

/// Makes dead letters. Each is a decision of its own.
async fn give_up(
    served: &Served,
    scope: &Arc<Scope>,
    handles: &[String],
    reason: Option<&str>,
) -> Vec<Outcome> {
    join_all(handles.iter().map(|handle| async move {
        let (number, receipt) = served.signer.read_receipt(handle).ok_or_else(unknown_handle)?;
        let shard = served.shards.get(number).ok_or_else(unknown_handle)?;
        forward(shard, scope, receipt, reason).await
    }))
    .await
}

async fn forward(shard: &ServedShard, scope: &Arc<Scope>, receipt: Receipt, reason: Option<&str>) -> Outcome {
    // The message is read for its dead letter. Not on the owner thread, if it is not in memory.
    let place = shard.handle.query(move |engine, _| engine.place_of_delivery(receipt))?.await?;
    if let Ok(Some((position, size))) = place {
        // The owner thread reports a failure.
        drop(shard.handle.bodies().fetch(position, size).await);
    }
    let forward = || {
        let (scope, reason) = (scope.clone(), reason.map(str::to_owned));
        shard.handle.change(move |engine, now| {
            scope.check(engine, receipt, None).map_err(ScopedError::OutOfScope)?;
            engine.forward_to_dead_letters(receipt, reason.as_deref(), now).map_err(ScopedError::Engine)
        })
    };
    let forwarded = match forward()?.await? {
        // The first dead letter of a group creates its topic. After the barrier the topic is durable.
        Err(ChangeError::Refused(ScopedError::Engine(ForwardError::NoTopic { .. }))) => {
            let barrier = shard.handle.change(|engine, _| Ok::<_, AckError>(engine.barrier()))?;
            barrier.await??;
            forward()?.await?
        }
        other => other,
    };
    Ok(forwarded?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(step: Step, json: &str) -> Result<(Change, usize), &'static str> {
        let read = read_json::<Settling>(json.as_bytes()).and_then(|settling| settling.checked(step));
        read.map(|(change, handles)| (change, handles.len())).map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_request_says_what_to_do_with_which_deliveries() {
        let ms = Duration::from_millis;
        assert_eq!(checked(Step::Ack, r#"{"handle":"a"}"#), Ok((Change::Ack, 1)));
        assert_eq!(checked(Step::Ack, r#"{"handles":["a","b"]}"#), Ok((Change::Ack, 2)));
        assert_eq!(checked(Step::Nack, r#"{"handle":"a"}"#), Ok((Change::Return(None), 1)));
        let returned = Ok((Change::Return(Some(ms(0))), 1));
        assert_eq!(checked(Step::Nack, r#"{"handle":"a","delay_ms":0}"#), returned);
        let renewed = Ok((Change::Renew(ms(10_000)), 1));
        assert_eq!(checked(Step::Renew, r#"{"handle":"a","invisible_ms":10000}"#), renewed);
        let given_up = Ok((Change::GiveUp(Some("bad json".to_owned())), 1));
        assert_eq!(checked(Step::DeadLetter, r#"{"handle":"a","reason":"bad\njson"}"#), given_up);
        let many = format!(r#"{{"handles":[{}]}}"#, vec!["\"h\""; HANDLES_MAX + 1].join(","));
        let some = format!(r#"{{"handles":[{}]}}"#, vec!["\"h\""; DEAD_LETTERS_MAX + 1].join(","));
        for (step, json, code) in [
            (Step::Ack, "", "bad_json"),
            (Step::Ack, "{}", "bad_request"),
            (Step::Ack, r#"{"handles":[]}"#, "bad_request"),
            (Step::Ack, r#"{"handle":"a","handles":["b"]}"#, "bad_request"),
            (Step::Ack, r#"{"handle":"a","delay_ms":1}"#, "bad_request"),
            (Step::Ack, r#"{"handle":"a","reason":"x"}"#, "bad_request"),
            (Step::Nack, r#"{"handle":"a","delay_ms":43200001}"#, "out_of_range"),
            (Step::Renew, r#"{"handle":"a"}"#, "bad_request"),
            (Step::Renew, r#"{"handle":"a","invisible_ms":9999}"#, "out_of_range"),
            (Step::Ack, many.as_str(), "bad_json"),
            (Step::DeadLetter, some.as_str(), "out_of_range"),
        ] {
            assert_eq!(checked(step, json), Err(code), "{json}");
        }
    }
}
