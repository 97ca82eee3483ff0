package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/client"
)

// A request has one reading (cases.md B 59: duplicate keys, `Tool` for `tool`).
func TestRequestHasOneReading(t *testing.T) {
	for body, want := range map[string]string{
		`{"args":["echo"],"env":{"A":"1","a":"2"}}`:          "",
		`{"args":["echo","args","args"],"env":{"args":"x"}}`: "",
		`{"args":["true"],"args":["id"]}`:                    `the name "args" stands twice`,
		`{"args":["true"],"\u0061rgs":["id"]}`:               `the name "args" stands twice`,
		`{"args":["true"],"env":{"A":"1","A":"2"}}`:          `the name "A" stands twice`,
		`{"args":["true"],"ARGS":["id"]}`:                    `unknown field "ARGS"`,
		`{"Args":["id"]}`:                                    `unknown field "Args"`,
		`{"args":["true"],"arg\u017f":["id"]}`:               `unknown field "arg`,
		`{"args":["true"],"in":[{"Source":"/x"}]}`:           `unknown field "Source"`,
		`{"args":["true"],"in":[{"source":"/x"}]}`:           "",
		`{"args":["id"]}{}`:                                  "there is more after it",
		`{"args":["id"],"other":1}`:                          `unknown field "other"`,
	} {
		var r client.RunRequest
		err := decode(httptest.NewRequest(http.MethodPost, "/v1/runs", strings.NewReader(body)), &r)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
	}
}
