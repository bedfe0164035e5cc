"""The compile itself: a toolchain of locked packages, one container build, and its log read.

``compiler.ContainerCompiler`` is what ``builder.wheels`` asks. Everything comes from locked wheels,
Debian packages and the locked base; on x86-64 nvcc compiles for aarch64 with Debian's cross
compiler, on aarch64 natively. Nothing runs under emulation, and only the result leaves the build.
"""
