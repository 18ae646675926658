//! From a request code to its handler. The table below is the only place where the codes that this broker serves are
//! listed; [`admin::unsupported`] explains some of the others.

use std::time::{Duration, Instant};

use redstart_wire::remoting::code;

use super::{
    admin, admission, assignment, audit, heartbeat, name_service, offsets, polling, pop, pull, query,
    queue_locks, recall,
    refusal::Refusal,
    reply,
    request::{Answer, Received, Request},
    send, send_back, transactions,
};
use crate::{access::Needs, statistics::Call};

/// What a connection must know of a request before it serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It stores a message, whose body is kept as it was read.
    Send,
    /// It may wait for messages. It ends with its connection: a client that is gone must not be given any.
    Poll,
    Short,
}

/// Answers an admitted request. The answer to a one-way request is thrown away by the caller.
pub(super) async fn answer(request: &Request) -> Answer {
    let began = Instant::now();
    let change = audit::Change::of(request);
    let mut answer = handle(request).await.unwrap_or_else(Answer::from);
    // Messages of an answer that is dropped here go back to their queues.
    if kind(request.code) == Kind::Poll
        && let Err(refusal) = admission::admit_again(request)
    {
        answer = refusal.into();
    }
    change.ended(&answer);
    count(request, answer.code, began.elapsed());
    answer
}

/// Counts an answered request.
pub(super) fn count(received: &Received, response: i32, took: Duration) {
    let call = Call::Remoting { request: received.code, response, one_way: received.is_one_way() };
    received.context.shard.counters().statistics().rpcs.took(call, took);
    tracing::trace!(remote = %received.peer.remote, request = received.code, answer = response, "served");
}

/// Rows of `CODE | CODE [Kind] needs right => handler`. Without a kind, a request is short. What a request needs is asked for
/// before its handler runs; a row without it does not compile.
macro_rules! requests {
    ($request:ident: $($($code:ident)|+ $([$kind:ident])? needs $needs:expr => $handler:expr,)*) => {
        /// What a request must be allowed to do. One that is not served needs a known user.
        pub(super) fn needs($request: &Received) -> Result<Needs<'_>, Refusal> {
            use super::rights::*;
            match $request.code {
                $($(code::$code)|+ => $needs,)*
                _ => known($request),
            }
        }

        /// The codes that are served, and their names.
        pub const SERVED: &[(i32, &str)] = &[$($((code::$code, stringify!($code)),)+)*];

        async fn handle($request: &Request) -> Result<Answer, Refusal> {
            match $request.code {
                $($(code::$code)|+ => run!([$($kind)?] $handler),)*
                other => Err(admin::unsupported(other).unwrap_or_else(|| Refusal::unsupported(other))),
            }
        }

        pub(crate) fn kind(request: i32) -> Kind {
            match request {
                $($(code::$code)|+ => kind!($($kind)?),)*
                _ => Kind::Short,
            }
        }
    };
}

/// The future of a send is part of the future of its request. Every other handler has a future of its own on the heap:
/// otherwise that of a send would be as large as the largest of them, and be copied at that size.
macro_rules! run {
    ([Send] $handler:expr) => {
        $handler
    };
    ([$($kind:ident)?] $handler:expr) => {
        Box::pin(async move { $handler }).await
    };
}

macro_rules! kind {
    () => {
        Kind::Short
    };
    ($kind:ident) => {
        Kind::$kind
    };
}

