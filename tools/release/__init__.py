"""What a release is made of: a wheel, two images, their SBOMs, and the checksums of all of it.

`make release` makes them twice and compares, so that anybody can make the same files from the same
source and look whether they are equal. It publishes and signs nothing.
"""
