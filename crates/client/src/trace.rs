//! Spans of what the crate does, with OpenTelemetry's names, and the context of a trace that messages carry.

use std::{fmt, future::Future, str::FromStr, sync::Arc, time::Duration};

use tracing::Span;

use crate::{Message, Received, SendError, Sent, message_id::now_ms, random::random_u64};

/// The property that carries the context, by the W3C's name.
pub(crate) const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    /// The context of the message that a handler has.
    static CURRENT: TraceContext;
}

/// The place of an operation in a distributed trace: what the W3C calls `traceparent`.
///
/// ```
/// use redstart_client::TraceContext;
///
/// let context: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
/// assert!(context.sampled);
/// assert_eq!(context.child().trace_id, context.trace_id);
/// # Ok::<_, redstart_client::InvalidTraceContext>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: u128,
    /// The operation in it.
    pub span_id: u64,
    /// Whether the trace is recorded.
    pub sampled: bool,
}

/// A text that is no `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no traceparent of the W3C")]
pub struct InvalidTraceContext;

impl FromStr for TraceContext {
    type Err = InvalidTraceContext;

    /// Versions after 00 may have more parts, which are ignored.
    fn from_str(text: &str) -> Result<TraceContext, InvalidTraceContext> {
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            let is_lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            parts.next().filter(|part| part.len() == length && part.bytes().all(is_lower))
        };
        let read = (part(2), part(32), part(16), part(2));
        let (Some(version), Some(trace), Some(span), Some(flags)) = read else {
            return Err(InvalidTraceContext);
        };
        let more = parts.next().is_some();
        let trace_id = u128::from_str_radix(trace, 16).map_err(|_| InvalidTraceContext)?;
        let span_id = u64::from_str_radix(span, 16).map_err(|_| InvalidTraceContext)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| InvalidTraceContext)?;
        if version == "ff" || (version == "00" && more) || trace_id == 0 || span_id == 0 {
            return Err(InvalidTraceContext);
        }
        Ok(TraceContext { trace_id, span_id, sampled: flags & 1 != 0 })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

impl TraceContext {
    /// Another operation of the same trace.
    #[must_use]
    pub fn child(self) -> TraceContext {
        TraceContext { span_id: random_u64() | 1, ..self }
    }

    /// The context of the message whose handler runs in this task, where a [`Worker`](crate::Worker) runs it.
    pub fn current() -> Option<TraceContext> {
        CURRENT.try_with(|context| *context).ok()
    }
}

/// Connects the crate with the tracer of the application, such as OpenTelemetry's.
pub trait TraceBridge: fmt::Debug + Send + Sync + 'static {
    /// The context that a message carries which is sent now; `None` for none.
    fn current(&self) -> Option<TraceContext>;

    /// A span processes a message that carries this context: the place to add a link.
    fn link(&self, span: &Span, to: TraceContext);
}

/// The tracer of a client, if it has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tracer(pub Option<Arc<dyn TraceBridge>>);

impl Tracer {
    /// Gives a message the context of now, unless it has one. Without a tracer that is a part of the trace of the message whose handler
    /// sends it.
    pub fn inject(&self, message: &mut Message) {
        if message.get(TRACEPARENT).is_some() {
            return;
        }
        let context = match &self.0 {
            Some(bridge) => bridge.current(),
            None => TraceContext::current().map(TraceContext::child),
        };
        if let Some(context) = context {
            message.properties.push((TRACEPARENT.to_owned(), context.to_string()));
            // A message that has no room for it goes without it.
            if message.check_properties().is_err() {
                message.properties.pop();
            }
        }
    }

    /// The span of a handler that has a message. It is linked with the span that sent the message, and is no child of it: one may have
    /// many messages.
    pub fn process(&self, group: &str, message: &Received) -> Span {
        let span = tracing::info_span!(
            "process",
            messaging.system = "rocketmq",
            messaging.operation.name = "process",
            messaging.operation.r#type = "process",
            messaging.destination.name = message.topic(),
            messaging.consumer.group.name = group,
            messaging.message.id = message.id(),
            messaging.message.body.size = message.body().len(),
            messaging.rocketmq.message.tag = message.tag(),
            messaging.rocketmq.message.group = message.group(),
            messaging.rocketmq.message.keys = tracing::field::Empty,
            messaging.rocketmq.delivery_attempt = message.attempt(),
            link.trace_id = tracing::field::Empty,
            link.span_id = tracing::field::Empty,
        );
        if !message.keys().is_empty() {
            span.record("messaging.rocketmq.message.keys", message.keys().join(" "));
        }
        if let Some(context) = message.trace_context() {
            span.record("link.trace_id", format!("{:032x}", context.trace_id));
            span.record("link.span_id", format!("{:016x}", context.span_id));
            if let Some(bridge) = &self.0 {
                bridge.link(&span, context);
            }
        }
        span
    }
}

impl Tracer {
    /// The span of a handler that has several messages, linked with the spans that sent them.
    pub fn process_batch(&self, group: &str, messages: &[Received]) -> Span {
        let span = tracing::info_span!(
            "process",
            messaging.system = "rocketmq",
            messaging.operation.name = "process",
            messaging.operation.r#type = "process",
            messaging.destination.name = messages.first().map(Received::topic),
            messaging.consumer.group.name = group,
            messaging.batch.message_count = messages.len(),
        );
        if let Some(bridge) = &self.0 {
            messages
                .iter()
                .filter_map(Received::trace_context)
                .for_each(|context| bridge.link(&span, context));
        }
        span
    }
}

