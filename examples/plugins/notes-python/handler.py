"""A nacre plugin in Python, standard library only.

The host writes one JSON object a line to standard input and reads answers
from standard output. Print for people with file=sys.stderr.
"""

import fcntl
import json
import os
import sys

DATA_DIR = None


class ToolError(Exception):
    """A failure that the agent may read. Any other exception tells it nothing."""

    def __init__(self, code, message, retriable=False):
        super().__init__(message)
        self.data = {"code": code, "message": message, "retriable": retriable}


# ---- the plugin's own part ----


def notes_of(group):
    """Opens the group's own file, locked: other sessions run a handler too."""
    f = open(os.path.join(DATA_DIR, group + ".jsonl"), "a+", encoding="utf-8")
    fcntl.flock(f, fcntl.LOCK_EX)
    f.seek(0)
    return f


def note_add(group, arguments):
    with notes_of(group) as f:
        count = sum(1 for _ in f)
        if count >= 1000:
            raise ToolError("FULL", "There are 1000 notes already")
        f.write(json.dumps(arguments["text"]) + "\n")
    return {"note": count + 1, "status": "added"}


def note_list(group, arguments):
    with notes_of(group) as f:
        notes = [json.loads(line) for line in f]
    return {"notes": [n for n in notes if arguments.get("contains", "") in n]}


TOOLS = {"note_add": note_add, "note_list": note_list}

# ---- the protocol ----


def handle(method, params):
    global DATA_DIR
    if method == "initialize":
        DATA_DIR = params["data_dir"]
        return {}
    if method == "handleRequest":
        envelope = params["envelope"]
        tool = TOOLS[envelope["topic"][len("tool.invoke.") :]]
        return tool(envelope["group"], envelope["payload"]["arguments"])
    if method == "shutdown":
        return None
    raise LookupError(method)


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue  # events and cancellations need no answer
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            result = handle(message["method"], message.get("params"))
            json.dumps(result, allow_nan=False)  # what is no JSON fails this call, and not the handler
            answer["result"] = result
        except ToolError as e:
            answer["error"] = {"code": -32000, "message": str(e), "data": e.data}
        except Exception as e:
            print(repr(e), file=sys.stderr)
            answer["error"] = {"code": -32603, "message": "internal plugin error"}
        print(json.dumps(answer, allow_nan=False), flush=True)
        if message["method"] == "shutdown":
            return


if __name__ == "__main__":
    main()
