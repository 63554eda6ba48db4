# Two stages: the first has pip and the sources, the second has only what runs.
#
# The base image is named by its tag, because its digest can't be known without a registry. Where
# you build, pin it: --build-arg PYTHON=python:3.11-slim-bookworm@sha256:<digest>
ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# Dependencies first: this layer stays while only the service changes. Wheels alone, each with its
# hash, so that no code of a source distribution runs and no compiler is needed.
COPY requirements/runtime.txt requirements/
RUN python -m venv --without-pip /opt/tokenizer-service \
 && pip --python /opt/tokenizer-service/bin/python install \
    --require-hashes --only-binary :all: -r requirements/runtime.txt
COPY requirements/build.txt requirements/
RUN pip install --require-hashes --only-binary :all: -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY service/ service/
COPY artifacts/ artifacts/
RUN pip wheel --no-index --no-deps --no-build-isolation --wheel-dir dist . \
 && pip --python /opt/tokenizer-service/bin/python install --no-index --no-deps dist/*.whl
# An image whose artifacts would be refused at start is not made at all.
RUN /opt/tokenizer-service/bin/tokenizer-service verify

FROM ${PYTHON}
RUN groupadd --gid 10001 tokenizer \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent \
    --shell /usr/sbin/nologin tokenizer
COPY --from=build /opt/tokenizer-service /opt/tokenizer-service
# Nothing is written at run time: the root file system may be read-only.
ENV PATH=/opt/tokenizer-service/bin:${PATH} \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TOKENIZER_LISTEN_HOST=0.0.0.0
# By number, so that Kubernetes can see that it is not root.
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
# Without a proxy: the one that the environment may name does not know this loopback.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["/opt/tokenizer-service/bin/python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ.get('TOKENIZER_LISTEN_PORT', '8000') + '/readyz', timeout=3)"]
# Exec form: the service is the process that gets the signal. `docker run IMAGE verify` works, too.
ENTRYPOINT ["/opt/tokenizer-service/bin/tokenizer-service"]
CMD ["serve"]
