# The image of the compose file: Airflow, Spark, this project and both MQ clients, above what
# MQ_CLIENT names:
#     ibm          IBM's redistributable client, which the build downloads
#     (no value)   the embedded queue manager, and nothing of IBM's: an image to try mqdlq with
# The build downloads two images, Debian's Java, uv, and the packages of requirements.lock: the
# images by version, IBM's client and the Python packages by checksum.
#     docker compose build
# For IBM MQ 10.0, set MQ_CLIENT_VERSION=10.0.0.0 and MQ_CLIENT_SHA256 to the checksum at IBM Fix Central.
# The target `trial` adds the embedded queue manager, the tests and their tools.
#
# There is no HEALTHCHECK, because the services that run this image have different checks: they are
# in the compose file and in Airflow's Helm chart.
ARG AIRFLOW_IMAGE=apache/airflow:slim-3.3.2-python3.11
ARG MQ_CLIENT=ibm
ARG MQ_CLIENT_VERSION=9.4.0.5
ARG MQ_CLIENT_SHA256=5398c48756e80f1cbba86d17d75a55d18f9164bafa6b48eb7f501efc5243dfd9

# IBM's client: libmqm_r and libmqic_r for both Python clients, headers to build pymqi with.
# By downloading it you accept IBM's licence for it; the image keeps it in /opt/mqm/licenses.
# Without MQ_CLIENT the stage has two empty directories instead.
FROM debian:12.11-slim AS mq-client
ARG MQ_CLIENT
ARG MQ_CLIENT_VERSION
ARG MQ_CLIENT_SHA256
ARG MQ_CLIENT_SITE=https://public.dhe.ibm.com/ibmdl/export/pub/software/websphere/messaging/mqdev/redist
SHELL ["/bin/bash", "-eo", "pipefail", "-c"]
# Debian keeps only the newest version of a package: a pinned one would soon be gone.
# hadolint ignore=DL3008
RUN case "${MQ_CLIENT}" in \
      ibm) apt-get update && \
        apt-get install --yes --no-install-recommends ca-certificates curl && \
        rm -rf /var/lib/apt/lists/* ;; \
      "") mkdir /opt/mqm /opt/mqm-sdk ;; \
      *) echo "MQ_CLIENT is '${MQ_CLIENT}': set it to ibm, or to nothing" >&2; exit 1 ;; \
    esac
WORKDIR /opt/mq-archive
RUN [ "${MQ_CLIENT}" = ibm ] || exit 0; \
    archive="${MQ_CLIENT_VERSION}-IBM-MQC-Redist-LinuxX64.tar.gz" && \
    curl --fail --silent --show-error --location --retry 5 --remote-name "${MQ_CLIENT_SITE}/${archive}" && \
    found="$(sha256sum "${archive}" | cut --delimiter=' ' --fields=1)" && \
    { [ "${found}" = "${MQ_CLIENT_SHA256}" ] || \
      { echo "the archive of MQ client ${MQ_CLIENT_VERSION} has the SHA-256 ${found}, and MQ_CLIENT_SHA256 is '${MQ_CLIENT_SHA256}': compare both with the checksum at IBM Fix Central, and set MQ_CLIENT_SHA256 to that" >&2; exit 1; }; } && \
    tar --extract --gzip --file "${archive}" && \
    rm "${archive}"
# genmqpkg.sh copies the requested parts: a threaded 64-bit client with messages and TLS.
ENV genmqpkg_inc32=0 genmqpkg_incadm=0 genmqpkg_incamqp=0 genmqpkg_inccbl=0 \
    genmqpkg_inccics=0 genmqpkg_inccpp=0 genmqpkg_incdnet=0 genmqpkg_incjava=0 \
    genmqpkg_incjre=0 genmqpkg_incman=0 genmqpkg_incmqbc=0 genmqpkg_incmqft=0 \
    genmqpkg_incmqsf=0 genmqpkg_incmqxr=0 genmqpkg_incnls=1 genmqpkg_incras=1 \
    genmqpkg_incsamp=0 genmqpkg_inctls=1 genmqpkg_incunthrd=0
RUN [ "${MQ_CLIENT}" = ibm ] || exit 0; \
    genmqpkg_incsdk=0 bin/genmqpkg.sh -b /opt/mqm && \
    genmqpkg_incsdk=1 bin/genmqpkg.sh -b /opt/mqm-sdk && \
    cp --recursive licenses /opt/mqm/

# The virtual environment. pymqi's C extension is built from its sdist against IBM's headers; where
# there are none, its Python layer is copied, as by `make set-up`.
FROM ${AIRFLOW_IMAGE} AS environment
ARG MQ_CLIENT
ARG UV_VERSION=0.13.8
ARG UV_SHA256=e18a57b8b352eb7c8feb317b9f6f533c8f0ad9673fd6cf34bbe3cf1a9f6a8984
USER 0
# hadolint ignore=DL3008
RUN [ "${MQ_CLIENT}" = ibm ] || exit 0; \
    apt-get update && \
    apt-get install --yes --no-install-recommends gcc libc6-dev && \
    rm -rf /var/lib/apt/lists/*
COPY --from=mq-client /opt/mqm-sdk /opt/mqm
WORKDIR /opt/mqdlq
ENV UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1 PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements.lock ./
RUN python3 -m venv .venv && \
    echo "uv==${UV_VERSION} --hash=sha256:${UV_SHA256}" > .venv/uv.txt && \
    .venv/bin/pip install --quiet --require-hashes --only-binary :all: --requirement .venv/uv.txt && \
    printf 'pymqi\npyspark-client\n' > .venv/excluded.txt && \
    .venv/bin/uv pip install --quiet --compile-bytecode --python .venv/bin/python --require-hashes --no-deps \
      --build-constraints requirements.lock --excludes .venv/excluded.txt -r requirements.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY plugins plugins
COPY deploy/pymqi_layer.py deploy/
COPY embedded_mq embedded_mq
RUN .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable . && \
    MQ_FILE_PATH=/opt/mqm .venv/bin/python deploy/pymqi_layer.py requirements.lock && \
    { [ "${MQ_CLIENT}" = ibm ] || \
      .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation ./embedded_mq; } && \
    rm -r embedded_mq
USER 50000

FROM ${AIRFLOW_IMAGE} AS production
ARG AIRFLOW_IMAGE
ARG MQ_CLIENT
ARG MQ_CLIENT_VERSION
ARG VERSION=0.1.0
# `make image` sets these from the repository.
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="mqdlq" \
      org.opencontainers.image.description="A dead-letter queue handler for IBM MQ that runs as an Airflow workflow on Spark" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0${MQ_CLIENT:+ AND LicenseRef-IBM-MQ-redistributable-client}" \
      org.opencontainers.image.base.name="docker.io/${AIRFLOW_IMAGE}" \
      mqdlq.mq-client="${MQ_CLIENT:-embedded}" \
      mqdlq.mq-client.version="${MQ_CLIENT:+${MQ_CLIENT_VERSION}}"
USER 0
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends default-jre-headless && \
    rm -rf /var/lib/apt/lists/*
COPY --from=mq-client /opt/mqm /opt/mqm
COPY --from=environment /opt/mqdlq /opt/mqdlq
COPY dags /opt/mqdlq/dags
COPY include /opt/mqdlq/include
COPY spark /opt/mqdlq/spark
COPY deploy/start.sh /opt/mqdlq/deploy/
# root owns the program, and all other users can only read it. The state is in one directory, over
# which a volume is mounted; a new volume gets its owner and mode. IBM's client writes its error log
# to another directory, which it does not create itself.
RUN echo /opt/mqm/lib64 > /etc/ld.so.conf.d/ibm-mq-client.conf && ldconfig && \
    install --directory --owner airflow --group root --mode 0700 /var/lib/mqdlq /var/lib/mq-client
ENV PATH=/opt/mqdlq/.venv/bin:${PATH} \
    SPARK_HOME=/opt/mqdlq/.venv/lib/python3.11/site-packages/pyspark \
    PYTHONDONTWRITEBYTECODE=1 \
    AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/mqdlq/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/mqdlq/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL=1 \
    MQDLQ_HOME=/var/lib/mqdlq \
    MQ_OVERRIDE_DATA_PATH=/var/lib/mq-client
WORKDIR /opt/mqdlq
# An archive of Spark's classes for this image's JVM halves the start of small evaluations.
RUN .venv/bin/python -m mqdlq.local.class_archive && test -s .venv/spark-classes.jsa
# The image's own user `airflow`.
USER 50000
# Fail the build if this user cannot load one of the clients.
RUN case "${MQ_CLIENT}" in \
      ibm) python -c "import pymqi.pymqe, ibmmq.ibmmqc, mqdlq" ;; \
      *) python -c "import embedded_mq; embedded_mq.install(); import pymqi, ibmmq, mqdlq" ;; \
    esac

FROM production AS trial
USER 0
ENV UV_NO_CACHE=1
COPY requirements-dev.lock ./
COPY embedded_mq embedded_mq
RUN .venv/bin/uv pip install --quiet --compile-bytecode --python .venv/bin/python --require-hashes --no-deps \
      --build-constraints requirements-dev.lock --excludes .venv/excluded.txt -r requirements-dev.lock && \
    .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable ./embedded_mq && \
    .venv/bin/embedded-mq --help
USER 50000

# The default target.
FROM production
