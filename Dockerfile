# Two images on Debian's own Python: one interpreter, kept safe by Debian. The last stage is what runs on
# every node, and the command line; the stage `manager` has numpy besides, for predictions.
#   docker build -t slackwater . && docker build -t slackwater-manager --target manager .
# Without a docker engine: python -m tools.image build (it knows the instructions that are used here).

FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv
ARG UV_VERSION=0.13.7
# Of its wheels for x86-64 and 64-bit ARM; everything after it is checked by uv.lock's hashes.
ARG UV_HASHES="--hash=sha256:2c9bdc4a872b60a93c5f26c0791089ea11585a4f9d3b3c017d78eb8487505e25 --hash=sha256:a90f5d95716ab83091f0f73a8e7ec64e557abf2a28537fcd719b2ac88e6f725a"
RUN python3 -m venv /opt/uv \
 && echo "uv==${UV_VERSION} ${UV_HASHES}" > /opt/uv/requirements.txt \
 && /opt/uv/bin/pip install --no-cache-dir --only-binary=:all: --require-hashes \
      --requirement /opt/uv/requirements.txt
WORKDIR /source
COPY pyproject.toml uv.lock README.md LICENSE ./
# What uv.lock says, by hash and before our own code, which changes more often. hatchling is locked
# there too, so nothing is fetched when our wheel is built.
RUN for place in "slackwater --no-dev --extra kafka" \
      "manager --no-dev --extra kafka --extra forecast --extra webhook" "build --only-group build"; do \
      set -- $place; name=$1; shift; \
      python3 -m venv --without-pip "/opt/$name" || exit 1; \
      /opt/uv/bin/uv export --quiet --frozen --no-emit-project "$@" --output-file "$name.txt" \
      && /opt/uv/bin/uv pip install --no-cache --require-hashes --only-binary=:all: \
           --python "/opt/$name/bin/python" --requirement "$name.txt" || exit 1; \
    done
COPY src ./src
# Compiled by content, not by time: no image tool can make the code look old, and a root that cannot
# be written still starts fast. uv's note of when it installed is all that would differ between builds.
RUN /opt/uv/bin/uv build --quiet --wheel --no-build-isolation --python /opt/build/bin/python \
      --out-dir dist \
 && for name in slackwater manager; do \
      /opt/uv/bin/uv pip install --no-cache --no-deps --python "/opt/$name/bin/python" dist/*.whl \
      && rm "/opt/$name"/lib/*/site-packages/slackwater-*.dist-info/uv_cache.json \
      && sed -i /uv_cache.json/d "/opt/$name"/lib/*/site-packages/slackwater-*.dist-info/RECORD \
      && python3 -m compileall -q -f --invalidation-mode unchecked-hash "/opt/$name/lib" || exit 1; \
    done

FROM debian:bookworm-slim AS manager
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/* /var/log/* \
 && python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3.11
COPY --from=build /opt/manager /opt/manager
# One thread for each of numpy's own: there are enough others.
ENV PATH=/opt/manager/bin:$PATH \
    MALLOC_ARENA_MAX=1 \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.title="Slackwater manager" \
      org.opencontainers.image.description="CPU quality of service for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
ENTRYPOINT ["slackwater"]
CMD ["--help"]

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/* /var/log/* \
 && python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3.11
COPY --from=build /opt/slackwater /opt/slackwater
# One arena: threads that wait for the network need no heap of their own.
ENV PATH=/opt/slackwater/bin:$PATH \
    MALLOC_ARENA_MAX=1 \
    PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.title="Slackwater" \
      org.opencontainers.image.description="CPU quality of service for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
# The agent's DaemonSet asks for root, whom the cgroup files belong to; nothing else needs it.
USER 65532:65532
ENTRYPOINT ["slackwater"]
CMD ["--help"]
