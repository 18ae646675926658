//! What each call needs. A request that says nothing here cannot be admitted: [`Refusable`](super::admission::Refusable)
//! asks for it.
//!
//! Handles of messages, transactions and recalls are signed and hold what they are for; their handlers compare that with
//! the topic and group that a request names, so that the names are enough here.

use redstart_auth::{Action, Actions};
use redstart_wire::v2::{self, ClientType, Resource, settings::PubSub};

use super::clients::{ClientKind, ClientSettings};
use crate::access::Needs;

const READ: Actions = Actions::of(&[Action::Sub, Action::Get]);
const MOVE: Actions = Actions::of(&[Action::Sub, Action::Update]);
const USE: Actions = Actions::of(&[Action::Pub, Action::Sub, Action::Get]);

pub(super) trait Needing {
    /// How many topics and groups it names. Asked for first, so that no rights are computed for a request that names too many.
    fn names(&self) -> usize {
        2
    }

    fn needs(&self) -> Needs<'_>;
}

fn name(resource: Option<&Resource>) -> &str {
    resource.map_or("", |resource| &resource.name)
}

fn queue_topic(queue: Option<&v2::MessageQueue>) -> &str {
    name(queue.and_then(|queue| queue.topic.as_ref()))
}

/// Requests that name a topic, a group or both, and what they need of each.
macro_rules! needing {
    ($($request:ident: $this:ident => $needs:expr,)*) => {
        $(impl Needing for v2::$request {
            fn needs(&self) -> Needs<'_> {
                let $this = self;
                $needs
            }
        })*
    };
}

needing! {
    QueryRouteRequest: this => Needs::nothing().topic(name(this.topic.as_ref()), USE),
    QueryAssignmentRequest: this => consume(this.topic.as_ref(), this.group.as_ref(), Action::Sub.into()),
    HeartbeatRequest: this => present(this.client_type(), this.group.as_ref()),
    ReceiveMessageRequest: this => Needs::nothing().consume(
        queue_topic(this.message_queue.as_ref()),
        name(this.group.as_ref()),
        Action::Sub,
    ),
    AckMessageRequest: this => consume(this.topic.as_ref(), this.group.as_ref(), Action::Sub.into()),
    ChangeInvisibleDurationRequest: this => consume(this.topic.as_ref(), this.group.as_ref(), Action::Sub.into()),
    ForwardMessageToDeadLetterQueueRequest: this => {
        consume(this.topic.as_ref(), this.group.as_ref(), Action::Sub.into())
    },
    EndTransactionRequest: this => Needs::nothing().topic(name(this.topic.as_ref()), Action::Pub),
    RecallMessageRequest: this => Needs::nothing().topic(name(this.topic.as_ref()), Action::Pub),
    NotifyClientTerminationRequest: this => match &this.group {
        Some(group) if !group.name.is_empty() => Needs::nothing().group(group.name.as_str(), Action::Sub),
        _ => Needs::nothing(),
    },
    PullMessageRequest: this => Needs::nothing().consume(
        queue_topic(this.message_queue.as_ref()),
        name(this.group.as_ref()),
        Action::Sub,
    ),
    UpdateOffsetRequest: this => {
        Needs::nothing().consume(queue_topic(this.message_queue.as_ref()), name(this.group.as_ref()), MOVE)
    },
    GetOffsetRequest: this => {
        Needs::nothing().consume(queue_topic(this.message_queue.as_ref()), name(this.group.as_ref()), READ)
    },
    QueryOffsetRequest: this => Needs::nothing().topic(queue_topic(this.message_queue.as_ref()), READ),
    SyncLiteSubscriptionRequest: this => consume(this.topic.as_ref(), this.group.as_ref(), Action::Sub.into()),
}

impl Needing for v2::SendMessageRequest {
    fn names(&self) -> usize {
        self.messages.len()
    }

    fn needs(&self) -> Needs<'_> {
        let topics = self.messages.iter().map(|message| name(message.topic.as_ref()));
        topics.fold(Needs::nothing(), |needs, topic| needs.topic(topic, Action::Pub))
    }
}

fn consume<'a>(topic: Option<&'a Resource>, group: Option<&'a Resource>, actions: Actions) -> Needs<'a> {
    Needs::nothing().consume(name(topic), name(group), actions)
}

/// A producer needs nothing to be there; what it sends does.
fn present(client_type: ClientType, group: Option<&Resource>) -> Needs<'_> {
    match client_type {
        ClientType::Producer => Needs::nothing(),
        ClientType::Unspecified if name(group).is_empty() => Needs::nothing(),
        _ => Needs::nothing().group(name(group), Action::Sub),
    }
}

/// What a client announces in its telemetry stream: commands for these topics will reach it.
pub(super) fn settings(settings: &v2::Settings) -> Needs<'_> {
    match &settings.pub_sub {
        Some(PubSub::Publishing(publishing)) => publishing
            .topics
            .iter()
            .fold(Needs::nothing(), |needs, topic| needs.topic(topic.name.as_str(), Action::Pub)),
        Some(PubSub::Subscription(subscription)) => {
            let group = Needs::nothing().group(name(subscription.group.as_ref()), Action::Sub);
            subscription
                .subscriptions
                .iter()
                .fold(group, |needs, entry| needs.topic(name(entry.topic.as_ref()), Action::Sub))
        }
        None => Needs::nothing(),
    }
}

/// The same of settings that were accepted.
pub(super) fn announced(settings: &ClientSettings) -> Needs<'_> {
    let group = settings.group.as_ref().filter(|_| settings.kind != ClientKind::Producer);
    let needs =
        group.into_iter().fold(Needs::nothing(), |needs, group| needs.group(group.as_str(), Action::Sub));
    let published = settings.publishes.iter();
    let needs = published.fold(needs, |needs, topic| needs.topic(topic.as_str(), Action::Pub));
    let subscribed = settings.subscriptions.iter();
    subscribed.fold(needs, |needs, entry| needs.topic(entry.topic.as_str(), Action::Sub))
}