/// The span of a send, with the first message where there are several.
pub(crate) fn send(message: &Message, count: usize) -> Span {
    let kind = match message {
        Message { group: Some(_), .. } => "fifo",
        Message { delivery: Some(_), .. } => "delay",
        Message { priority: Some(_), .. } => "priority",
        _ => "normal",
    };
    let span = tracing::info_span!(
        "send",
        messaging.system = "rocketmq",
        messaging.operation.name = "send",
        messaging.operation.r#type = "send",
        messaging.destination.name = message.topic,
        messaging.message.id = tracing::field::Empty,
        messaging.message.body.size = message.body.len(),
        messaging.batch.message_count = (count > 1).then_some(count),
        messaging.rocketmq.message.r#type = kind,
        messaging.rocketmq.message.tag = message.tag,
        messaging.rocketmq.message.group = message.group,
        messaging.rocketmq.message.keys = tracing::field::Empty,
        messaging.rocketmq.message.delivery_timestamp =
            message.delivery.map(|delivery| delivery.to_ms(now_ms())),
        error.r#type = tracing::field::Empty,
    );
    if !message.keys.is_empty() {
        span.record("messaging.rocketmq.message.keys", message.keys.join(" "));
    }
    span
}

/// Notes what a send came to.
pub(crate) fn sent(span: &Span, result: &Result<Sent, SendError>) {
    match result {
        Ok(sent) => span.record("messaging.message.id", sent.id.as_str()),
        Err(error) => {
            let kind = error.code().map_or_else(|| "_OTHER".to_owned(), |code| code.to_string());
            span.record("error.type", kind)
        }
    };
}

/// The span of a request for messages.
pub(crate) fn receive(group: &str, topic: &str, wait: Duration) -> Span {
    tracing::debug_span!(
        "receive",
        messaging.system = "rocketmq",
        messaging.operation.name = "receive",
        messaging.operation.r#type = "receive",
        messaging.destination.name = topic,
        messaging.consumer.group.name = group,
        messaging.batch.message_count = tracing::field::Empty,
        wait_ms = wait.as_millis() as u64,
    )
}

/// The span of settling deliveries: `ack`, `nack` or `dead_letter`.
pub(crate) fn settle(group: &str, operation: &'static str, count: usize) -> Span {
    tracing::debug_span!(
        "settle",
        messaging.system = "rocketmq",
        messaging.operation.name = operation,
        messaging.operation.r#type = "settle",
        messaging.consumer.group.name = group,
        messaging.batch.message_count = count,
    )
}

/// Runs a handler so that what it sends is part of the trace of its message.
pub(crate) async fn in_trace_of<F: Future>(message: &Received, handler: F) -> F::Output {
    match message.trace_context() {
        Some(context) => CURRENT.scope(context, handler).await,
        None => handler.await,
    }
}

impl Received {
    /// The context of the trace in which the message was sent.
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.property(TRACEPARENT)?.parse().ok()
    }
}

impl Message {
    /// Carries the context of a trace to the consumer. Without this call it is that of the client's [`TraceBridge`], or of the message
    /// whose handler sends this one.
    #[must_use]
    pub fn trace_context(self, context: TraceContext) -> Message {
        self.property(TRACEPARENT, context.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::received::tests::message;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn contexts_are_read_and_written_as_the_w3c_says() {
        let context: TraceContext = TEXT.parse().expect("a context");
        assert_eq!(context.to_string(), TEXT);
        let (new, later) = (TEXT.replace("-01", "-00"), TEXT.replacen("00-", "cc-", 1) + "-more");
        assert!(!new.parse::<TraceContext>().expect("a context").sampled);
        assert!(later.parse::<TraceContext>().is_ok(), "of a later version");
        for bad in [
            "",
            "00",
            &TEXT[..54],
            &format!("{TEXT}-more"),
            &TEXT.to_uppercase(),
            &TEXT.replacen("00-", "ff-", 1),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(bad.parse::<TraceContext>(), Err(InvalidTraceContext), "{bad}");
        }
    }

    #[tokio::test]
    async fn what_a_handler_sends_is_part_of_the_trace_of_its_message() {
        let tracer = Tracer::default();
        let mut cause = message("1");
        cause.properties.push((TRACEPARENT.to_owned(), TEXT.to_owned()));
        let sent = in_trace_of(&cause, async {
            let mut sent = Message::new("t", "x");
            tracer.inject(&mut sent);
            sent
        })
        .await;
        let context: TraceContext = sent.get(TRACEPARENT).expect("carried").parse().expect("a context");
        let first: TraceContext = TEXT.parse().expect("a context");
        assert_eq!((context.trace_id, context.sampled), (first.trace_id, true));
        assert_ne!(context.span_id, first.span_id);
        let mut alone = Message::new("t", "x");
        tracer.inject(&mut alone);
        assert_eq!(alone.get(TRACEPARENT), None, "no trace is invented");
        let mut own = Message::new("t", "x").trace_context(first);
        tracer.inject(&mut own);
        assert_eq!(own.get(TRACEPARENT), Some(TEXT));
    }
}
