# syntax=docker/dockerfile:1
# The controller's image: Python, the locked packages of [project].dependencies, and nothing else.
# Renovate (.github/renovate.json) adds the digests and bumps them; CONTRIBUTING.md says how to do it by hand.
ARG PYTHON=python:3.13-slim-trixie
ARG UV=ghcr.io/astral-sh/uv:0.9

FROM ${UV} AS uv

FROM ${PYTHON} AS build
COPY --from=uv /uv /usr/local/bin/uv
ENV UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=/app/.venv
WORKDIR /app
RUN --mount=type=cache,target=/root/.cache/uv \
    --mount=type=bind,source=pyproject.toml,target=pyproject.toml \
    --mount=type=bind,source=uv.lock,target=uv.lock \
    uv sync --locked --no-install-project --no-default-groups
COPY pyproject.toml uv.lock README.md ./
COPY controller ./controller
COPY crds ./crds
# What `nodeless manifests` prints the stack's objects from; the rest of components needs Pulumi.
COPY components/__init__.py ./components/__init__.py
COPY components/config ./components/config
COPY components/documents ./components/documents
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --locked --no-editable --no-default-groups
# What never runs goes: tests, type stubs, the Kubernetes client but for its configuration and transport (its models and APIs are
# 40 MB, which each start would read), of AWS all services but those that are called and those that credentials come
# from (sso, sso-oidc, signin), and the second copy of one library. Of the rest, what the controller imports is compiled: all of it would weigh 40 MB more.
RUN cd "$UV_PROJECT_ENVIRONMENT"/lib/python3*/site-packages && \
    rm -rf aiohttp aiohappyeyeballs aiosignal frozenlist multidict propcache yarl websocket && \
    find . -type d -name tests -prune -exec rm -rf {} + && \
    find . -name "*.pyi" -delete && \
    (cd highspy && ln -sf libhighs.so.1.* libhighs.so.1) && \
    cd kubernetes && \
    rm -rf aio dynamic informer leaderelection stream utils watch client/api client/apis client/models/* && \
    : > __init__.py && : > client/models/__init__.py && \
    echo "from kubernetes.client.api_client import ApiClient" > client/__init__.py && \
    echo "from kubernetes.client.configuration import Configuration" >> client/__init__.py && \
    cd ../botocore/data && \
    mkdir ../kept && mv *.json arc-zonal-shift ec2 eks iam pricing service-quotas sqs ssm sts sso sso-oidc signin ../kept && \
    cd .. && rm -rf data && mv kept data && cd .. && \
    "$UV_PROJECT_ENVIRONMENT/bin/python" -m compileall -q controller components && \
    "$UV_PROJECT_ENVIRONMENT/bin/python" -c "import controller.operator.process, controller.cli.manifests.stack, kubernetes.config"

FROM ${PYTHON}
LABEL org.opencontainers.image.title="nodeless" \
      org.opencontainers.image.description="EC2 nodes for pods that wait, and none for pods that are gone"
COPY --from=build /app/.venv /app/.venv
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1
USER 65532:65532
EXPOSE 8080 8081 8443
ENTRYPOINT ["/app/.venv/bin/nodeless"]
CMD ["run"]
