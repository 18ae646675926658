use std::time::Instant;

use redstart_wire::remoting::code;

use super::{
    admin, assignment, client, locks, names, offsets, polling, pop, pull, query, recall,
    refusal::Refusal,
    reply,
    request::{Answer, Request},
    retry, send, transactions,
};
use crate::statistics::Call;

/// Answers a request. The answer to a one-way request is thrown away by the caller.
pub(super) async fn answer(request: &Request) -> Answer {
    let began = Instant::now();
    let answer = handle(request).await.unwrap_or_else(Answer::from);
    let call = Call::Remoting { request: request.code, response: answer.code, one_way: request.is_one_way() };
    request.context.shard.counters().statistics().rpcs.took(call, began.elapsed());
    tracing::trace!(remote = %request.peer.remote, request = request.code, answer = answer.code, "served");
    answer
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
        code::NOTIFICATION => polling::notification(request).await,
        code::POLLING_INFO => polling::info(request).await,
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

        code::WIPE_WRITE_PERM_OF_BROKER => names::wipe_write(request).await,
        code::ADD_WRITE_PERM_OF_BROKER => names::add_write(request).await,
        code::DELETE_TOPIC_IN_NAMESRV => names::forget_topic(request),
        code::REGISTER_TOPIC_IN_NAMESRV => names::register_topic(request),
        code::GET_UNIT_TOPIC_LIST
        | code::GET_HAS_UNIT_SUB_TOPIC_LIST
        | code::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => names::no_topics(),
        code::GET_BROKER_MEMBER_GROUP => names::broker_members(request),
        code::UPDATE_NAMESRV_CONFIG => admin::put_names_config(request).await,
        code::GET_NAMESRV_CONFIG => admin::names_config(request),

        // Topics and groups.
        code::UPDATE_AND_CREATE_TOPIC => admin::put_topic(request).await,
        code::UPDATE_AND_CREATE_TOPIC_LIST => admin::put_topics(request).await,
        code::DELETE_TOPIC_IN_BROKER => admin::delete_topic(request).await,
        code::GET_TOPIC_CONFIG => admin::topic(request).await,
        code::GET_ALL_TOPIC_CONFIG => admin::all_topics(request).await,
        code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => admin::put_group(request).await,
        code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST => admin::put_groups(request).await,
        code::DELETE_SUBSCRIPTIONGROUP => admin::delete_group(request).await,
        code::GET_SUBSCRIPTIONGROUP_CONFIG => admin::group(request).await,
        code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => admin::all_groups(request).await,
        code::UPDATE_AND_GET_GROUP_FORBIDDEN => admin::forbidden(request).await,

        // Who stands where.
        code::GET_TOPIC_STATS_INFO => admin::topic_stats(request).await,
        code::GET_CONSUME_STATS => admin::consume_stats(request).await,
        code::GET_BROKER_CONSUME_STATS => admin::broker_consume_stats(request).await,
        code::QUERY_CONSUME_TIME_SPAN => admin::consume_time_span(request).await,
        code::QUERY_CONSUME_QUEUE => admin::queue_entries(request).await,
        code::INVOKE_BROKER_TO_RESET_OFFSET => admin::reset(request).await,
        code::CLONE_GROUP_OFFSET => admin::clone_offsets(request).await,
        code::QUERY_CORRECTION_OFFSET => admin::correction(request).await,
        code::GET_ALL_CONSUMER_OFFSET => admin::all_consumer_offsets(request).await,
        code::GET_ALL_DELAY_OFFSET => admin::all_delay_offsets(),
        code::GET_ALL_MESSAGE_REQUEST_MODE => assignment::modes(request),

        // Who is there.
        code::GET_CONSUMER_CONNECTION_LIST => admin::consumer_connections(request),
        code::GET_PRODUCER_CONNECTION_LIST => admin::producer_connections(request),
        code::GET_ALL_PRODUCER_INFO => admin::all_producers(request),
        code::QUERY_TOPIC_CONSUME_BY_WHO => admin::groups_of_topic(request).await,
        code::QUERY_TOPICS_BY_CONSUMER => admin::topics_of_group(request).await,
        code::QUERY_SUBSCRIPTION_BY_CONSUMER => admin::subscription(request),
        code::GET_CONSUMER_RUNNING_INFO => admin::running_info(request).await,
        code::CONSUME_MESSAGE_DIRECTLY => admin::consume_directly(request).await,
        code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => admin::consumer_status(request).await,

        // The broker itself.
        code::UPDATE_BROKER_CONFIG => admin::put_broker_config(request).await,
        code::GET_BROKER_CONFIG => admin::broker_config(request).await,
        code::GET_BROKER_RUNTIME_INFO => admin::runtime_info(request).await,
        code::VIEW_BROKER_STATS_DATA => admin::statistics(request),
        code::CLEAN_EXPIRED_CONSUMEQUEUE | code::CLEAN_UNUSED_TOPIC | code::DELETE_EXPIRED_COMMITLOG => {
            admin::cleaned()
        }
        code::GET_BROKER_HA_STATUS => admin::ha_status(request).await,

        // Users and what they may do.
        code::AUTH_CREATE_USER => admin::create_user(request).await,
        code::AUTH_UPDATE_USER => admin::update_user(request).await,
        code::AUTH_DELETE_USER => admin::delete_user(request).await,
        code::AUTH_GET_USER => admin::get_user(request).await,
        code::AUTH_LIST_USER => admin::list_users(request).await,
        code::AUTH_CREATE_ACL => admin::create_acl(request).await,
        code::AUTH_UPDATE_ACL => admin::update_acl(request).await,
        code::AUTH_DELETE_ACL => admin::delete_acl(request).await,
        code::AUTH_GET_ACL => admin::get_acl(request).await,
        code::AUTH_LIST_ACL => admin::list_acls(request).await,
        code::UPDATE_AND_CREATE_ACL_CONFIG => admin::put_account(request).await,
        code::DELETE_ACL_CONFIG => admin::delete_account(request).await,
        code::GET_BROKER_CLUSTER_ACL_INFO => admin::acl_version(request).await,
        code::UPDATE_GLOBAL_WHITE_ADDRS_CONFIG => admin::put_white_addresses(request).await,
        code::GET_BROKER_CLUSTER_ACL_CONFIG => admin::acl_config(request).await,

        other => Err(admin::unsupported(other).unwrap_or_else(|| Refusal::unsupported(other))),
    }
}
