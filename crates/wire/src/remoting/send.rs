//! The header of a send.

use super::{
    Command, FieldError, code,
    fields::{Found, truth},
};

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

/// The fields in the order of their letters. `k`, the unit mode, is not read.
#[derive(Clone, Copy)]
enum Field {
    ProducerGroup,
    Topic,
    DefaultTopic,
    DefaultTopicQueues,
    QueueId,
    SystemFlag,
    BornAt,
    Flag,
    Properties,
    ReconsumeTimes,
    MaxReconsumeTimes = 11,
    Batch,
}

const FIELDS: usize = Field::Batch as usize + 1;

const LETTERS: [&str; FIELDS] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];

const LONG_NAMES: [&str; FIELDS] = [
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
    "reconsumeTimes",
    "unitMode",
    "maxReconsumeTimes",
    "batch",
];

/// A send's values as they came.
struct Values<'a> {
    names: &'static [&'static str; FIELDS],
    values: [Option<&'a str>; FIELDS],
}

impl<'a> Values<'a> {
    /// One look at each field. Of two with one name the later counts.
    fn of(command: &'a Command) -> Values<'a> {
        let v2 = matches!(
            command.code,
            code::SEND_MESSAGE_V2 | code::SEND_BATCH_MESSAGE | code::SEND_REPLY_MESSAGE_V2
        );
        let names = if v2 { &LETTERS } else { &LONG_NAMES };
        let mut values = [None; FIELDS];
        for (name, value) in command.fields.iter() {
            let place = match name.as_bytes() {
                [letter] if v2 => usize::from(letter.wrapping_sub(b'a')),
                _ if v2 => continue,
                _ => names.iter().position(|known| *known == name).unwrap_or(FIELDS),
            };
            if let Some(place) = values.get_mut(place) {
                *place = Some(value);
            }
        }
        Values { names, values }
    }

    fn get(&self, field: Field) -> Found<'a> {
        Found { name: self.names[field as usize], value: self.values[field as usize] }
    }

    fn text(&self, field: Field) -> &'a str {
        self.get(field).value.unwrap_or_default()
    }
}

impl SendHeader<'_> {
    /// The topic alone.
    pub fn topic(command: &Command) -> Result<&str, FieldError> {
        Values::of(command).get(Field::Topic).required()
    }

    pub fn read(command: &Command) -> Result<SendHeader<'_>, FieldError> {
        let values = Values::of(command);
        Ok(SendHeader {
            producer_group: values.get(Field::ProducerGroup).required()?,
            topic: values.get(Field::Topic).required()?,
            default_topic: values.text(Field::DefaultTopic),
            default_topic_queues: values.get(Field::DefaultTopicQueues).optional_number()?.unwrap_or(0),
            queue_id: values.get(Field::QueueId).number()?,
            system_flag: values.get(Field::SystemFlag).number()?,
            born_at: values.get(Field::BornAt).number()?,
            flag: values.get(Field::Flag).number()?,
            properties: values.text(Field::Properties),
            reconsume_times: values.get(Field::ReconsumeTimes).optional_number()?.unwrap_or(0),
            max_reconsume_times: values.get(Field::MaxReconsumeTimes).optional_number()?,
            batch: values.get(Field::Batch).value.map_or(command.code == code::SEND_BATCH_MESSAGE, truth),
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
            assert_eq!(SendHeader::topic(&command).unwrap(), "t");
            for (name, _) in &fields[..6] {
                let mut command = command.clone();
                command.fields.remove(name);
                assert_eq!(SendHeader::read(&command), Err(FieldError::Missing { name }));
            }
        }
    }

    #[test]
    fn what_is_missing_is_named_in_the_order_of_the_fields_and_the_later_of_two_counts() {
        let mut command = Command::request(code::SEND_MESSAGE_V2);
        for (name, value) in [("h", "x"), ("g", ""), ("A", "pg"), ("aa", "pg"), ("", "pg"), ("\u{7f}", "pg")]
        {
            command.fields.push(name, value).unwrap();
        }
        for (name, value) in [("a", "pg"), ("b", "t"), ("e", "1"), ("f", " 0 "), ("g", "9")] {
            assert_eq!(SendHeader::read(&command), Err(FieldError::Missing { name }));
            command.fields.push(name, value).unwrap();
        }
        let number = FieldError::Number { name: "h", value: "x".to_owned() };
        assert_eq!(SendHeader::read(&command), Err(number));
        command.fields.push("h", "7").unwrap();
        let header = SendHeader::read(&command).unwrap();
        assert_eq!((header.flag, header.batch, header.max_reconsume_times), (7, false, None));
    }

    #[test]
    fn each_field_is_read_under_its_letter_and_its_name() {
        let values = ["pg", "t", "d", "1", "2", "3", "4", "5", "p", "6", "true", "7", "1"];
        for (code, names) in [(code::SEND_MESSAGE_V2, LETTERS), (code::SEND_MESSAGE, LONG_NAMES)] {
            let fields = names.into_iter().zip(values);
            let command =
                fields.fold(Command::request(code), |command, (name, value)| command.and(name, value));
            let expected = SendHeader {
                producer_group: "pg",
                topic: "t",
                default_topic: "d",
                default_topic_queues: 1,
                queue_id: 2,
                system_flag: 3,
                born_at: 4,
                flag: 5,
                properties: "p",
                reconsume_times: 6,
                max_reconsume_times: Some(7),
                batch: true,
            };
            assert_eq!(SendHeader::read(&command), Ok(expected));
        }
    }
}
