//go:build tools

// Package tools names the program that plays many nodes in the tests, so that go.mod and go.sum pin all that
// it is made of. It is never built.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
