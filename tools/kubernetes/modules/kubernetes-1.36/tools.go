//go:build tools

// Package tools names the API server that the tests of old and new versions run, so that go.mod and go.sum pin
// all that it is made of. It is never built.
package tools

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
