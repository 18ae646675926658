//! Finds the part that answers a request.

use std::{
    fmt,
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;

use crate::{
    access::Access,
    audit::{Entry, Outcome},
};

pub type Request = http::Request<Incoming>;
pub type Answer = Response<Full<Bytes>>;
pub type Answering<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

const READ: &[Method] = &[Method::GET, Method::HEAD];
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";

/// A part of what is served: one page, or all that is below a path.
pub trait Part: Send + Sync + fmt::Debug {
    /// Where it is mounted, such as `/metrics`.
    fn path(&self) -> &'static str;

    /// Whether the part serves this path below its own; `rest` is empty for the path itself.
    fn has(&self, rest: &str) -> bool {
        rest.is_empty()
    }

    /// The methods that it answers.
    fn methods(&self) -> &'static [Method] {
        READ
    }

    /// What a caller needs to see it. There is no default: a part that says nothing would be open to everybody.
    fn right(&self) -> Right;

    fn answer(&self, request: Request) -> Answering<'_>;
}

/// What a caller of a part needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Nothing: it tells nothing that a stranger must not know.
    Open,
    /// To be allowed `Get` on the cluster, where callers are asked who they are.
    Observe,
}

/// What is known of the caller before it makes a request.
#[derive(Debug)]
pub(super) struct Caller {
    pub source: IpAddr,
    /// The user that its certificate stands for.
    pub certified_user: Option<Arc<str>>,
    /// It has no certificate, and needs one for what is not open to everybody.
    pub lacks_certificate: bool,
}

/// Finds the part for a request.
#[derive(Debug, Default)]
pub struct Router {
    parts: Vec<Box<dyn Part>>,
}

impl Router {
    /// Mounts a part.
    pub fn with(mut self, part: impl Part + 'static) -> Router {
        self.parts.push(Box::new(part));
        // The longest path first: it is the closest match.
        self.parts.sort_by(|a, b| b.path().len().cmp(&a.path().len()).then(a.path().cmp(b.path())));
        self
    }

    pub(super) async fn answer(
        &self,
        request: Request,
        access: &Access,
        caller: &Caller,
        body_bytes_max: u64,
    ) -> Answer {
        let Some(part) = self.part(request.uri().path()) else { return self.not_found() };
        if part.right() == Right::Observe
            && let Err(refused) = admit(&request, access, caller)
        {
            return *refused;
        }
        if !part.methods().contains(request.method()) {
            return method_not_allowed(part);
        }
        let size = request.body().size_hint().lower();
        if size > body_bytes_max {
            let why = format!("the body has {size} bytes, the limit is {body_bytes_max}");
            return text(StatusCode::PAYLOAD_TOO_LARGE, &why);
        }
        part.answer(request).await
    }

    fn part(&self, path: &str) -> Option<&dyn Part> {
        let fits = |part: &&dyn Part| {
            let rest = path.strip_prefix(part.path());
            rest.is_some_and(|rest| (rest.is_empty() || rest.starts_with('/')) && part.has(rest))
        };
        self.parts.iter().map(|part| &**part).find(fits)
    }

    fn not_found(&self) -> Answer {
        let mut paths: Vec<&str> = self.parts.iter().map(|part| part.path()).collect();
        paths.sort_unstable();
        text(StatusCode::NOT_FOUND, &format!("not found; the paths are {}", paths.join(", ")))
    }
}

/// Admits a caller that sends a user and its password, as HTTP clients do, or has a certificate.
fn admit(request: &Request, access: &Access, caller: &Caller) -> Result<(), Box<Answer>> {
    if caller.lacks_certificate {
        return Err(Box::new(text(StatusCode::FORBIDDEN, "a client certificate is needed")));
    }
    let decoded = request.headers().get(header::AUTHORIZATION).and_then(|value| basic(value.to_str().ok()?));
    let credentials = decoded.as_ref().and_then(|text| text.split_once(':'));
    let (certified, source) = (caller.certified_user.as_deref(), caller.source);
    let record = |outcome, user: Option<&str>, why: &str| {
        let (from, request) = (SocketAddr::new(source, 0), request.uri().path());
        access.record(Entry { user, from, port: "http", request, objects: &[], outcome, why });
    };
    let identified = access.authenticate_with(certified, source, credentials.is_some(), || {
        access.authenticate_secret(credentials, source)
    });
    let identity = identified.map_err(|why| {
        record(Outcome::Unauthenticated, credentials.map(|(user, _)| user).or(certified), &why.to_string());
        let mut answer = text(StatusCode::UNAUTHORIZED, &why.to_string());
        let challenge = HeaderValue::from_static("Basic realm=\"redstart\", charset=\"UTF-8\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        answer
    })?;
    Ok(access.may_observe(&identity).map_err(|why| {
        record(Outcome::Denied, identity.user().map(|user| &**user), &why.to_string());
        text(StatusCode::FORBIDDEN, &why.to_string())
    })?)
}

/// The user and its password in a header.
fn basic(header: &str) -> Option<String> {
    let (scheme, encoded) = header.split_once(' ')?;
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(encoded.trim()).ok())??;
    String::from_utf8(decoded).ok()
}

fn method_not_allowed(part: &dyn Part) -> Answer {
    let allowed: Vec<&str> = part.methods().iter().map(|method| method.as_str()).collect();
    let allowed = allowed.join(", ");
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, &format!("{} takes {allowed}", part.path()));
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        answer.headers_mut().insert(header::ALLOW, allowed);
    }
    answer
}

/// One line of text.
pub(super) fn text(status: StatusCode, line: &str) -> Answer {
    content(status, PLAIN, Bytes::from(format!("{line}\n")))
}

/// An answer that is not to be cached: it shows the state of this moment.
pub(super) fn content(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Page(&'static str, bool);

    impl Part for Page {
        fn path(&self) -> &'static str {
            self.0
        }

        fn has(&self, rest: &str) -> bool {
            self.1 || rest.is_empty()
        }

        fn right(&self) -> Right {
            Right::Open
        }

        fn answer(&self, _: Request) -> Answering<'_> {
            Box::pin(async { text(StatusCode::OK, self.0) })
        }
    }

    #[test]
    fn a_path_leads_to_the_closest_part_and_never_into_the_middle_of_a_word() {
        let router = Router::default()
            .with(Page("/metrics", false))
            .with(Page("/api", true))
            .with(Page("/api/v2", true));
        let found = |path| router.part(path).map(|part| part.path());
        let cases = [
            ("/metrics", Some("/metrics")),
            ("/metrics/", None),
            ("/metricsx", None),
            ("/", None),
            ("", None),
            ("/api", Some("/api")),
            ("/api/", Some("/api")),
            ("/api/v1/x", Some("/api")),
            ("/api/v2", Some("/api/v2")),
            ("/api/v2/x", Some("/api/v2")),
            ("/api/v22", Some("/api")),
        ];
        for (path, expected) in cases {
            assert_eq!(found(path), expected, "{path}");
        }
    }
}
