package server

import (
	"net"
	"net/http"

	"github.com/isolate-run/isolate"
)

// Runtime is what runs.
type Runtime = *isolate.Runtime

type sandboxes struct{}
type input struct{}
type tail struct{}

func newSandboxes(*Server, int) *sandboxes { return &sandboxes{} }
func (s *sandboxes) endAll()               {}
func (s *Server) newHTTP() *http.Server {
	return &http.Server{ReadHeaderTimeout: greetTime, IdleTimeout: idleTime, Handler: http.NotFoundHandler()}
}

// ServeMetrics is to come.
func (s *Server) ServeMetrics(l net.Listener) func() { return func() { l.Close() } }
