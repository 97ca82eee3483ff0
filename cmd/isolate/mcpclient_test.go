package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpClient is an unmodified MCP client that scripts run inside a sandbox:
// mcpclient TOOL ARGUMENTS lists the tools at the socket and calls one.
func mcpClient() {
	if err := callTool(context.Background(), os.Args[1], json.RawMessage(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func callTool(ctx context.Context, name string, args json.RawMessage) error {
	conn, err := net.Dial("unix", os.Getenv("ISOLATE_MCP_SOCKET"))
	if err != nil {
		return err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "inside", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: conn, Writer: conn}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		fmt.Println(tool.Name)
	}
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err
	}
	text, err := json.Marshal(res)
	fmt.Printf("RESULT: %s\n", text)
	return err
}
