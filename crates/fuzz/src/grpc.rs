use prost::Message as _;
use redstart_engine::{Limits, Message, Timestamp};
use redstart_server::grpc::fuzz;
use redstart_wire::v2::{
    AckMessageRequest, ForwardMessageToDeadLetterQueueRequest, HeartbeatRequest, ReceiveMessageRequest,
    SendMessageRequest, TelemetryCommand, telemetry_command::Command,
};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// A call's bytes: the first says which call it is.
pub fn grpc_request(data: &[u8]) {
    let Some((call, bytes)) = data.split_first() else { return };
    match call {
        b'a' => {
            let Ok(request) = SendMessageRequest::decode(bytes) else { return };
            for message in request.messages.into_iter().filter_map(fuzz::accept) {
                stored(&message, data.len());
            }
        }
        b'b' => {
            let Ok(request) = ReceiveMessageRequest::decode(bytes) else { return };
            let _ = fuzz::filter(request.filter_expression.as_ref());
        }
        b'c' => {
            let Ok(command) = TelemetryCommand::decode(bytes) else { return };
            if let Some(Command::Settings(settings)) = command.command {
                let answered = fuzz::settle(settings);
                let again = fuzz::settle(answered.clone());
                // Bytes, for a number that is none is not equal to itself.
                assert_eq!(
                    again.encode_to_vec(),
                    answered.encode_to_vec(),
                    "the same when it is asked again"
                );
            }
        }
        b'd' => drop(AckMessageRequest::decode(bytes)),
        b'e' => drop(HeartbeatRequest::decode(bytes)),
        _ => drop(ForwardMessageToDeadLetterQueueRequest::decode(bytes)),
    }
}

fn stored(message: &Message, bytes: usize) {
    assert!(message.body.len() <= bytes);
    let _ = (message.validate(&Limits::default(), NOW), message.tag_hash(), message.group_hash());
    for half in [false, true] {
        let _ = message.message_type(half);
    }
}
