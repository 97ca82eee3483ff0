package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/isolate-run/isolate/bridge"
)

// reply makes one JSON value of a result: what is structured, if anything is;
// else the text, if there is one text and nothing else, read as JSON only when
// the tool declares what it returns; else a list of blocks with a "type" each,
// in which images, sounds and resources are files. Nothing at all is null.
func reply(ctx context.Context, r *sdk.CallToolResult, hasOutput bool, files bridge.Files) (bridge.Reply, error) {
	switch {
	case r.NeedsInput():
		return bridge.Reply{}, failed(CodeNeedsInput, "the tool asks the user for more input, which is not possible here", "it gave input requests")
	case r.IsError:
		return bridge.Reply{}, toolError(r)
	case r.StructuredContent != nil:
		value, err := structured(r.StructuredContent)
		return bridge.Reply{Value: value}, err
	case len(r.Content) == 0:
		return bridge.Reply{}, nil
	case len(r.Content) == 1:
		if t, ok := r.Content[0].(*sdk.TextContent); ok {
			return text(t.Text, hasOutput)
		}
	}
	blocks := make([]any, 0, len(r.Content))
	for _, c := range r.Content {
		b, err := block(ctx, c, files)
		if err != nil {
			return bridge.Reply{}, err
		}
		blocks = append(blocks, b)
	}
	value, err := json.Marshal(blocks)
	return bridge.Reply{Value: value}, err
}

func text(s string, hasOutput bool) (bridge.Reply, error) {
	if !hasOutput {
		value, err := json.Marshal(s)
		return bridge.Reply{Value: value}, err
	}
	if !utf8.ValidString(s) || !json.Valid([]byte(s)) {
		return bridge.Reply{}, failed(bridge.CodeBadResult, "the tool's result is text, and not the JSON that it declares", "its server gave no structured result")
	}
	return bridge.Reply{Value: json.RawMessage(s)}, nil
}

// textBlock, fileBlock and linkBlock are the blocks of a list.
type textBlock struct {
	Type string `json:"type"` // "text"
	Text string `json:"text"`
}

type fileBlock struct {
	Type string `json:"type"` // "image", "audio" or "resource"
	URI  string `json:"uri,omitempty"`
	bridge.FileRef
}

type linkBlock struct {
	Type      string `json:"type"` // "resource_link"
	URI       string `json:"uri"`
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
}

// block makes one block of a list.
func block(ctx context.Context, c sdk.Content, files bridge.Files) (any, error) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return textBlock{"text", c.Text}, nil
	case *sdk.ImageContent:
		return file(ctx, files, "image", "", c.MIMEType, c.Data)
	case *sdk.AudioContent:
		return file(ctx, files, "audio", "", c.MIMEType, c.Data)
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return nil, failed(bridge.CodeBadResult, "the tool's result has a resource without content", "")
		}
		data := c.Resource.Blob
		if len(data) == 0 {
			data = []byte(c.Resource.Text)
		}
		return file(ctx, files, "resource", c.Resource.URI, c.Resource.MIMEType, data)
	case *sdk.ResourceLink:
		return linkBlock{"resource_link", c.URI, c.Name, c.MIMEType}, nil
	}
	return nil, failed(bridge.CodeBadResult, "the tool's result has a part of an unknown kind", fmt.Sprintf("it is %T", c))
}

// file puts the content of a block into the workspace.
func file(ctx context.Context, files bridge.Files, kind, uri, mediaType string, data []byte) (any, error) {
	mediaType = cleanType(mediaType)
	ref, err := files.Put(ctx, kind+extension(mediaType), mediaType, bytes.NewReader(data))
	if err != nil {
		var own *bridge.Error
		if errors.As(err, &own) {
			return nil, own
		}
		return nil, fmt.Errorf("cannot write a file for the program: %w", err)
	}
	return fileBlock{kind, uri, ref}, nil
}

// cleanType is a media type without its parameters, or none if it is no such.
func cleanType(s string) string {
	kind, _, err := mime.ParseMediaType(s)
	if err != nil || len(kind) > 100 {
		return "application/octet-stream"
	}
	return kind
}

// extensions are those of common types. The tables of the host, which package
// mime reads, differ from machine to machine.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
	"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg",
	"application/pdf": ".pdf", "application/json": ".json", "text/csv": ".csv", "text/html": ".html", "text/markdown": ".md",
}

func extension(mediaType string) string {
	if ext, ok := extensions[mediaType]; ok {
		return ext
	}
	if strings.HasPrefix(mediaType, "text/") {
		return ".txt"
	}
	return ".bin"
}
