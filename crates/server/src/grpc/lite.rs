//! Lite topics: the binding of groups, the subscriptions of clients, and notices to clients that lose a lite topic.

use std::{collections::BTreeSet, time::Duration};

use redstart_engine::{
    GroupName, LITE_TOPIC_LEN_MAX, LiteError, LiteName, LiteOffset, QueueOffset, Timestamp, TopicId,
    TopicName,
};
use redstart_wire::v2::{
    Code, LiteSubscriptionAction, NotifyUnsubscribeLiteCommand, OffsetOption, SyncLiteSubscriptionRequest,
    TelemetryCommand, offset_option, telemetry_command::Command,
};

use super::{
    refusal::{Refusal, ok},
    service::Service,
};
use crate::{
    shard::{LiteAction, LiteChange, LiteNotice, TooManyLiteSubscriptions, Unavailable},
    shards::ServedShard,
};

/// Attributes of a consumer group: the topic whose lite topics it consumes, and whether each belongs to one client.
pub(crate) const BIND_TOPIC: &str = "lite.bind.topic";
pub(crate) const SUB_MODEL: &str = "lite.sub.model";
pub(crate) const EXCLUSIVE: &str = "Exclusive";

/// Lite topics that one client may subscribe to. Clients count for themselves and may lag behind, so a few more are accepted.
pub(super) const QUOTA: usize = 2000;
const QUOTA_TOLERANCE: usize = 300;
pub(super) const NAME_LEN_MAX: usize = LITE_TOPIC_LEN_MAX;
/// A lite topic that is being removed can be created again once the removal is durable.
const ENSURE_TRIES: usize = 3;
const UPKEEP_PAUSE: Duration = Duration::from_millis(200);

/// The topic that a group of lite consumers is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binding {
    pub parent: String,
    pub exclusive: bool,
}

impl From<LiteError> for Refusal {
    fn from(error: LiteError) -> Self {
        let code = match error {
            LiteError::UnknownTopic { .. } => Code::TopicNotFound,
            LiteError::NotLite { .. } => Code::IllegalTopic,
            LiteError::Deleting { .. } => Code::TooManyRequests,
            LiteError::TooMany { .. } => Code::LiteTopicQuotaExceeded,
        };
        Refusal::new(code, error.to_string())
    }
}

impl From<TooManyLiteSubscriptions> for Refusal {
    fn from(error: TooManyLiteSubscriptions) -> Self {
        Refusal::new(Code::LiteSubscriptionQuotaExceeded, error.to_string())
    }
}

impl Service {
    /// Applies a change of a client's subscriptions.
    pub(super) async fn sync_lites(
        &self,
        client: &str,
        request: SyncLiteSubscriptionRequest,
    ) -> Result<(), Refusal> {
        self.clients.touch(client);
        if !self.clients.is_alive(client) {
            return Err(Refusal::new(Code::TooManyRequests, "too many clients are connected"));
        }
        let parent = self.topic_name(request.topic.as_ref())?;
        let group = self.group_name(request.group.as_ref())?;
        let exclusive = self.check_bound(&group, &parent).await?.exclusive;
        let names = names(&request.lite_topic_set)?;
        let wanted = request.action();
        let offset = match wanted {
            LiteSubscriptionAction::PartialAdd => offset(request.offset_option.as_ref())?,
            _ => LiteOffset::Last,
        };
        for shard in self.shards.of_topic(&parent) {
            let action = match wanted {
                LiteSubscriptionAction::PartialAdd => {
                    LiteAction::Add(self.lites_here(shard, &parent, &names).await?, offset)
                }
                LiteSubscriptionAction::CompleteAdd => {
                    LiteAction::Replace(self.lites_here(shard, &parent, &names).await?)
                }
                LiteSubscriptionAction::PartialRemove => LiteAction::Remove(names.clone()),
                LiteSubscriptionAction::CompleteRemove => LiteAction::Replace(Vec::new()),
            };
            let change = LiteChange {
                client: client.to_owned(),
                group: group.clone(),
                parent: parent.clone(),
                action,
                exclusive,
                quota: QUOTA + QUOTA_TOLERANCE,
            };
            self.notify_lost(shard.handle.change_lites(change)?.await??);
        }
        Ok(())
    }

