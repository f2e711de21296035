"""The container image, made here without an engine: the Dockerfile's own steps in a clean root.

`python -m tools.image build` prints where the archive is, for `ctr images import`. This package
owns the few instructions that our Dockerfile needs and refuses every other one, so that what is
tested here is what an engine would build. The base image is made by debootstrap, as Debian's is.
"""

#: tools/setup installs it.
DEBIAN_PACKAGES: tuple[str, ...] = ("debootstrap",)
