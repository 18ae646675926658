use std::collections::BTreeMap;

use bytes::Bytes;
use redstart_wire::remoting::{
    Command,
    body::{GroupConfig, GroupPage},
    code,
};

use super::{Admin, Error, Target, json};

/// Groups of one answer.
const PAGE: usize = 2000;

impl Admin {
    /// Creates or changes a consumer group on one broker. Attributes are changes: their names begin with `+` or `-`.
    pub async fn put_group(&self, broker: &str, group: &GroupConfig) -> Result<(), Error> {
        let mut request = Command::request(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP);
        let body = serde_json::to_vec(group)
            .map_err(|error| json::malformed(broker, request.code, &error.to_string()))?;
        request.body = Bytes::from(body);
        self.ask(broker, request).await.map(drop)
    }

    /// Deletes a consumer group on one broker, and its offsets if `clean_offsets`.
    pub async fn delete_group(&self, broker: &str, group: &str, clean_offsets: bool) -> Result<(), Error> {
        let request = Command::request(code::DELETE_SUBSCRIPTIONGROUP)
            .with_field("groupName", group)
            .with_field("cleanOffset", clean_offsets);
        self.ask(broker, request).await.map(drop)
    }

    /// A consumer group's settings on one broker. They are looked up among all of them, as mqadmin does: asked for one that
    /// it does not have, Apache RocketMQ makes it.
    pub async fn group(&self, broker: &str, group: &str) -> Result<GroupConfig, Error> {
        let mut all = self.groups(broker).await?;
        all.remove(group).ok_or_else(|| Error::UnknownGroup { group: group.to_owned() })
    }

    /// Whether any broker has the group.
    pub async fn has_group(&self, group: &str) -> Result<bool, Error> {
        for broker in self.masters(&Target::Everywhere).await? {
            match self.group(&broker.address, group).await {
                Err(Error::UnknownGroup { .. }) => {}
                other => return other.map(|_| true),
            }
        }
        Ok(false)
    }

    /// All consumer groups of one broker.
    pub async fn groups(&self, broker: &str) -> Result<BTreeMap<String, GroupConfig>, Error> {
        let request = code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG;
        let mut all = BTreeMap::new();
        loop {
            let before = all.len();
            let command = Command::request(request)
                .with_field("groupSeq", before)
                .with_field("maxGroupNum", PAGE)
                .with_field("dataVersion", "");
            let answer = self.ask(broker, command).await?;
            all.extend(json::read::<GroupPage>(broker, request, &answer)?.subscription_group_table);
            let total: usize = answer.number_or("totalGroupNum", 0).unwrap_or(0);
            // Without a total it was everything.
            if all.len() >= total || all.len() == before {
                return Ok(all);
            }
        }
    }
}
