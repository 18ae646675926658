//! Where a topic's queues are.

use std::sync::Arc;

use redstart_wire::remoting::body::TopicRoute;

use crate::Queue;

const READ: u8 = 4;
const WRITE: u8 = 2;
const MASTER: &str = "0";

/// A queue and the address that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub queue: Queue,
    pub address: Arc<str>,
}

/// The queues of a topic, sorted by broker and number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Route {
    /// Those that can be written to.
    pub writable: Vec<Place>,
    /// Those that can be read from.
    pub readable: Vec<Place>,
    /// Addresses of all brokers that have a part of the topic.
    pub addresses: Vec<Arc<str>>,
    /// The topic is not there yet: the first message makes it.
    pub provisional: bool,
}

impl Route {
    /// As a name server tells it. Queues are those of brokers that have a master; an order configuration (`broker:n;…`) names
    /// exactly the queues that are written to, in its order.
    pub fn of_remoting(topic: &str, data: &TopicRoute) -> Route {
        let mut route = Route::default();
        let address_of = |broker: &str| {
            let broker = data.broker_datas.iter().find(|data| data.broker_name == broker)?;
            broker.broker_addrs.get(MASTER).map(|address| Arc::<str>::from(address.as_str()))
        };
        let mut queues: Vec<_> = data.queue_datas.iter().collect();
        queues.sort_by(|one, other| one.broker_name.cmp(&other.broker_name));
        for queues in queues {
            // A slave serves readers while its master is away.
            let readable = address_of(&queues.broker_name).or_else(|| {
                let broker = data.broker_datas.iter().find(|data| data.broker_name == queues.broker_name)?;
                broker.broker_addrs.values().next().map(|address| Arc::from(address.as_str()))
            });
            let place = |address: &Arc<str>, id: u32| Place {
                queue: Queue::new(topic, &queues.broker_name, id as i32),
                address: address.clone(),
            };
            if let Some(address) = readable.filter(|_| queues.perm & READ != 0) {
                route.readable.extend((0..queues.read_queue_nums).map(|id| place(&address, id)));
            }
            if let Some(address) = address_of(&queues.broker_name).filter(|_| queues.perm & WRITE != 0) {
                route.writable.extend((0..queues.write_queue_nums).map(|id| place(&address, id)));
            }
        }
        if let Some(order) = data.order_topic_conf.as_deref().filter(|order| !order.is_empty()) {
            route.writable = ordered(topic, order, address_of);
        }
        let addresses = data.broker_datas.iter().flat_map(|broker| broker.broker_addrs.values());
        route.addresses = addresses.map(|address| Arc::from(address.as_str())).collect();
        route.addresses.sort();
        route.addresses.dedup();
        route
    }

    /// The route of a topic that a first message will create, from that of the template.
    pub fn of_template(topic: &str, template: &Route, queues_max: i32) -> Route {
        let rename = |places: &[Place]| {
            let few = places.iter().filter(|place| place.queue.id < queues_max);
            few.map(|place| Place {
                queue: Queue::new(topic, &place.queue.broker, place.queue.id),
                address: place.address.clone(),
            })
            .collect()
        };
        Route {
            writable: rename(&template.writable),
            readable: Vec::new(),
            addresses: template.addresses.clone(),
            provisional: true,
        }
    }

    /// One place of each broker that can be read from, in their order.
    pub fn brokers(&self) -> Vec<&Place> {
        let mut brokers: Vec<&Place> = Vec::new();
        for place in &self.readable {
            if brokers.last().is_none_or(|last| last.queue.broker != place.queue.broker) {
                brokers.push(place);
            }
        }
        brokers
    }
}

fn ordered(topic: &str, order: &str, address_of: impl Fn(&str) -> Option<Arc<str>>) -> Vec<Place> {
    let mut places = Vec::new();
    for (broker, count) in order.split(';').filter_map(|part| part.split_once(':')) {
        let (Ok(count), Some(address)) = (count.trim().parse::<u16>(), address_of(broker)) else { continue };
        places.extend(
            (0..count)
                .map(|id| Place { queue: Queue::new(topic, broker, id.into()), address: address.clone() }),
        );
    }
    places
}

#[cfg(test)]
mod tests {
    use redstart_wire::remoting::from_slice;

    use super::*;

    fn route(json: &str) -> Route {
        Route::of_remoting("t", &from_slice::<TopicRoute>(json.as_bytes()).expect("a route"))
    }

    fn names(places: &[Place]) -> Vec<String> {
        places.iter().map(|place| format!("{}:{}", place.queue.broker, place.queue.id)).collect()
    }

    const TWO: &str = r#""brokerDatas":[
        {"brokerName":"b","brokerAddrs":{0:"10.0.0.2:1",1:"10.0.0.3:1"}},
        {"brokerName":"a","brokerAddrs":{0:"10.0.0.1:1"}},
        {"brokerName":"slave","brokerAddrs":{2:"10.0.0.4:1"}}]"#;

    #[test]
    fn queues_are_those_that_java_derives_in_its_order() {
        let route = route(&format!(
            r#"{{"queueDatas":[
                {{"brokerName":"b","readQueueNums":1,"writeQueueNums":2,"perm":6}},
                {{"brokerName":"a","readQueueNums":2,"writeQueueNums":1,"perm":6}},
                {{"brokerName":"slave","readQueueNums":1,"writeQueueNums":1,"perm":6}},
                {{"brokerName":"unknown","readQueueNums":1,"writeQueueNums":1,"perm":6}}],{TWO}}}"#
        ));
        assert_eq!(names(&route.writable), ["a:0", "b:0", "b:1"], "a broker without a master takes nothing");
        assert_eq!(names(&route.readable), ["a:0", "a:1", "b:0", "slave:0"]);
        assert_eq!(&*route.writable[0].address, "10.0.0.1:1");
        assert_eq!(&*route.readable[3].address, "10.0.0.4:1");
        assert_eq!(route.addresses.len(), 4);
        let brokers: Vec<&str> = route.brokers().iter().map(|place| place.queue.broker.as_str()).collect();
        assert_eq!(brokers, ["a", "b", "slave"]);
    }

    #[test]
    fn permissions_and_an_order_configuration_count() {
        let queues = |perm: u8| {
            format!(r#"[{{"brokerName":"a","readQueueNums":1,"writeQueueNums":1,"perm":{perm}}}]"#)
        };
        let read_only = route(&format!(r#"{{"queueDatas":{},{TWO}}}"#, queues(4)));
        assert_eq!((read_only.writable.len(), read_only.readable.len()), (0, 1));
        let write_only = route(&format!(r#"{{"queueDatas":{},{TWO}}}"#, queues(2)));
        assert_eq!((write_only.writable.len(), write_only.readable.len()), (1, 0));
        let ordered =
            route(&format!(r#"{{"orderTopicConf":"b:2;a:1;nobody:3;","queueDatas":{},{TWO}}}"#, queues(6)));
        assert_eq!(names(&ordered.writable), ["b:0", "b:1", "a:0"]);
    }

    #[test]
    fn a_new_topic_has_few_queues_of_the_template() {
        let queues = r#"[{"brokerName":"a","readQueueNums":8,"writeQueueNums":8,"perm":7}]"#;
        let template = route(&format!(r#"{{"queueDatas":{queues},{TWO}}}"#));
        let new = Route::of_template("new", &template, 4);
        assert_eq!(names(&new.writable), ["a:0", "a:1", "a:2", "a:3"]);
        assert!(new.writable.iter().all(|place| place.queue.topic == "new") && new.readable.is_empty());
    }
}
