//go:build tools

// Package tools names the store of the tests' control planes, so that go.mod and go.sum pin all that
// it is made of. It is never built.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
