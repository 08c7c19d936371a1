# The service in a container: no root, nothing to compile at the start, and a root that may be read-only.
#
#     docker build -t nearveil .
#     docker run --read-only --cap-drop ALL --security-opt no-new-privileges -v nearveil-data:/data -p 8000:8000 nearveil
#
# Packages are pinned and checked by hash (make lock). Pin the base by its digest where you build.
# tests/deploy/test_image.py runs the steps of the first stage in a folder. All paths in them are variables, so that it can.

FROM python:3.11-slim-bookworm AS build
# Code for any processor of the architecture: with code for the one that builds, others would compile at each start.
ENV APP=/opt/nearveil \
    BUILD=/build \
    NUMBA_CPU_NAME=generic \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /source
COPY deploy/requirements.txt deploy/build-requirements.txt deploy/
RUN python -m venv --without-pip "$BUILD" && python -m venv --without-pip "$APP"
RUN python -m pip --python "$BUILD/bin/python" install --quiet --require-hashes -r deploy/build-requirements.txt
RUN python -m pip --python "$APP/bin/python" install --quiet --require-hashes -r deploy/requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN "$BUILD/bin/python" -m hatchling build --target wheel --directory "$BUILD/dist"
RUN python -m pip --python "$APP/bin/python" install --quiet --no-deps --no-index "$BUILD"/dist/*.whl
RUN "$APP/bin/python" -m nearveil.server.warm_up
RUN install -d -m 700 "$BUILD/data"

FROM python:3.11-slim-bookworm
COPY --from=build /opt/nearveil /opt/nearveil
COPY --from=build --chown=10001:10001 /build/data /data
COPY deploy/probe.py /opt/nearveil/probe.py
# The probes are open to this container alone: --open-probes answers loopback addresses.
ENV PATH=/opt/nearveil/bin:$PATH \
    HOME=/nonexistent \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NUMBA_CPU_NAME=generic \
    NUMBA_CACHE_LOCATOR_CLASSES=nearveil.kernels.ReadOnlyCacheLocator \
    NEARVEIL_HOST=0.0.0.0 \
    NEARVEIL_STORE=/data/nearveil.db \
    NEARVEIL_OPEN_PROBES=true
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/opt/nearveil/bin/python", "-IS", "/opt/nearveil/probe.py"]
ENTRYPOINT ["nearveil"]
CMD ["serve"]