    /// The lite topics that a shard has for a subscription: those whose messages go there, which are created, and those that it has from
    /// a time when there were fewer shards.
    async fn lites_here(
        &self,
        shard: &ServedShard,
        parent: &TopicName,
        names: &[LiteName],
    ) -> Result<Vec<(LiteName, TopicId)>, Refusal> {
        if self.shards.is_single() {
            return self.ensure_lites(shard, parent, names.to_vec()).await;
        }
        let is_home = |name: &LiteName| self.shards.for_lite(parent, name.as_str()).number == shard.number;
        let (own, others): (Vec<LiteName>, Vec<LiteName>) = names.iter().cloned().partition(is_home);
        let mut here = self.ensure_lites(shard, parent, own).await?;
        let (topic, asked) = (parent.clone(), others.clone());
        let known = self.ask(shard, move |engine, _| engine.lite_ids(&topic, &asked)).await?;
        here.extend(others.into_iter().zip(known).filter_map(|(name, id)| Some((name, id?))));
        Ok(here)
    }

    /// Creates the lite topics that do not exist; returns the ids of all.
    pub(super) async fn ensure_lites(
        &self,
        shard: &ServedShard,
        parent: &TopicName,
        names: Vec<LiteName>,
    ) -> Result<Vec<(LiteName, TopicId)>, Refusal> {
        for _ in 0..ENSURE_TRIES {
            let (topic, asked) = (parent.clone(), names.clone());
            let found: Option<Vec<TopicId>> = self
                .ask(shard, move |engine, _| engine.lite_ids(&topic, &asked).into_iter().collect())
                .await?;
            if let Some(ids) = found {
                return Ok(names.into_iter().zip(ids).collect());
            }
            let (topic, asked) = (parent.clone(), names.clone());
            self.change(shard, move |engine, _| engine.ensure_lites(&topic, &asked)).await?;
        }
        let why = format!("lite topics of {parent} are being removed, try again");
        Err(Refusal::new(Code::TooManyRequests, why))
    }

    /// The group of a lite consumer must be bound to the topic.
    pub(super) async fn check_bound(&self, group: &GroupName, topic: &TopicName) -> Result<Binding, Refusal> {
        let asked = group.clone();
        let binding = self.ask(self.shards.first(), move |engine, _| {
            let config = engine.group_config(&asked)?;
            let exclusive =
                config.attributes.get(SUB_MODEL).is_some_and(|model| model.eq_ignore_ascii_case(EXCLUSIVE));
            let parent = config.attributes.get(BIND_TOPIC)?.clone();
            Some(Binding { parent, exclusive })
        });
        check_binding(binding.await?, group, topic)
    }

    /// Removes the subscriptions of clients that are gone, and notifies clients whose lite topics have been removed.
    pub(super) async fn lite_upkeep(&self, gone: Vec<String>) {
        for shard in self.shards.all() {
            loop {
                match shard.handle.lite_upkeep(gone.clone()) {
                    Ok(reply) => break self.notify_lost(reply.await.unwrap_or_default()),
                    Err(Unavailable::Stopped) => break,
                    // Tried again: otherwise their subscriptions would stay for ever.
                    Err(Unavailable::Overloaded { .. }) => tokio::time::sleep(UPKEEP_PAUSE).await,
                }
            }
        }
    }

    fn notify_lost(&self, notices: Vec<LiteNotice>) {
        for LiteNotice { client, lite } in notices {
            let command = NotifyUnsubscribeLiteCommand { lite_topic: lite.to_string() };
            let command = TelemetryCommand {
                status: Some(ok()),
                command: Some(Command::NotifyUnsubscribeLiteCommand(command)),
            };
            // A client without a stream, or with a full one, notices when it receives nothing.
            let notified = self
                .clients
                .stream_of(&client)
                .flatten()
                .is_some_and(|stream| stream.try_send(command).is_ok());
            tracing::debug!(client, %lite, notified, "a client has lost a lite topic");
        }
    }
}

pub(super) fn only_for_lites(group: &GroupName, parent: &str) -> Refusal {
    let why = format!(
        "consumer group {group} is for the lite topics of {parent}: use a lite consumer, or another group"
    );
    Refusal::new(Code::IllegalConsumerGroup, why)
}

