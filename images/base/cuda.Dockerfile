# The cuda base: NVIDIA's toolkit on Ubuntu 24.04 with Python and a C compiler beside it.
# Neither comes with nvidia/cuda. Made rarely, by `sparkyard base cuda --upgrade`, and locked by
# the digest of the result; builds never run this.
ARG SOURCE
FROM ${SOURCE}

RUN set -eu; \
    export DEBIAN_FRONTEND=noninteractive; \
    apt-get update; \
    apt-get install -y --no-install-recommends \
        ca-certificates python3 python3.12 python3.12-dev gcc g++ libc6-dev \
        libgomp1 libnuma1 libibverbs1 ibverbs-providers librdmacm1; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/log/*.log /var/log/apt \
        /var/cache/ldconfig/aux-cache

ENV PATH=/opt/sparkyard/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    CUDA_HOME=/usr/local/cuda \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    LANG=C.UTF-8
