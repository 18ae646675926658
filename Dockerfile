# The broker and nothing else that runs. Building it needs cargo and a C compiler, which the first image has.
FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --package redstart

FROM debian:bookworm-slim
RUN groupadd --system --gid 10001 redstart \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/redstart redstart \
    && install --directory --owner=redstart --group=redstart --mode=0700 /var/lib/redstart \
    && install --directory /etc/redstart
COPY --from=build /src/target/dist/redstart /usr/local/bin/redstart

# Settings are a file mounted as /etc/redstart/redstart.toml, or variables, which win over it: those below can only be
# changed by variables. Not flags: the health check would not know them. Callers are asked who they are; the first start prints the
# administrator's secret, unless REDSTART_ADMIN_SECRET or REDSTART_ADMIN_SECRET_FILE gives one (docs/security.md).
ENV REDSTART_DATA_DIR=/var/lib/redstart REDSTART_LISTEN=0.0.0.0 REDSTART_AUTH=true
WORKDIR /etc/redstart
USER 10001:10001
VOLUME /var/lib/redstart
# Name service, broker, broker for clients older than 4.5.1, gRPC, metrics and health.
EXPOSE 9876 10911 10909 8081 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["redstart", "health"]
ENTRYPOINT ["redstart"]
CMD ["serve"]
