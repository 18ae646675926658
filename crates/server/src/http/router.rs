use std::{fmt, future::Future, pin::Pin};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;

pub type Request = http::Request<Incoming>;
pub type Answer = Response<Full<Bytes>>;
pub type Answering<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

const READ: &[Method] = &[Method::GET, Method::HEAD];
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";

/// A part of what is served: one page, or all that is below a path.
pub trait Part: Send + Sync + fmt::Debug {
    /// Where it is mounted, such as `/metrics`.
    fn path(&self) -> &'static str;

    /// Whether there is something at this place below the path; it is empty for the path itself.
    fn has(&self, rest: &str) -> bool {
        rest.is_empty()
    }

    /// What may be done with it.
    fn methods(&self) -> &'static [Method] {
        READ
    }

    fn answer(&self, request: Request) -> Answering<'_>;
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

    pub(super) async fn answer(&self, request: Request, body_bytes_max: u64) -> Answer {
        let Some(part) = self.part(request.uri().path()) else { return self.nothing() };
        if !part.methods().contains(request.method()) {
            return refused(part);
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

    fn nothing(&self) -> Answer {
        let mut paths: Vec<&str> = self.parts.iter().map(|part| part.path()).collect();
        paths.sort_unstable();
        text(StatusCode::NOT_FOUND, &format!("there is nothing here; there are {}", paths.join(", ")))
    }
}

fn refused(part: &dyn Part) -> Answer {
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

/// What is true now need not be true later: nobody keeps it.
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
