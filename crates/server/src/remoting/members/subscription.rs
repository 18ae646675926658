//! What a consumer subscribes to, as its heartbeats say.

use std::collections::BTreeMap;

use redstart_engine::Filter;
use redstart_wire::remoting::body::{ConsumerData, Subscription};

use crate::{remoting::peer_text, throttle::Throttle};

/// Topics that one consumer may subscribe to.
const SUBSCRIPTIONS_MAX: usize = 4096;

static BAD_SUBSCRIPTION: Throttle = Throttle::new();

/// A subscription and its filter, ready to use.
#[derive(Debug, Clone)]
pub(in crate::remoting) struct ParsedSubscription {
    pub subscription: Subscription,
    pub filter: Filter,
}

impl ParsedSubscription {
    /// Bytes of its texts in memory.
    pub(super) fn bytes(&self) -> usize {
        let Subscription { topic, sub_string, tags_set, code_set, expression_type, .. } = &self.subscription;
        let tags: usize = tags_set.iter().map(|tag| tag.len() + 24).sum();
        let kind = expression_type.as_ref().map_or(0, String::len);
        topic.len() + 2 * sub_string.len() + tags + 4 * code_set.len() + kind
    }
}

/// Parses a subscription's expression.
pub(in crate::remoting) fn filter(
    kind: Option<&str>,
    expression: &str,
) -> Result<Filter, redstart_engine::filter::Error> {
    match kind {
        None | Some("" | "TAG") => Filter::tags(expression),
        Some(_) => Filter::sql(expression),
    }
}

/// The subscriptions of a heartbeat by topic. One that cannot be parsed is logged and left out.
pub(super) fn parsed(data: &ConsumerData) -> BTreeMap<String, ParsedSubscription> {
    let mut all = BTreeMap::new();
    for subscription in data.subscription_data_set.iter().take(SUBSCRIPTIONS_MAX) {
        if peer_text::check("topic", &subscription.topic).is_err() {
            continue;
        }
        match filter(subscription.expression_type.as_deref(), &subscription.sub_string) {
            Ok(filter) => {
                let parsed = ParsedSubscription { subscription: subscription.clone(), filter };
                all.insert(subscription.topic.clone(), parsed);
            }
            Err(error) => {
                if let Some(repeated) = BAD_SUBSCRIPTION.permit() {
                    let (group, topic) =
                        (peer_text::shown(&data.group_name), peer_text::shown(&subscription.topic));
                    tracing::warn!(group, topic, %error, repeated, "a subscription cannot be parsed");
                }
            }
        }
    }
    all
}
