# A plain libzmq client of the door: argv is the socket's path. It prints one
# JSON object with what it saw; the test judges.
import json
import sys
import threading

import zmq
from zmq.utils.monitor import recv_monitor_message

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

# Parts that are no form of a request are answered in the form they came in.
dealer.send_multipart([b"", b"", request("parts")])
seen["parts"] = json.loads(dealer.recv_multipart()[-1])["payload"]["error"]["code"]
dealer.send_multipart([b"x"] * 40)
seen["forty"] = json.loads(dealer.recv_multipart()[-1])["payload"]["error"]["code"]

# A request at the limit, and one byte more.
piece = "x" * (100 << 10)
full = json.loads(request("full", pieces=[piece] * 10))
full["arguments"]["rest"] = "x" * ((1 << 20) - len(json.dumps(full)) - len(', "rest": ""'))
dealer.send(json.dumps(full).encode())
seen["full"] = len(json.loads(dealer.recv())["payload"]["result"]["rest"]) == len(full["arguments"]["rest"])
dealer.send(json.dumps(full).encode() + b" ")
seen["over"] = json.loads(dealer.recv())["payload"]["error"]["code"]

# Heartbeats far more often than their time-out: the connection stays the same
# over many of them.
beating = context.socket(zmq.DEALER)
beating.setsockopt(zmq.LINGER, 0)
beating.setsockopt(zmq.RCVTIMEO, 20000)
beating.setsockopt(zmq.HEARTBEAT_IVL, 20)
beating.setsockopt(zmq.HEARTBEAT_TIMEOUT, 2000)
beating.setsockopt(zmq.HEARTBEAT_TTL, 2000)
events = beating.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED)
beating.connect(path)
seen["handshake"] = recv_monitor_message(events)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED
seen["beating"] = events.poll(500) == 0
beating.send(request("beating"))
seen["after"] = json.loads(beating.recv())["correlation"]
beating.disable_monitor()

# A DEALER that probes sends an empty message first, and gets its answer to it.
probing = connect(zmq.DEALER)
probing.disconnect(path)
probing.setsockopt(zmq.PROBE_ROUTER, 1)
probing.connect(path)
seen["probe"] = json.loads(probing.recv())["payload"]["error"]["code"]


# Sockets that cannot talk to a ROUTER here, and a mechanism other than NULL:
# nothing comes of them, and they stop nobody.
def silent(kind, **options):
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    for name, value in options.items():
        socket.setsockopt(getattr(zmq, name), value)
    failed = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
    socket.connect(path)
    gone = failed.poll(20000) != 0
    socket.disable_monitor()
    socket.close()
    return gone


seen["refused"] = [
    silent(kind)
    for kind in (zmq.ROUTER, zmq.PUB, zmq.SUB, zmq.PUSH, zmq.PULL, zmq.PAIR, zmq.REP)
] + [silent(zmq.DEALER, PLAIN_USERNAME=b"admin", PLAIN_PASSWORD=b"admin")]

# Sixty sockets at once, each in a thread of its own.
crowd = {}


def member(i):
    own = connect(zmq.REQ if i % 2 else zmq.DEALER)
    crowd[i] = 0
    for n in range(10):
        own.send(request("crowd-%d-%d" % (i, n), i=i, n=n))
        answer = json.loads(own.recv_multipart()[-1])
        crowd[i] += answer["payload"]["result"] == {"i": i, "n": n}
    own.close()


threads = [threading.Thread(target=member, args=(i,)) for i in range(60)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
seen["crowd"] = list(crowd.values())

# Sockets that go away with everything still to come.
for i in range(20):
    leaving = connect(zmq.DEALER)
    for n in range(5):
        leaving.send(request("leaving-%d-%d" % (i, n), "whole"))
    leaving.close()
dealer.send(request("last"))
seen["last"] = json.loads(dealer.recv())["correlation"]

print(json.dumps(seen))
