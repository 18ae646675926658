//! Commands for users and access control.

use super::{ONE_BROKER, OR_CLUSTER, Spec, command};
use crate::mqadmin::{
    accounts, auth,
    option::{Opt, value},
};

const USER: Opt = value("u", "username", "Name of the user");
const PASSWORD: Opt = value("p", "password", "Password");
const KIND: Opt = value("t", "userType", "Super or Normal");
const SUBJECT: Opt = value("s", "subject", "Subject: User:name");
const RESOURCES: Opt = value("r", "resources", "Resources: Topic:name,Group:name,Cluster:name");
const ACTIONS: Opt = value("a", "actions", "Actions: Pub,Sub,Create,Update,Delete,Get,List,All");
const HOSTS: Opt = value("i", "sourceIp", "Source addresses or networks, separated by commas");
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
        "Create an access-control rule.",
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
        "Change an access-control rule.",
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
        "Delete access-control rules.",
        auth::delete_acl,
        [ONE_BROKER, OR_CLUSTER, SUBJECT.required(), RESOURCES]
    ),
    command!(
        "getAcl",
        "Show the access-control rules of a subject.",
        auth::get_acl,
        [ONE_BROKER, OR_CLUSTER, SUBJECT]
    ),
    command!(
        "listAcl",
        "List access-control rules.",
        auth::list_acls,
        [ONE_BROKER, OR_CLUSTER, SUBJECT, value("r", "resource", "Only rules for this resource")]
    ),
    command!(
        "copyAcl",
        "Copy access-control rules from one broker to another.",
        auth::copy_acls,
        [FROM, TO, value("s", "subjects", "Only rules of these subjects, separated by commas")]
    ),
    command!(
        "updateAclConfig",
        "Create or change an account of a 4.x broker.",
        accounts::update,
        [
            ONE_BROKER,
            OR_CLUSTER,
            value("a", "accessKey", "Name of the account").required(),
            value("s", "secretKey", "Secret key of the account").required(),
            value("w", "whiteRemoteAddress", "Addresses that need no signature"),
            value("i", "defaultTopicPerm", "Default permission for topics: DENY, PUB, SUB or PUB|SUB"),
            value("u", "defaultGroupPerm", "Default permission for groups"),
            value("t", "topicPerms", "Permissions for single topics: a=PUB,b=SUB"),
            value("g", "groupPerms", "Permissions for single groups"),
            value("m", "admin", "Whether it is an administrator's account (true|false)"),
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
        "Set the addresses that need no account on a 4.x broker.",
        accounts::white_addresses,
        [
            ONE_BROKER,
            OR_CLUSTER,
            value("g", "globalWhiteRemoteAddresses", "Addresses, separated by commas").required(),
            value("p", "aclFileFullPath", "File on the broker that contains them"),
        ]
    ),
    command!(
        "clusterAclConfigVersion",
        "Show the version of the accounts of a 4.x broker.",
        accounts::versions,
        [ONE_BROKER, OR_CLUSTER]
    ),
];
