use super::{Command, FieldError, code};

/// The fields of a send, under their long names (V1) or their letters (V2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendHeader<'a> {
    pub producer_group: &'a str,
    pub topic: &'a str,
    pub default_topic: &'a str,
    pub default_topic_queues: i32,
    pub queue_id: i32,
    pub system_flag: i32,
    pub born_at: i64,
    pub flag: i32,
    pub properties: &'a str,
    pub reconsume_times: i32,
    pub max_reconsume_times: Option<i32>,
    pub batch: bool,
}

impl SendHeader<'_> {
    pub fn read(command: &Command) -> Result<SendHeader<'_>, FieldError> {
        let v2 = matches!(
            command.code,
            code::SEND_MESSAGE_V2 | code::SEND_BATCH_MESSAGE | code::SEND_REPLY_MESSAGE_V2
        );
        let name = |letter: &'static str, long: &'static str| if v2 { letter } else { long };
        let text = |name: &str| command.field(name).unwrap_or_default();
        Ok(SendHeader {
            producer_group: command.required(name("a", "producerGroup"))?,
            topic: command.required(name("b", "topic"))?,
            default_topic: text(name("c", "defaultTopic")),
            default_topic_queues: command.number_or(name("d", "defaultTopicQueueNums"), 0)?,
            queue_id: command.number(name("e", "queueId"))?,
            system_flag: command.number(name("f", "sysFlag"))?,
            born_at: command.number(name("g", "bornTimestamp"))?,
            flag: command.number(name("h", "flag"))?,
            properties: text(name("i", "properties")),
            reconsume_times: command.number_or(name("j", "reconsumeTimes"), 0)?,
            max_reconsume_times: command.optional_number(name("l", "maxReconsumeTimes"))?,
            batch: command.truth(name("m", "batch")).unwrap_or(command.code == code::SEND_BATCH_MESSAGE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read_and_a_missing_field_is_named() {
        let letters = [("a", "pg"), ("b", "t"), ("e", "1"), ("f", "0"), ("g", "9"), ("h", "0"), ("j", "2")];
        let long = [
            ("producerGroup", "pg"),
            ("topic", "t"),
            ("queueId", "1"),
            ("sysFlag", "0"),
            ("bornTimestamp", "9"),
            ("flag", "0"),
            ("reconsumeTimes", "2"),
        ];
        for (code, fields) in [(code::SEND_MESSAGE_V2, letters), (code::SEND_MESSAGE, long)] {
            let command = fields
                .iter()
                .fold(Command::request(code), |command, (name, value)| command.with_field(name, value));
            let header = SendHeader::read(&command).unwrap();
            assert_eq!((header.topic, header.queue_id, header.reconsume_times), ("t", 1, 2));
            for (name, _) in &fields[..6] {
                let mut command = command.clone();
                command.fields.remove(name);
                assert_eq!(SendHeader::read(&command), Err(FieldError::Missing { name }));
            }
        }
    }
}
