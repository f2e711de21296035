//go:build tools

// Package tools names the program that installs our chart in the tests, so that go.mod and go.sum pin all that
// it is made of. It is never built.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
