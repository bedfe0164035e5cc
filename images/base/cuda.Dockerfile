# The cuda base: NVIDIA's CUDA image with Python and a C compiler, neither of which it has.
# `./nox -s base -- cuda --upgrade` builds it once and locks the result by digest. SOURCE is
# bases.cuda.source of matrix.toml; cuda.toml fills the marked places.
ARG SOURCE
FROM ${SOURCE}

RUN set -eu; \
    export DEBIAN_FRONTEND=noninteractive; \
    apt-get update; \
    apt-get install -y --no-install-recommends @packages@; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/log/*.log /var/log/apt \
        /var/cache/ldconfig/aux-cache

@env@
# NVIDIA's entry point prints a banner into the output of whatever is run.
ENTRYPOINT []
CMD ["/bin/bash"]
