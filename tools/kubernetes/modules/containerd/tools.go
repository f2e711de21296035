//go:build tools

// Package tools names the container runtime of the tests' nodes, so that go.mod and go.sum pin all that
// it is made of. It is never built.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
)
