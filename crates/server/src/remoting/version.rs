//! RocketMQ's numbers of its releases, which requests carry: 20 for each minor release, 2 for each patch.

/// RocketMQ's numbers of the releases 4.0.0 and 5.0.0, and of what comes after all that have one.
const RELEASE_4: i32 = 213;
const RELEASE_5: i32 = 413;
const HIGHER: i32 = i16::MAX as i32;

/// RocketMQ's name of a release, such as `V5_3_1`: the number before it is that of its snapshot.
pub(super) fn version_text(number: i32) -> String {
    let (major, first) = match number {
        _ if (RELEASE_4 - 1..RELEASE_5 - 1).contains(&number) => (4, RELEASE_4 - 1),
        _ if (RELEASE_5 - 1..RELEASE_5 + 199).contains(&number) => (5, RELEASE_5 - 1),
        _ if number > RELEASE_5 => return "HIGHER_VERSION".to_owned(),
        _ => return number.to_string(),
    };
    let (minor, rest) = ((number - first) / 20, (number - first) % 20);
    let snapshot = if rest % 2 == 0 { "_SNAPSHOT" } else { "" };
    format!("V{major}_{minor}_{}{snapshot}", rest / 2)
}

/// RocketMQ's number of a release such as `5.3.1`; `HIGHER_VERSION` when it is unknown.
pub(super) fn version_number(text: &str) -> i32 {
    let mut numbers = text.split(['.', '-']).map_while(|part| part.parse::<i32>().ok());
    let (major, minor, patch) = (numbers.next(), numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let first = match major {
        Some(4) => RELEASE_4,
        Some(5) => RELEASE_5,
        _ => return HIGHER,
    };
    if (0..10).contains(&minor) && (0..10).contains(&patch) { first + minor * 20 + patch * 2 } else { HIGHER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_rocketmqs_numbers() {
        let cases = [("5.0.0", 413), ("5.3.1", 475), ("4.9.4", 401), ("5.1.0-SNAPSHOT", 433), ("5.2", 453)];
        for (version, expected) in cases {
            assert_eq!(version_number(version), expected, "{version}");
        }
        for (number, text) in [
            (413, "V5_0_0"),
            (475, "V5_3_1"),
            (401, "V4_9_4"),
            (474, "V5_3_1_SNAPSHOT"),
            (32_767, "HIGHER_VERSION"),
        ] {
            assert_eq!(version_text(number), text);
        }
        for version in ["", "v5", "6.0.0", "5.99.0"] {
            assert_eq!(version_number(version), i32::from(i16::MAX), "{version}");
        }
    }
}
