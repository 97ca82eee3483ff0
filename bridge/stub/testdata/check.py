"""Reads sets of generated files, one JSON object a line, and answers each with
an empty line or with what is wrong with it."""
import asyncio
import importlib
import importlib.abc
import importlib.util
import inspect
import json
import sys
import traceback


class Memory(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    files = {}

    def find_spec(self, name, path, target=None):
        at = "python/" + name.replace(".", "/")
        if at + "/__init__.py" in self.files:
            return importlib.util.spec_from_loader(name, self, is_package=True)
        if at + ".py" in self.files:
            return importlib.util.spec_from_loader(name, self)

    def get_source(self, name):
        at = "python/" + name.replace(".", "/")
        return self.files.get(at + "/__init__.py") or self.files[at + ".py"]

    def is_package(self, name):
        return "python/" + name.replace(".", "/") + "/__init__.py" in self.files


def check(files, tools):
    for name in [n for n in sys.modules if n.split(".")[0] == "isolate_tools"]:
        del sys.modules[name]
    Memory.files = files
    for path, text in files.items():
        if path.endswith(".py"):
            tree = compile(text, path, "exec", dont_inherit=True)
            module = path[len("python/"):-len(".py")].replace("/", ".")
            module = module[:-len(".__init__")] if module.endswith(".__init__") else module
            importlib.import_module(module)
    package = importlib.import_module("isolate_tools")
    star = {}
    exec("from isolate_tools import *", star)
    index = json.loads(files["tools.json"])["tools"]
    assert len(index) == len(tools), "tools.json is not whole"
    for tool, entry in zip(tools, index):
        function = getattr(package, tool["id"])
        assert function.tool == tool["name"], (function.tool, tool["name"])
        # newer compilers clean it themselves
        assert inspect.cleandoc(function.__doc__) == inspect.cleandoc(tool["doc"]), (function.__doc__, tool["doc"])
        assert star[tool["id"]] is function
        given = inspect.signature(function)
        kinds = {p.kind.name for p in given.parameters.values()}
        assert kinds <= {"KEYWORD_ONLY", "VAR_KEYWORD"}, kinds
        names = [p.name for p in given.parameters.values() if p.kind.name == "KEYWORD_ONLY"]
        assert names == (tool["params"] or []), (names, tool["params"])
        later = getattr(package.aio, tool["id"])
        assert asyncio.iscoroutinefunction(later)
        assert str(inspect.signature(later)) == str(given)
        assert (entry["name"], entry["description"]) == (tool["name"], tool["about"])
        # what is sent is what was meant
        sent = []
        module = sys.modules[function.__module__]
        module._call = lambda *a: sent.append(a)
        function(**{n: i for i, n in enumerate(names)})
        name, must, may, known = sent[0]
        assert name == tool["name"]
        assert sorted({**must, **may}) == sorted(tool["fields"] or []), (must, may)
        assert sorted(known) == sorted(may)
    lines = package.search_tools()
    assert len(lines) == len(tools) and not any("\n" in line for line in lines)


sys.meta_path.insert(0, Memory())
for line in sys.stdin:
    try:
        check(**json.loads(line))
        answer = ""
    except BaseException:
        answer = json.dumps(traceback.format_exc()[-3000:])
    print(answer, flush=True)
