"""A real Kafka broker for the tests: one process of Java on loopback, its archives by Maven.

`python -m tools.kafka fetch` brings what the cache lacks and prints the folder; `Broker` runs one.
This package owns the pinned list of archives and the broker's files. It knows nothing about tests.
"""

#: What a broker needs of this machine, and the Debian package that brings it; Maven brings a Java.
NEEDS = {"mvn": "maven", "java": "default-jre-headless"}
# tools/setup installs it.
DEBIAN_PACKAGES: tuple[str, ...] = ("maven",)
