use super::{ONE_BROKER, OR_CLUSTER, Spec, command};
use crate::mqadmin::{
    accounts, auth,
    option::{Opt, value},
};

const USER: Opt = value("u", "username", "Name of the user");
const PASSWORD: Opt = value("p", "password", "The password");
const KIND: Opt = value("t", "userType", "Super or Normal");
const SUBJECT: Opt = value("s", "subject", "Who it is about: User:name");
const RESOURCES: Opt = value("r", "resources", "What it is about: Topic:name,Group:name,Cluster:name");
const ACTIONS: Opt = value("a", "actions", "What is done: Pub,Sub,Create,Update,Delete,Get,List,All");
const HOSTS: Opt = value("i", "sourceIp", "From where, addresses or networks separated by commas");
const DECISION: Opt = value("d", "decision", "Allow or Deny");
const FROM: Opt = value("f", "fromBroker", "Address of the broker to copy from").required();
const TO: Opt = value("t", "toBroker", "Address of the broker to copy to").required();

pub const COMMANDS: &[Spec] = &[
    command!(
        "createUser",
        "Create a user.",
        auth::create_user,
        [ONE_BROKER, OR_CLUSTER, USER.required(), PASSWORD.required(), KIND]
    ),
    command!(
        "updateUser",
        "Change a user.",
        auth::update_user,
        [
            ONE_BROKER,
            OR_CLUSTER,
            USER.required(),
            PASSWORD.one_of(2),
            KIND.one_of(2),
            value("s", "userStatus", "enable or disable").one_of(2),
        ]
    ),
    command!("deleteUser", "Delete a user.", auth::delete_user, [ONE_BROKER, OR_CLUSTER, USER.required()]),
    command!("getUser", "Show a user.", auth::get_user, [ONE_BROKER, OR_CLUSTER, USER]),
    command!(
        "listUser",
        "List the users.",
        auth::list_users,
        [ONE_BROKER, OR_CLUSTER, value("f", "filter", "Only names that contain this")]
    ),
    command!(
        "copyUser",
        "Copy users from one broker to another.",
        auth::copy_users,
        [FROM, TO, value("u", "usernames", "Only these users, separated by commas")]
    ),
    command!(
        "createAcl",
        "Give rights.",
        auth::create_acl,
        [
            ONE_BROKER,
            OR_CLUSTER,
            SUBJECT.required(),
            RESOURCES.required(),
            ACTIONS.required(),
            HOSTS,
            DECISION.required(),
        ]
    ),
    command!(
        "updateAcl",
        "Change rights.",
        auth::update_acl,
        [
            ONE_BROKER,
            OR_CLUSTER,
            SUBJECT.required(),
            RESOURCES.required(),
            ACTIONS.required(),
            DECISION.required(),
            HOSTS,
        ]
    ),
    command!(
        "deleteAcl",
        "Take rights away.",
        auth::delete_acl,
        [ONE_BROKER, OR_CLUSTER, SUBJECT.required(), RESOURCES]
    ),
    command!("getAcl", "Show the rights of a subject.", auth::get_acl, [ONE_BROKER, OR_CLUSTER, SUBJECT]),
    command!(
        "listAcl",
        "List rights.",
        auth::list_acls,
        [ONE_BROKER, OR_CLUSTER, SUBJECT, value("r", "resource", "Only of this resource")]
    ),
    command!(
        "copyAcl",
        "Copy rights from one broker to another.",
        auth::copy_acls,
        [FROM, TO, value("s", "subjects", "Only of these subjects, separated by commas")]
    ),
    command!(
        "updateAclConfig",
        "Create or change an account of a 4.x broker.",
        accounts::update,
        [
            ONE_BROKER,
            OR_CLUSTER,
            value("a", "accessKey", "Name of the account").required(),
            value("s", "secretKey", "Its key").required(),
            value("w", "whiteRemoteAddress", "Addresses that need no signature"),
            value("i", "defaultTopicPerm", "Rights to topics: DENY, PUB, SUB or PUB|SUB"),
            value("u", "defaultGroupPerm", "Rights to groups"),
            value("t", "topicPerms", "Rights to named topics: a=PUB,b=SUB"),
            value("g", "groupPerms", "Rights to named groups"),
            value("m", "admin", "Whether it is an operator's (true|false)"),
        ]
    ),
    command!(
        "deleteAclConfig",
        "Delete an account of a 4.x broker.",
        accounts::delete,
        [ONE_BROKER, OR_CLUSTER, value("a", "accessKey", "Name of the account").required()]
    ),
    command!(
        "updateGlobalWhiteAddr",
        "Set the addresses that need no account, of a 4.x broker.",
        accounts::white_addresses,
        [
            ONE_BROKER,
            OR_CLUSTER,
            value("g", "globalWhiteRemoteAddresses", "The addresses, separated by commas").required(),
            value("p", "aclFileFullPath", "The file of the broker they stand in"),
        ]
    ),
    command!(
        "clusterAclConfigVersion",
        "Show the version of the accounts of a 4.x broker.",
        accounts::versions,
        [ONE_BROKER, OR_CLUSTER]
    ),
];
