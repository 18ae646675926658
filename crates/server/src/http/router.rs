//! Finds the part that answers a request.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use http::{HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;

use super::{
    Limits,
    answer::{Answer, text},
    call::{Call, Caller, Right, admit},
    refusal::{Form, Refusal},
};
use crate::access::Access;

pub type Request = http::Request<Incoming>;
pub type Answering<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

const READ: &[Method] = &[Method::GET, Method::HEAD];

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

    /// How it says that it refuses a request.
    fn form(&self) -> Form {
        Form::Text
    }

    /// What a caller needs for a request. There is no default: a part that says nothing would be open to everybody.
    fn right(&self, request: &Request) -> Result<Right, Refusal>;

    /// The longest body that a request may announce.
    fn body_bytes_max(&self, limits: &Limits) -> u64 {
        limits.body_bytes_max
    }

    fn answer(&self, call: Call, body: Incoming) -> Answering<'_>;
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
        caller: &Arc<Caller>,
        limits: &Limits,
    ) -> Answer {
        let Some(part) = self.part(request.uri().path()) else { return self.not_found() };
        let admitted = part.right(&request).and_then(|right| {
            let (method, size) = (request.method().clone(), request.body().size_hint().lower());
            let admitted = admit(request, right, access, caller, limits)?;
            check(part, &method, size, limits)?;
            Ok(admitted)
        });
        match admitted {
            Ok((call, body)) => part.answer(call, body).await,
            Err(refusal) => {
                let mut answer = refusal.answer(part.form());
                if refusal.status == StatusCode::METHOD_NOT_ALLOWED
                    && let Ok(allowed) = HeaderValue::from_str(&methods(part))
                {
                    answer.headers_mut().insert(header::ALLOW, allowed);
                }
                answer
            }
        }
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

/// Checks what every part asks of a request, whatever is in it.
fn check(part: &dyn Part, method: &Method, size: u64, limits: &Limits) -> Result<(), Refusal> {
    if !part.methods().contains(method) {
        let why = format!("{} takes {}", part.path(), methods(part));
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", why));
    }
    let bytes_max = part.body_bytes_max(limits);
    if size > bytes_max {
        let why = format!("the body has {size} bytes, the limit is {bytes_max}");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", why));
    }
    Ok(())
}

fn methods(part: &dyn Part) -> String {
    let methods: Vec<&str> = part.methods().iter().map(|method| method.as_str()).collect();
    methods.join(", ")
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

        fn right(&self, _: &Request) -> Result<Right, Refusal> {
            Ok(Right::Open)
        }

        fn answer(&self, _: Call, _: Incoming) -> Answering<'_> {
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
