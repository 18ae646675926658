//! Request and response codes, with RocketMQ's names.

pub const UPDATE_AND_CREATE_TOPIC: i32 = 17;
pub const GET_BROKER_CLUSTER_INFO: i32 = 106;
pub const UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: i32 = 200;

pub const SUCCESS: i32 = 0;
pub const SYSTEM_ERROR: i32 = 1;
pub const REQUEST_CODE_NOT_SUPPORTED: i32 = 3;
pub const INVALID_PARAMETER: i32 = 29;
