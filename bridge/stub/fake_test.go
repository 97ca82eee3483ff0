package stub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/bridge"
)

func serveFiles(t testing.TB, dir string, _ *bridge.Broker, tools []bridge.Tool) {
	for _, d := range []string{"req", "resp"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	n := 0
	go func() {
		for ctx.Err() == nil {
			time.Sleep(200 * time.Microsecond)
			list, _ := os.ReadDir(filepath.Join(dir, "req"))
			for _, e := range list {
				if !strings.HasPrefix(e.Name(), "req_") {
					continue
				}
				id := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "req_"), ".json")
				b, _ := os.ReadFile(filepath.Join(dir, "req", e.Name()))
				os.Remove(filepath.Join(dir, "req", e.Name()))
				n++
				seq := n
				go func() {
					var r struct {
						Tool string
						Args json.RawMessage
						Ack  []string
					}
					resp := func(s string) {
						p := filepath.Join(dir, "resp", "resp_"+id)
						os.WriteFile(p+".tmp", []byte(s), 0o644)
						os.Rename(p+".tmp", p+".json")
						os.WriteFile(p+".done", nil, 0o644)
					}
					if err := json.Unmarshal(b, &r); err != nil {
						resp(fmt.Sprintf(`{"id":%q,"tool":"","seq":0,"status":"error","class":"invalid_arguments","code":"bad_json","details":null,"error":"bad \"json\""}`, id))
						return
					}
					for _, a := range r.Ack {
						os.Remove(filepath.Join(dir, "resp", "resp_"+a+".json"))
						os.Remove(filepath.Join(dir, "resp", "resp_"+a+".done"))
					}
					for _, tool := range tools {
						if tool.Name != r.Tool {
							continue
						}
						d := json.NewDecoder(strings.NewReader(string(r.Args)))
						d.UseNumber()
						var a any
						d.Decode(&a)
						r.Args, _ = json.Marshal(a)
						v, err := tool.Run(ctx, bridge.Call{ID: id, Args: r.Args})
						if e, is := err.(*bridge.Error); is {
							m, _ := json.Marshal(e.Message)
							d := string(e.Details)
							if d == "" {
								d = "null"
							}
							resp(fmt.Sprintf(`{"id":%q,"tool":%q,"seq":%d,"status":"error","class":%q,"code":%q,"details":%s,"error":%s}`, id, r.Tool, seq, e.Class, e.Code, d, m))
							return
						}
						if v.Value == nil {
							v.Value = json.RawMessage("null")
						}
						resp(fmt.Sprintf(`{"id":%q,"tool":%q,"seq":%d,"status":"ok","result":%s}`, id, r.Tool, seq, v.Value))
						return
					}
					resp(fmt.Sprintf(`{"id":%q,"tool":%q,"seq":%d,"status":"error","class":"invalid_arguments","code":"unknown_tool","details":null,"error":"there is no tool %s"}`, id, r.Tool, seq, r.Tool))
				}()
			}
		}
	}()
}
