# A plain libzmq client of the door: argv is the socket's path. It prints one
# JSON object with what it saw; the test judges.
import json
import sys

import zmq

path = "ipc://" + sys.argv[1]
context = zmq.Context()
seen = {}


def connect(kind, identity=b""):
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVTIMEO, 20000)
    if identity:
        socket.setsockopt(zmq.ROUTING_ID, identity)
    socket.connect(path)
    return socket


def request(correlation, tool="echo", **arguments):
    return json.dumps(
        {"topic": "tool.invoke." + tool, "correlation": correlation, "arguments": arguments}
    ).encode()


# Both forms of a DEALER's message, and a REQ, which has only one.
dealer = connect(zmq.DEALER)
dealer.send_multipart([b"", request("delimited")])
seen["delimited"] = [part.decode() for part in dealer.recv_multipart()]
dealer.send(request("alone"))
seen["alone"] = [part.decode() for part in dealer.recv_multipart()]
req = connect(zmq.REQ)
req.send(request("req"))
seen["req"] = [part.decode() for part in req.recv_multipart()]

# Two clients that claim the same routing id, and one that claims a session.
twins = [connect(zmq.DEALER, b"same") for _ in range(2)] + [connect(zmq.DEALER, b"s-2")]
for round in range(20):
    for i, twin in enumerate(twins):
        twin.send(request("twin-%d-%d" % (i, round), i=i))
seen["twins"] = [
    [json.loads(twin.recv())["payload"]["result"]["i"] for _ in range(20)] for twin in twins
]

# 64 in flight on one socket, each answered.
for i in range(64):
    dealer.send(request("many-%d" % i))
seen["many"] = sorted(json.loads(dealer.recv())["correlation"] for _ in range(64))

# A bad message is answered, and the next good one too.
dealer.send(b"null")
seen["null"] = json.loads(dealer.recv())["payload"]["error"]["code"]
dealer.send(b"x" * (3 << 20))
seen["large"] = json.loads(dealer.recv())["payload"]["error"]["code"]
dealer.send(request("next"))
seen["next"] = json.loads(dealer.recv())["correlation"]

# A result at the limit comes whole, and no event before an answer.
dealer.send(request("whole", "whole"))
seen["whole"] = len(json.loads(dealer.recv())["payload"]["result"])
dealer.send(request("ask", "ask"))
seen["ask"] = json.loads(dealer.recv())["type"]

print(json.dumps(seen))
