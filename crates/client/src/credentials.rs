use std::fmt;

use redstart_auth::{
    Secret, date,
    signature::{
        SigningKey, grpc,
        remoting::{ACCESS_KEY, Content, SECURITY_TOKEN, SIGNATURE},
    },
};
use redstart_wire::remoting::Command;

/// A user and its secret, with which requests are signed as RocketMQ's clients sign them.
#[derive(Clone)]
pub struct Credentials {
    user: String,
    key: SigningKey,
    security_token: Option<String>,
}

impl Credentials {
    /// A user's name and secret: RocketMQ's access key and secret key.
    pub fn new(user: &str, secret: &str) -> Credentials {
        let key = SigningKey::new(&Secret::new(secret));
        Credentials { user: user.to_owned(), key, security_token: None }
    }

    /// A token that some services want beside the signature.
    #[must_use]
    pub fn with_security_token(mut self, token: &str) -> Credentials {
        self.security_token = Some(token.to_owned());
        self
    }

    /// The user's name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// What requests are signed with.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// The request with its signature; nothing may be added to it after that.
    pub fn sign(&self, mut request: Command) -> Command {
        let fields = &mut request.fields;
        fields.remove(SIGNATURE);
        fields.remove(ACCESS_KEY);
        fields.add(ACCESS_KEY, self.user.as_str());
        if let Some(token) = &self.security_token {
            fields.remove(SECURITY_TOKEN);
            fields.add(SECURITY_TOKEN, token.as_str());
        }
        let signature = Content::new(fields.iter(), &request.body).sign(&self.key);
        fields.add(SIGNATURE, signature);
        request
    }

    /// The headers that sign a gRPC call made at this time, in seconds since 1970.
    pub fn call_headers(&self, now: i64) -> [(&'static str, String); 2] {
        let date_time = date::compact(now);
        let authorization = grpc::header(&self.user, &self.key, &date_time);
        [(grpc::DATE_TIME, date_time), (grpc::AUTHORIZATION, authorization)]
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use redstart_auth::signature::grpc::Authorization;

    use super::*;

    #[test]
    fn a_signed_call_verifies() {
        let [(_, date_time), (_, header)] =
            Credentials::new("app", "secret-of-app").call_headers(1_700_000_000);
        let authorization = Authorization::read(&header).unwrap().unwrap();
        assert_eq!(authorization.user, "app");
        assert_eq!(date_time, "20231114T221320Z");
        let key = SigningKey::new(&Secret::new("secret-of-app"));
        assert_eq!(authorization.verify(&key, &date_time), Ok(()));
    }

    #[test]
    fn a_signed_request_verifies_and_shows_no_secret() {
        let credentials = Credentials::new("app", "secret-of-app").with_security_token("token");
        let signed = credentials.sign(Command::request(105).with_field("topic", "t"));
        let content = Content::new(signed.fields.iter(), &signed.body);
        let key = SigningKey::new(&Secret::new("secret-of-app"));
        assert_eq!(content.verify(&key, signed.field(SIGNATURE).unwrap(), signed.version), Ok(()));
        // Signing again replaces the signature.
        assert_eq!(credentials.sign(signed.clone()).field(SIGNATURE), signed.field(SIGNATURE));
        assert!(!format!("{credentials:?}").contains("secret-of-app"));
    }
}
