use redstart_wire::remoting::code;

use crate::remoting::refusal::Refusal;

/// Why this broker does not serve a request that RocketMQ's broker serves. `None` for unknown codes.
pub(crate) fn unsupported(request: i32) -> Option<Refusal> {
    let why = match request {
        code::UPDATE_AND_CREATE_STATIC_TOPIC => {
            "static topics are not supported: a topic's queues stay on this broker"
        }
        code::ADD_BROKER | code::REMOVE_BROKER => "this process is a single broker, not a broker container",
        code::EXCHANGE_BROKER_HA_INFO | code::RESET_MASTER_FLUSH_OFFSET => {
            "this broker has no slaves: there is no flush offset to exchange or to reset"
        }
        code::GET_BROKER_EPOCH_CACHE => "this broker has no controller and therefore no epochs",
        code::CONTROLLER_FIRST..=code::CONTROLLER_LAST => {
            "this process is not a controller; the broker does not need one"
        }
        code::UPDATE_COLD_DATA_FLOW_CTR_CONFIG
        | code::REMOVE_COLD_DATA_FLOW_CTR_CONFIG
        | code::GET_COLD_DATA_FLOW_CTR_INFO => {
            "reads of old messages are not throttled, so there is no cold data control"
        }
        code::SET_COMMITLOG_READ_MODE => "the log is not mapped into memory, so it has no read-ahead mode",
        code::CHECK_ROCKSDB_CQ_WRITE_PROGRESS | code::EXPORT_ROCKSDB_CONFIG_TO_JSON => {
            "there is no RocksDB here: queues and settings come from the log"
        }
        code::GET_TIMER_CHECK_POINT | code::GET_TIMER_METRICS => {
            "delayed messages are kept with the log: there is no timer wheel to copy"
        }
        code::POP_ROLLBACK => "popped messages are kept with the log: there are no pop records to move",
        code::RESUME_CHECK_HALF_MESSAGE => {
            "a transaction that was given up has been rolled back and cannot be checked again"
        }
        _ => return None,
    };
    Some(Refusal::new(code::REQUEST_CODE_NOT_SUPPORTED, why))
}
