package bridge

import "strconv"

// appendAnswer appends the body of an answer file, in the order of fields and
// with the spaces that doc.go promises.
func appendAnswer(b []byte, id string, a Answer) []byte {
	b = append(b, `{"id": `...)
	b = appendString(b, id)
	b = append(b, `, "tool": `...)
	b = appendString(b, a.Tool)
	b = append(b, `, "seq": `...)
	b = strconv.AppendInt(b, a.Seq, 10)
	if a.Err == nil {
		b = append(b, `, "status": "ok", "result": `...)
		b = append(b, a.Value...)
		return append(b, "}\n"...)
	}
	b = append(b, `, "status": "error", "class": `...)
	b = appendString(b, string(a.Err.Class))
	b = append(b, `, "code": `...)
	b = appendString(b, string(a.Err.Code))
	b = append(b, `, "details": `...)
	if a.Err.Details == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, a.Err.Details...)
	}
	b = append(b, `, "error": `...)
	b = appendString(b, a.Err.Message)
	return append(b, "}\n"...)
}
