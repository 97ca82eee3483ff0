package net

import "net/http"

// serveRegistry serves fake registries of package managers.
func serveRegistry(http.ResponseWriter, *http.Request) bool { return false }
