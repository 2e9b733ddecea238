# libzmq on both sides of the bus: argv is the address of the PUB endpoint and
# that of the publisher "ci". It prints one JSON object with what it saw; the
# test judges.
import json
import sys
import time

import zmq
from zmq.utils.monitor import recv_monitor_message

events, publisher = sys.argv[1], sys.argv[2]
context = zmq.Context()
seen = {}


def connect(kind, address, **options):
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVTIMEO, 20000)
    socket.setsockopt(zmq.SNDHWM, 0)
    for name, value in options.items():
        socket.setsockopt(getattr(zmq, name), value)
    socket.connect(address)
    return socket


def reached(pub, sub, topic):
    """Publishes until the event has come back around: both sides have joined."""
    for n in range(4000):
        pub.send_multipart([topic, json.dumps({"probe": n}).encode()])
        if sub.poll(5):
            return sub.recv_multipart()
    raise SystemExit("nothing came back")


def drained(sub):
    while sub.poll(200):
        sub.recv_multipart()


def numbers(sub, topic, count):
    have = []
    while len(have) < count:
        got, envelope = sub.recv_multipart()
        payload = json.loads(envelope)["payload"]
        if got == topic and "n" in payload:
            have.append(payload["n"])
    return have


pub = connect(zmq.PUB, publisher)
sub = connect(zmq.SUB, events, SUBSCRIBE=b"ci.")
parts = reached(pub, sub, b"ci.probe")
envelope = json.loads(parts[1])
seen["frames"] = [len(parts), parts[0].decode()]
seen["envelope"] = {k: envelope[k] for k in ("version", "type", "topic", "source", "correlation", "group")}

# Every event arrives, in order, whoever does not read beside it.
idle = connect(zmq.SUB, events, SUBSCRIBE=b"", RCVHWM=1)
for n in range(500):
    pub.send_multipart([b"ci.n", json.dumps({"n": n}).encode()])
seen["ordered"] = numbers(sub, b"ci.n", 500) == list(range(500))

# Its claims are not believed; another version is not taken; a topic of another is not.
claims = {"id": "x", "version": 1, "type": "event", "topic": "ci.claim", "source": "core", "correlation": None,
          "timestamp": "1999-01-01T00:00:00Z", "group": "other", "payload": {"n": 1}}
pub.send_multipart([b"ci.claim", json.dumps(dict(claims, version=2)).encode()])
pub.send_multipart([b"ci.claim", b"null"])
pub.send_multipart([b"ci.claim"])
pub.send_multipart([b"ci.claim", b"{}", b"{}"])
pub.send_multipart([b"ci.claim", b"x" * (2 << 20)])
pub.send_multipart([b"task.triggered", b"{}"])
pub.send_multipart([b"ci.claim", json.dumps(claims).encode()])
envelope = json.loads(sub.recv_multipart()[1])
seen["claims"] = [envelope["source"], envelope["group"], envelope["id"] == "x", envelope["payload"]]

# The end of a subscription, and one of two.
sub.setsockopt(zmq.SUBSCRIBE, b"ci.")
sub.setsockopt(zmq.UNSUBSCRIBE, b"ci.")
pub.send_multipart([b"ci.twice", b'{"n":1}'])
seen["twice"] = numbers(sub, b"ci.twice", 1)
sub.setsockopt(zmq.UNSUBSCRIBE, b"ci.")
sub.setsockopt(zmq.SUBSCRIBE, b"ci.only")
drained(sub)
reached(pub, sub, b"ci.only")
drained(sub)
pub.send_multipart([b"ci.other", b"{}"])
pub.send_multipart([b"ci.only", b"{}"])
seen["only"] = sub.recv_multipart()[0].decode()

# XPUB and XSUB, heartbeats, and a body at the limit.
xsub = connect(zmq.XSUB, events, HEARTBEAT_IVL=20, HEARTBEAT_TIMEOUT=2000)
xsub.send(b"\x01ci.big")
xpub = connect(zmq.XPUB, publisher, HEARTBEAT_IVL=20, HEARTBEAT_TIMEOUT=2000)
seen["asked"] = xpub.recv().decode("latin1")
reached(xpub, xsub, b"ci.big.probe")
time.sleep(0.2)
big = json.dumps({"big": "x" * (200 << 10)}).encode()
xpub.send_multipart([b"ci.big.one", big])
while True:
    topic, body = xsub.recv_multipart()
    if topic == b"ci.big.one":
        break
seen["big"] = len(json.loads(body)["payload"]["big"])


# Every other kind of socket is sent away.
def refused(kind, address):
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    monitor = socket.get_monitor_socket()
    socket.connect(address)
    answer = None
    while answer is None and monitor.poll(20000):
        event = recv_monitor_message(monitor)["event"]
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            answer = False
        if event in (zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, zmq.EVENT_DISCONNECTED):
            answer = True
    socket.disable_monitor()
    socket.close()
    return answer


kinds = [zmq.DEALER, zmq.ROUTER, zmq.REQ, zmq.REP, zmq.PUSH, zmq.PULL]
seen["refused"] = [refused(k, a) for a in (events, publisher) for k in kinds]
seen["refused"] += [refused(zmq.PUB, events), refused(zmq.SUB, publisher)]

# Whoever comes after all that is served.
late = connect(zmq.SUB, events, SUBSCRIBE=b"ci.late")
reached(pub, late, b"ci.late")
seen["late"] = True
print(json.dumps(seen))
context.destroy(0)
