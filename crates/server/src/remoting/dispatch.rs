use redstart_wire::remoting::code;

use super::{
    admin, client, names,
    refusal::Refusal,
    request::{Answer, Request},
};

/// Answers a request. The answer to a one-way request is thrown away by the caller.
pub(super) async fn answer(request: &Request) -> Answer {
    handle(request).await.unwrap_or_else(Answer::from)
}

/// From the code to its handler.
async fn handle(request: &Request) -> Result<Answer, Refusal> {
    match request.code {
        // Clients.
        code::HEART_BEAT => client::heartbeat(request).await,
        code::UNREGISTER_CLIENT => client::unregister(request),
        code::GET_CONSUMER_LIST_BY_GROUP => client::consumer_list(request),
        code::CHECK_CLIENT_CONFIG => client::check(request),

        // The name service.
        code::GET_ROUTEINFO_BY_TOPIC => names::route(request).await,
        code::GET_BROKER_CLUSTER_INFO => names::cluster(request),
        code::PUT_KV_CONFIG => names::put_value(request).await,
        code::GET_KV_CONFIG => names::value(request).await,
        code::DELETE_KV_CONFIG => names::delete_value(request).await,
        code::GET_KVLIST_BY_NAMESPACE => names::values(request).await,
        code::REGISTER_BROKER => names::register(request).await,
        code::UNREGISTER_BROKER => names::unregister(request),
        code::QUERY_DATA_VERSION => names::data_version(request),
        code::BROKER_HEARTBEAT => names::heartbeat(request),
        code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => names::topics(request).await,
        code::GET_TOPICS_BY_CLUSTER => names::topics_of_cluster(request).await,
        code::GET_SYSTEM_TOPIC_LIST_FROM_NS => names::system_topics(request).await,
        code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER => names::system_topics(request).await,

        // Administration.
        code::UPDATE_AND_CREATE_TOPIC => admin::put_topic(request).await,
        code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => admin::put_group(request).await,

        other => Err(Refusal::unsupported(other)),
    }
}
