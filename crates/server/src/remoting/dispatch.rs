use redstart_wire::remoting::code;

use super::{
    admin, assignment, client, locks, names, offsets, pop, pull, query, recall,
    refusal::Refusal,
    reply,
    request::{Answer, Request},
    retry, send, transactions,
};

/// Answers a request. The answer to a one-way request is thrown away by the caller.
pub(super) async fn answer(request: &Request) -> Answer {
    handle(request).await.unwrap_or_else(Answer::from)
}

/// From the code to its handler.
async fn handle(request: &Request) -> Result<Answer, Refusal> {
    match request.code {
        // Producers.
        code::SEND_MESSAGE | code::SEND_MESSAGE_V2 | code::SEND_BATCH_MESSAGE => send::send(request).await,
        code::SEND_REPLY_MESSAGE | code::SEND_REPLY_MESSAGE_V2 => reply::reply(request).await,
        code::END_TRANSACTION => transactions::end(request).await,
        code::RECALL_MESSAGE => recall::recall(request).await,

        // Consumers.
        code::PULL_MESSAGE | code::LITE_PULL_MESSAGE => pull::pull(request).await,
        code::CONSUMER_SEND_MSG_BACK => retry::send_back(request).await,
        code::QUERY_CONSUMER_OFFSET => offsets::committed(request).await,
        code::UPDATE_CONSUMER_OFFSET => offsets::commit(request).await,
        code::GET_MAX_OFFSET => offsets::max(request).await,
        code::GET_MIN_OFFSET => offsets::min(request).await,
        code::SEARCH_OFFSET_BY_TIMESTAMP => offsets::by_time(request).await,
        code::GET_EARLIEST_MSG_STORETIME => offsets::earliest_time(request).await,
        code::LOCK_BATCH_MQ => locks::lock(request),
        code::UNLOCK_BATCH_MQ => locks::unlock(request),
        code::VIEW_MESSAGE_BY_ID => query::view(request).await,
        code::QUERY_MESSAGE => query::by_key(request).await,
        code::POP_MESSAGE => pop::pop(request).await,
        code::ACK_MESSAGE => pop::ack(request).await,
        code::BATCH_ACK_MESSAGE => pop::batch_ack(request).await,
        code::CHANGE_MESSAGE_INVISIBLETIME => pop::change_invisible(request).await,
        code::NOTIFICATION => pop::notification(request).await,
        code::POLLING_INFO => pop::polling_info(request),
        code::QUERY_ASSIGNMENT => assignment::assignment(request).await,
        code::SET_MESSAGE_REQUEST_MODE => assignment::set_mode(request).await,

        // Clients of both kinds.
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
