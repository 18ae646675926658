//! The settings that the server sends to a client in answer to its own.

use std::time::Duration;

use redstart_engine::{GroupConfig, RetryPolicy as Policy};
use redstart_wire::v2::{
    ClientType, CustomizedBackoff, ExponentialBackoff, Metric, RetryPolicy, Settings, retry_policy::Strategy,
    settings::PubSub,
};

use super::{convert::duration, lite};

pub(super) const LONG_POLL_MAX: Duration = Duration::from_secs(20);
const PRODUCER_ATTEMPTS: i32 = 3;

pub(super) fn is_lite(settings: &Settings) -> bool {
    matches!(settings.client_type(), ClientType::LitePushConsumer | ClientType::LiteSimpleConsumer)
}

/// The client's own settings with the fields that the server decides on.
pub(super) fn merge(
    mut settings: Settings,
    group: Option<&GroupConfig>,
    body_bytes_max: usize,
    receive_batch_max: usize,
) -> Settings {
    let lite = is_lite(&settings);
    settings.metric = Some(Metric { on: false, endpoints: None });
    match &mut settings.pub_sub {
        Some(PubSub::Publishing(publishing)) => {
            publishing.max_body_size = body_bytes_max as i32;
            publishing.validate_message_type = true;
            settings.backoff_policy = Some(producer_policy());
        }
        Some(PubSub::Subscription(subscription)) => {
            let default = GroupConfig::default();
            let group = group.unwrap_or(&default);
            subscription.fifo = Some(group.ordered || lite);
            subscription.receive_batch_size = Some(receive_batch_max as i32);
            subscription.long_polling_timeout = Some(duration(LONG_POLL_MAX));
            if lite {
                subscription.lite_subscription_quota = Some(lite::QUOTA as i32);
                subscription.max_lite_topic_size = Some(lite::NAME_LEN_MAX as i32);
            }
            settings.backoff_policy = Some(consumer_policy(group));
        }
        None => {}
    }
    settings
}

fn producer_policy() -> RetryPolicy {
    RetryPolicy {
        max_attempts: PRODUCER_ATTEMPTS,
        strategy: Some(Strategy::ExponentialBackoff(ExponentialBackoff {
            initial: Some(duration(Duration::from_millis(10))),
            max: Some(duration(Duration::from_secs(1))),
            multiplier: 2.0,
        })),
    }
}

fn consumer_policy(group: &GroupConfig) -> RetryPolicy {
    let strategy = match &group.retry {
        Policy::Ladder(steps) => Strategy::CustomizedBackoff(CustomizedBackoff {
            next: steps.iter().copied().map(duration).collect(),
        }),
        Policy::Exponential { initial, max, multiplier } => {
            Strategy::ExponentialBackoff(ExponentialBackoff {
                initial: Some(duration(*initial)),
                max: Some(duration(*max)),
                multiplier: *multiplier as f32,
            })
        }
    };
    RetryPolicy { max_attempts: group.attempts_max() as i32, strategy: Some(strategy) }
}
