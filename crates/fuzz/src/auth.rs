use std::net::{IpAddr, Ipv4Addr};

use redstart_auth::{
    Action, Entry, Need, Pattern, Policy, Resource, Rights, Secret, SourcePattern, Subject, Tier, User,
    acl1::Account,
    date,
    seal::{self, Keyring, SealingKey},
    signature::{SigningKey, grpc::Authorization, remoting::Content},
};

const NOW: i64 = 1_800_000_000;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// The first line is the header, the second the date, each other `name=value` a field. Nothing is a signature of a key that
/// is not known.
pub fn signature(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let key = SigningKey::new(&Secret::new("a key that no seed was made with"));
    let mut lines = text.lines();
    let (header, date_time) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let zones = date::Zones::read(header).unwrap_or_default();
    let _ = date::check(date_time, NOW, &zones);
    if let Ok(Some(authorization)) = Authorization::read(header) {
        assert!(!authorization.user.is_empty() && authorization.user.len() < header.len());
        assert!(authorization.verify(&key, date_time).is_err());
    }
    let fields: Vec<_> = lines.filter_map(|line| line.split_once('=')).take(32).collect();
    let content = Content::new(fields.iter().copied(), date_time.as_bytes());
    assert!(content.verify(&key, header, 399).is_err());
    assert!(content.verify(&key, &content.sign(&key), 400).is_ok());
    let keys = Keyring::new(SealingKey::new(&[0x5a; seal::KEY_LEN]), Vec::new());
    assert!(keys.open(date_time, header).is_err());
}

/// One rule in a line: `resource actions sources decision`, the middle two separated by commas. What is denied by the last
/// rule for everything is denied, and every text that was read is read again as the same.
pub fn policy(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let list = |text: &str| -> Vec<String> {
        text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let mut entries = Vec::new();
    for line in text.lines().take(64) {
        let words: Vec<&str> = line.split(' ').collect();
        if let [resource, actions, sources, decision] = words[..]
            && let Ok(entry) = Entry::read(resource, &list(actions), &list(sources), decision)
        {
            assert_eq!(Pattern::read(&entry.resource.to_string()).as_ref(), Ok(&entry.resource));
            entries.push(entry);
        }
        for word in words {
            let _ = (Subject::read(word), Resource::read(word));
            if let Ok(source) = SourcePattern::read(word) {
                assert_eq!(SourcePattern::read(source.text()), Ok(source));
            }
            let account = Account { topic_perms: word, white_addresses: word, ..Account::default() };
            let _ = account.policies();
        }
    }
    let Ok(user) = User::new("app", Secret::new("secret")) else { return };
    let Ok(last) = Entry::read("*", &["All"], &[], "Deny") else { return };
    let policies = vec![Policy::new(Tier::Custom, entries), Policy::new(Tier::Default, vec![last])];
    let rights = Rights::new([user], [("app", policies)], Vec::new());
    let need = Need::right(Resource::topic("orders"), Action::Pub);
    let verdict = rights.authorize("app", HERE, [need]);
    assert_eq!(verdict, rights.authorize("app", HERE, [need]), "the same again");
    assert!(!rights.authorize("app", HERE, [need, Need::Super]).is_allowed());
    assert!(!rights.authorize("App", HERE, [need]).is_allowed());
}