fn check_binding(binding: Option<Binding>, group: &GroupName, topic: &TopicName) -> Result<Binding, Refusal> {
    match binding {
        Some(binding) if binding.parent == topic.as_str() => Ok(binding),
        Some(Binding { parent, .. }) => {
            let why =
                format!("consumer group {group} is bound to the lite topics of {parent}, not of {topic}");
            Err(Refusal::new(Code::IllegalTopic, why))
        }
        None => {
            let why = format!(
                "consumer group {group} is not bound to a topic with lite topics; bind it with: redstart group update {group} --attribute {BIND_TOPIC}={topic}"
            );
            Err(Refusal::new(Code::IllegalConsumerGroup, why))
        }
    }
}

/// The names, without duplicates.
fn names(names: &[String]) -> Result<Vec<LiteName>, Refusal> {
    let (value, limit) = (names.len(), QUOTA + QUOTA_TOLERANCE);
    if value > limit {
        return Err(TooManyLiteSubscriptions { what: "lite topics of one client", value, limit }.into());
    }
    let names = names.iter().map(|name| LiteName::new(name)).collect::<Result<BTreeSet<_>, _>>()?;
    Ok(names.into_iter().collect())
}

fn offset(option: Option<&OffsetOption>) -> Result<LiteOffset, Refusal> {
    use offset_option::{OffsetType, Policy};
    let number = |value: i64| {
        let why = || Refusal::new(Code::IllegalOffset, format!("the offset option {value} is negative"));
        u64::try_from(value).map_err(|_| why())
    };
    Ok(match option.and_then(|option| option.offset_type.as_ref()) {
        None => LiteOffset::Last,
        Some(OffsetType::Policy(policy)) => match Policy::try_from(*policy).unwrap_or(Policy::Last) {
            Policy::Last => LiteOffset::Last,
            Policy::Min => LiteOffset::Min,
            Policy::Max => LiteOffset::Max,
        },
        Some(OffsetType::Offset(offset)) => LiteOffset::At(QueueOffset(number(*offset)?)),
        Some(OffsetType::TailN(count)) => LiteOffset::Back(number(*count)?),
        Some(OffsetType::Timestamp(at)) => LiteOffset::Time(Timestamp(number(*at)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_counted_and_taken_once() {
        let given = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let good: Vec<String> =
            names(&given(&["b", "a", "b"])).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(good, ["a", "b"]);
        for bad in ["", "a b", "a%b", &"x".repeat(65)] {
            assert_eq!(names(&given(&[bad])).unwrap_err().code, Code::IllegalLiteTopic, "{bad:?}");
        }
        let many: Vec<String> = (0..=QUOTA + QUOTA_TOLERANCE).map(|n| n.to_string()).collect();
        assert_eq!(names(&many).unwrap_err().code, Code::LiteSubscriptionQuotaExceeded);
    }

    #[test]
    fn a_group_that_does_not_fit_is_told_what_to_do() {
        let (group, topic) = (GroupName::new("g").unwrap(), TopicName::new("p").unwrap());
        let bound = |parent: &str| Binding { parent: parent.to_owned(), exclusive: false };
        assert!(check_binding(Some(bound("p")), &group, &topic).is_ok());
        assert_eq!(check_binding(Some(bound("q")), &group, &topic).unwrap_err().code, Code::IllegalTopic);
        let refusal = check_binding(None, &group, &topic).unwrap_err();
        assert_eq!(refusal.code, Code::IllegalConsumerGroup);
        assert!(
            refusal.message.contains("group update g --attribute lite.bind.topic=p"),
            "{}",
            refusal.message
        );
    }

    #[test]
    fn an_offset_option_is_read_and_a_negative_one_refused() {
        use offset_option::OffsetType;
        let read = |option| offset(Some(&OffsetOption { offset_type: Some(option) }));
        assert_eq!(offset(None), Ok(LiteOffset::Last));
        assert_eq!(read(OffsetType::Policy(1)), Ok(LiteOffset::Min));
        assert_eq!(read(OffsetType::Policy(2)), Ok(LiteOffset::Max));
        assert_eq!(read(OffsetType::Offset(7)), Ok(LiteOffset::At(QueueOffset(7))));
        assert_eq!(read(OffsetType::TailN(7)), Ok(LiteOffset::Back(7)));
        assert_eq!(read(OffsetType::Timestamp(7)), Ok(LiteOffset::Time(Timestamp(7))));
        assert_eq!(read(OffsetType::Offset(-1)).unwrap_err().code, Code::IllegalOffset);
    }
}
