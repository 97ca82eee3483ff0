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


# How a generated function shows what went wrong.


def _tool(function, tool, parameters):
    """Make a generated function a tool in its module, and give its defaults by
    the names that the tool itself has for its parameters."""
    if function.__code__.co_flags & 0x80:  # CO_COROUTINE
        async def shown(*args, **named):
            try:
                if args:
                    raise TypeError(_BY_NAME)
                return await function(**named)
            except (ToolError, TypeError) as err:
                raise _brief(tool, err)
    else:
        def shown(*args, **named):
            try:
                if args:
                    raise TypeError(_BY_NAME)
                return function(**named)
            except (ToolError, TypeError) as err:
                raise _brief(tool, err)

    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        setattr(shown, name, getattr(function, name))
    shown.__wrapped__ = function
    shown.tool = tool
    function.__globals__[function.__name__] = shown
    known = function.__kwdefaults__ or {}
    return {name: known[parameter] for name, parameter in parameters.items()}


_BY_NAME = "arguments are given by name only"


def _brief(tool, err):
    """An error without the lines of these modules in its trace: who reads it
    sees the end of it, and looks for the program's own line. That arguments do
    not fit the function is told with what would."""
    if isinstance(err, ToolError):
        return err.with_traceback(None)
    if err.__traceback__.tb_next is not None:
        return err  # of something in the function
    from ._index import TOOLS

    for line, about in TOOLS:
        if about.startswith(tool.lower() + " ") and len(line) < 700:
            told = TypeError("%s: %s" % (err, line))
            told.__suppress_context__ = True  # err says nothing more
            return told
    return err