requests! { request:
    // Producers.
    SEND_MESSAGE | SEND_MESSAGE_V2 | SEND_BATCH_MESSAGE [Send] needs send(request) => send::send(request).await,
    SEND_REPLY_MESSAGE | SEND_REPLY_MESSAGE_V2 needs send(request) => reply::reply(request).await,
    END_TRANSACTION needs end_transaction(request) => transactions::end(request).await,
    RECALL_MESSAGE needs topic(request, "topic", PUB) => recall::recall(request).await,

    // Consumers.
    PULL_MESSAGE | LITE_PULL_MESSAGE [Poll] needs consume(request, SUB) => pull::pull(request).await,
    CONSUMER_SEND_MSG_BACK needs group(request, "group", SUB) => send_back::send_back(request).await,
    QUERY_CONSUMER_OFFSET needs consume(request, READ) => offsets::committed(request).await,
    UPDATE_CONSUMER_OFFSET needs consume(request, MOVE) => offsets::commit(request).await,
    GET_MAX_OFFSET needs topic(request, "topic", USE) => offsets::max(request).await,
    GET_MIN_OFFSET needs topic(request, "topic", USE) => offsets::min(request).await,
    SEARCH_OFFSET_BY_TIMESTAMP needs topic(request, "topic", USE) => offsets::by_time(request).await,
    GET_EARLIEST_MSG_STORETIME needs topic(request, "topic", USE) => offsets::earliest_time(request).await,
    LOCK_BATCH_MQ needs lock(request) => queue_locks::lock(request),
    UNLOCK_BATCH_MQ needs lock(request) => queue_locks::unlock(request),
    VIEW_MESSAGE_BY_ID needs known(request) => query::view(request).await,
    QUERY_MESSAGE needs topic(request, "topic", READ) => query::by_key(request).await,
    POP_MESSAGE [Poll] needs consume(request, SUB) => pop::pop(request).await,
    ACK_MESSAGE needs consume(request, SUB) => pop::ack(request).await,
    BATCH_ACK_MESSAGE needs batch_ack(request) => pop::batch_ack(request).await,
    CHANGE_MESSAGE_INVISIBLETIME needs consume(request, SUB) => pop::change_invisible(request).await,
    NOTIFICATION [Poll] needs consume(request, SUB) => polling::notification(request).await,
    POLLING_INFO needs consume(request, SUB) => polling::info(request).await,
    QUERY_ASSIGNMENT needs query_assignment(request) => assignment::assignment(request).await,
    SET_MESSAGE_REQUEST_MODE needs request_mode(request) => assignment::set_mode(request).await,

    // Clients of both kinds.
    HEART_BEAT needs heartbeat(request) => heartbeat::heartbeat(request).await,
    UNREGISTER_CLIENT needs unregister(request) => heartbeat::unregister(request),
    GET_CONSUMER_LIST_BY_GROUP needs group(request, "consumerGroup", READ) => heartbeat::consumer_list(request),
    CHECK_CLIENT_CONFIG needs check_client(request) => heartbeat::check(request),

    // The name service.
    GET_ROUTEINFO_BY_TOPIC needs topic(request, "topic", USE) => name_service::route(request).await,
    GET_BROKER_CLUSTER_INFO needs cluster(request, GET) => name_service::cluster(request),
    PUT_KV_CONFIG needs super_user(request) => name_service::put_value(request).await,
    GET_KV_CONFIG needs cluster(request, GET) => name_service::value(request).await,
    DELETE_KV_CONFIG needs super_user(request) => name_service::delete_value(request).await,
    GET_KVLIST_BY_NAMESPACE needs cluster(request, GET) => name_service::values(request).await,
    REGISTER_BROKER needs super_user(request) => name_service::register(request).await,
    UNREGISTER_BROKER needs super_user(request) => name_service::unregister(request),
    QUERY_DATA_VERSION needs super_user_asks(request) => name_service::data_version(request),
    BROKER_HEARTBEAT needs super_user_asks(request) => name_service::heartbeat(request),
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER needs cluster(request, LIST) => name_service::topics(request).await,
    GET_TOPICS_BY_CLUSTER needs cluster(request, LIST) => name_service::topics_of_cluster(request).await,
    GET_SYSTEM_TOPIC_LIST_FROM_NS needs cluster(request, LIST) => name_service::system_topics(request).await,
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER needs cluster(request, LIST) => name_service::system_topics(request).await,

    WIPE_WRITE_PERM_OF_BROKER needs super_user(request) => name_service::wipe_write(request).await,
    ADD_WRITE_PERM_OF_BROKER needs super_user(request) => name_service::add_write(request).await,
    DELETE_TOPIC_IN_NAMESRV needs topic(request, "topic", DELETE) => name_service::forget_topic(request),
    REGISTER_TOPIC_IN_NAMESRV needs super_user(request) => name_service::register_topic(request),
    GET_UNIT_TOPIC_LIST
    | GET_HAS_UNIT_SUB_TOPIC_LIST
    | GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST needs cluster(request, LIST) => name_service::no_topics(),
    GET_BROKER_MEMBER_GROUP needs cluster(request, GET) => name_service::broker_members(request),
    UPDATE_NAMESRV_CONFIG needs super_user(request) => admin::put_names_config(request).await,
    GET_NAMESRV_CONFIG needs cluster(request, GET) => admin::names_config(request),

    // Topics and groups.
    UPDATE_AND_CREATE_TOPIC needs topic(request, "topic", CREATE) => admin::put_topic(request).await,
    UPDATE_AND_CREATE_TOPIC_LIST needs put_topics(request) => admin::put_topics(request).await,
    DELETE_TOPIC_IN_BROKER needs topic(request, "topic", DELETE) => admin::delete_topic(request).await,
    GET_TOPIC_CONFIG needs topic(request, "topic", GET) => admin::topic(request).await,
    GET_ALL_TOPIC_CONFIG needs cluster(request, LIST) => admin::all_topics(request).await,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP needs put_group(request) => admin::put_group(request).await,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST needs put_groups(request) => admin::put_groups(request).await,
    DELETE_SUBSCRIPTIONGROUP needs group(request, "groupName", DELETE) => admin::delete_group(request).await,
    GET_SUBSCRIPTIONGROUP_CONFIG needs group(request, "group", GET) => admin::group(request).await,
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG needs cluster(request, LIST) => admin::all_groups(request).await,
    UPDATE_AND_GET_GROUP_FORBIDDEN needs topic_and_group(request, UPDATE) => admin::forbidden(request).await,

    // Offsets and progress.
    GET_TOPIC_STATS_INFO needs topic(request, "topic", GET) => admin::topic_stats(request).await,
    GET_CONSUME_STATS needs consume_stats(request) => admin::consume_stats(request).await,
    GET_BROKER_CONSUME_STATS needs cluster(request, GET) => admin::broker_consume_stats(request).await,
    QUERY_CONSUME_TIME_SPAN needs topic_and_group(request, GET) => admin::consume_time_span(request).await,
    QUERY_CONSUME_QUEUE needs queue_entries(request) => admin::queue_entries(request).await,
    INVOKE_BROKER_TO_RESET_OFFSET needs topic_and_group(request, UPDATE) => admin::reset(request).await,
    CLONE_GROUP_OFFSET needs clone_offsets(request) => admin::clone_offsets(request).await,
    QUERY_CORRECTION_OFFSET needs correction(request) => admin::correction(request).await,
    GET_ALL_CONSUMER_OFFSET needs cluster(request, GET) => admin::all_consumer_offsets(request).await,
    GET_ALL_DELAY_OFFSET needs cluster(request, GET) => admin::all_delay_offsets(),
    GET_ALL_MESSAGE_REQUEST_MODE needs cluster(request, GET) => assignment::modes(request),

    // Connected clients.
    GET_CONSUMER_CONNECTION_LIST needs group(request, "consumerGroup", GET) => admin::consumer_connections(request),
    GET_PRODUCER_CONNECTION_LIST needs group(request, "producerGroup", GET) => admin::producer_connections(request),
    GET_ALL_PRODUCER_INFO needs cluster(request, GET) => admin::all_producers(request),
    QUERY_TOPIC_CONSUME_BY_WHO needs topic(request, "topic", GET) => admin::groups_of_topic(request).await,
    QUERY_TOPICS_BY_CONSUMER needs group(request, "group", GET) => admin::topics_of_group(request).await,
    QUERY_SUBSCRIPTION_BY_CONSUMER needs topic_and_group(request, GET) => admin::subscription(request),
    GET_CONSUMER_RUNNING_INFO needs group(request, "consumerGroup", GET) => admin::running_info(request).await,
    CONSUME_MESSAGE_DIRECTLY needs group(request, "consumerGroup", SUB) => admin::consume_directly(request).await,
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS needs topic_and_group(request, GET) => admin::consumer_status(request).await,

    // The broker itself.
    UPDATE_BROKER_CONFIG needs super_user(request) => admin::put_broker_config(request).await,
    GET_BROKER_CONFIG needs cluster(request, GET) => admin::broker_config(request).await,
    GET_BROKER_RUNTIME_INFO needs cluster(request, GET) => admin::runtime_info(request).await,
    VIEW_BROKER_STATS_DATA needs cluster(request, GET) => admin::statistics(request),
    CLEAN_EXPIRED_CONSUMEQUEUE | CLEAN_UNUSED_TOPIC | DELETE_EXPIRED_COMMITLOG needs super_user(request) => admin::cleaned(),
    GET_BROKER_HA_STATUS needs cluster(request, GET) => admin::ha_status(request).await,

    // Users and their permissions.
    AUTH_CREATE_USER needs super_user(request) => admin::create_user(request).await,
    AUTH_UPDATE_USER needs super_user(request) => admin::update_user(request).await,
    AUTH_DELETE_USER needs super_user(request) => admin::delete_user(request).await,
    AUTH_GET_USER needs cluster(request, GET) => admin::get_user(request).await,
    AUTH_LIST_USER needs cluster(request, LIST) => admin::list_users(request).await,
    AUTH_CREATE_ACL needs super_user(request) => admin::create_acl(request).await,
    AUTH_UPDATE_ACL needs super_user(request) => admin::update_acl(request).await,
    AUTH_DELETE_ACL needs super_user(request) => admin::delete_acl(request).await,
    AUTH_GET_ACL needs cluster(request, GET) => admin::get_acl(request).await,
    AUTH_LIST_ACL needs cluster(request, LIST) => admin::list_acls(request).await,
    UPDATE_AND_CREATE_ACL_CONFIG needs super_user(request) => admin::put_account(request).await,
    DELETE_ACL_CONFIG needs super_user(request) => admin::delete_account(request).await,
    GET_BROKER_CLUSTER_ACL_INFO needs cluster(request, GET) => admin::acl_version(request).await,
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG needs super_user(request) => admin::put_white_addresses(request).await,
    GET_BROKER_CLUSTER_ACL_CONFIG needs cluster(request, GET) => admin::acl_config(request).await,
}
