package bridge

import (
	"strings"
)

// Bounds of ids, from the protocol (rule 3).
const maxID = 64

// reqPrefix and the others are the parts of the protocol's file names.
const (
	reqPrefix  = "req_"
	respPrefix = "resp_"
	jsonSuffix = ".json"
	doneSuffix = ".done"
)

// validID says whether id is one that is served: 1 to 64 letters, digits,
// underscores or hyphens, of which the first is a letter or digit.
func validID[T ~string | ~[]byte](id T) bool {
	if len(id) == 0 || len(id) > maxID || id[0] == '_' || id[0] == '-' {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// requestID takes the id out of the name of a request file.
func requestID(name string) (id string, ok bool) {
	id, ok = strings.CutPrefix(name, reqPrefix)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(id, jsonSuffix)
	return id, ok && validID(id)
}

// passing says whether a name is one that a program uses on the way to a
// request: it is neither served nor counted.
func passing(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp")
}

// wire is a decoded request.
type wire struct {
	tool string
	args map[string]any
	acks []string
}

// decode reads a request whose file was named after id. The tool's name is
// given back as far as it could be read, for the record.
func decode(raw []byte, id string) (wire, *Error) {
	var w wire
	v, err := parse(raw)
	if err != nil {
		return w, fault(CodeBadJSON, err.Error())
	}
	top, ok := v.(map[string]any)
	if !ok {
		return w, fault(CodeBadRequest, "it is not an object")
	}
	if w.tool, ok = top["tool"].(string); !ok {
		return w, fault(CodeBadRequest, `"tool" is missing or no string`)
	}
	if len(w.tool) > maxToolName {
		w.tool = ""
		return w, fault(CodeUnknownTool, "the name is too long")
	}
	if w.args, ok = top["args"].(map[string]any); !ok {
		return w, fault(CodeBadRequest, `"args" is missing or no object`)
	}
	for key, v := range top {
		switch key {
		case "tool", "args":
		case "id":
			if v != any(id) {
				return w, fault(CodeBadRequest, `"id" is not the one in the file's name`)
			}
		case "ack":
			if w.acks, ok = idList(v); !ok {
				return w, fault(CodeBadRequest, `"ack" is not a list of ids`)
			}
		default:
			return w, fault(CodeBadRequest, "unknown field "+shown(key))
		}
	}
	return w, nil
}

func idList(v any) ([]string, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	ids := make([]string, len(list))
	for i, e := range list {
		id, ok := e.(string)
		if !ok || !validID(id) {
			return nil, false
		}
		ids[i] = id
	}
	return ids, true
}
