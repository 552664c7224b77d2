// Package suite names what is built, so that go.mod and go.sum pin it; `build` compiles the package's test binary.
package suite

import _ "k8s.io/kubernetes/test/e2e"
