"""What can go wrong in a call of a tool, as exceptions.

ToolError is the parent of all. Each has

    code      one word that says what happened, like "unknown_tool"
    message   a sentence for people
    details   a JSON value with more, or None
    tool      the tool that was called, or None
"""


class ToolError(Exception):
    """A tool call did not give a result."""

    def __init__(self, code, message="", details=None, tool=None):
        super().__init__(code, message, details, tool)
        self.code = code
        self.message = message
        self.details = details
        self.tool = tool

    def __str__(self):
        text = self.message or self.code
        # that a tool is unknown is said with its name
        return "%s: %s" % (self.tool, text) if self.tool and self.code != "unknown_tool" else text


class ToolDenied(ToolError):
    """A person or the policy said no. The tool did not run."""


class ToolInvalidArguments(ToolError):
    """The call cannot be served as it is. The tool did not run."""


class ToolTimeout(ToolError):
    """The tool took too long. What it did by then is not known."""


class ToolLimit(ToolError):
    """A limit of calls, bytes or space was met."""


class ToolFailed(ToolError):
    """The tool itself failed."""


class BridgeClosed(ToolError):
    """The bridge to the host has ended, or there is none."""


CLASSES = {
    "denied": ToolDenied,
    "invalid_arguments": ToolInvalidArguments,
    "timeout": ToolTimeout,
    "limit": ToolLimit,
    "failed": ToolFailed,
    "closed": BridgeClosed,
}
