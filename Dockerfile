# The operator's image: Python, the locked dependencies, the operator and the contract it shares with the client.
# Build from the repository's root; releases pin the base: --build-arg BASE_IMAGE=python:3.11-slim@sha256:...
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS builder
# A package index of your own. The address stands in the history of the stage: give it no password.
ARG PIP_INDEX_URL
# --target needs no virtual environment, and so no path of the builder's interpreter ends up in the result.
# The scripts it leaves in bin/ name that interpreter and nobody calls them.
COPY requirements/operator.txt /build/operator.txt
RUN python -m pip install --no-cache-dir --no-compile --no-deps --only-binary=:all: --require-hashes \
      --target=/app/lib --requirement=/build/operator.txt \
 && rm -r /app/lib/bin
# The container's file system is read-only, so byte code is made here. Python trusts it without looking at time stamps,
# which makes it the same in every build. The client's typed API, 1,800 modules, is never imported: left out.
RUN python -m compileall -q --invalidation-mode unchecked-hash -x 'kubernetes/(aio/)?client/(api|models)/(?!__init__)' /app/lib
COPY operator/benchrun /app/src/benchrun
COPY docs/findings /app/src/benchrun/findings
COPY client-image/benchrun_client/__init__.py /app/src/benchrun_client/
COPY client-image/benchrun_client/contract /app/src/benchrun_client/contract
COPY client-image/benchrun_client/engines /app/src/benchrun_client/engines
RUN python -m compileall -q --invalidation-mode unchecked-hash /app/src
# The operator tells its version from the metadata of its distribution, and so do scanners of images.
COPY pyproject.toml /build/pyproject.toml
RUN python -c 'import pathlib, tomllib; \
project = tomllib.loads(pathlib.Path("/build/pyproject.toml").read_text())["project"]; \
folder = pathlib.Path("/app/src/benchrun_operator-" + project["version"] + ".dist-info"); \
folder.mkdir(); \
(folder / "METADATA").write_text("Metadata-Version: 2.1\nName: " + project["name"] + "\nVersion: " + project["version"] + "\n")'

FROM ${BASE_IMAGE}
# USER: Kopf asks for the name of its user at start, and the number, or the one OpenShift assigns, has none.
ENV USER=benchrun \
    PYTHONPATH=/app/src:/app/lib \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONSAFEPATH=1
# Two layers: the dependencies change rarely, and stay on the node when the operator is upgraded.
COPY --from=builder /app/lib /app/lib
COPY --from=builder /app/src /app/src
WORKDIR /app
# A number, because kubelet cannot tell from a name that it is not root.
USER 65532:65532
EXPOSE 8080
# The version changes with every release: last, so that all else is taken from the cache.
ARG VERSION=unknown
LABEL org.opencontainers.image.title="benchrun operator" \
      org.opencontainers.image.description="Benchmark experiments on LLM servers as Kubernetes objects" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
ENTRYPOINT ["python", "-m", "benchrun.runtime"]
