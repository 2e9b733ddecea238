#!/usr/bin/env python3
"""Check nacre's audit chains and receipts without nacre.

An independent verifier for the format in docs/audit-format.md. It needs
Python 3.8 and its standard library, the audit folder, and a public key that
you got from somewhere you trust. It promises to accept and refuse what
`nacre audit verify` does; it writes nothing.

    python3 verify_audit.py --root DIR --public-key HEX|FILE [--chain ID] [--receipt FILE]
    python3 verify_audit.py --bundle FILE --public-key HEX|FILE
    python3 verify_audit.py --receipt-file FILE --public-key HEX|FILE

Exit status: 0 proven, 1 not proven (tampered with, or never closed), 2 usage.
"""

import argparse
import datetime
import errno
import fcntl
import hashlib
import hmac
import json
import os
import re
import stat
import sys
import tempfile

MAX_LINE = 128 << 10
MAX_TEXT = 1 << 10
MAX_DETAIL = 32 << 10
MAX_DEPTH = 16
MAX_HEAD = 4 << 10
MAX_RECEIPT = 1 << 20
MAX_INTEGER = (1 << 53) - 1
INDEX = "index"

RECORD_DOMAIN = b"nacre-audit-record-v1\n"
MAC_DOMAIN = b"nacre-audit-mac-v1\n"
HEAD_DOMAIN = b"nacre-audit-head-v1\n"
RECEIPT_DOMAIN = b"nacre-audit-receipt-v1\n"
ROTATION_DOMAIN = b"nacre-audit-rotation-v1\n"
MAC_ID_DOMAIN = b"nacre-audit-mac-id-v1\n"
MAX_KEYS = 64
MAX_SEGMENTS = 999999
END = 1 << 64

LINE_END = re.compile(r',"record_hash":"([0-9a-f]{64})","mac":"([0-9a-f]{64})"}')
LINE_END_SIZE = 16 + 64 + 9 + 64 + 2
SIGNED_END = re.compile(r',"signature":"([0-9a-f]{128})"}\n')
SIGNED_END_SIZE = 14 + 128 + 3
HASH = re.compile(r"[0-9a-f]{64}")
CHAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
KIND = re.compile(r"[a-z][a-z0-9._-]{0,63}")
SEGMENT = re.compile(r"[0-9]{6}\.jsonl")
TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})\.[0-9]{9}Z")
RECEIPT_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{0,8}[1-9])?Z")


class Refused(Exception):
    """What is checked is not proven."""


class Missing(Refused):
    """A file that has to be there is not."""


# Ed25519, after RFC 8032 section 5.1 and 6.

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_1 = pow(2, (P - 1) // 4, P)


def point_add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def point_times(n, p):
    result = (0, 1, 1, 0)
    while n > 0:
        if n & 1:
            result = point_add(result, p)
        p = point_add(p, p)
        n >>= 1
    return result


def recover_x(y, sign):
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    if square == 0:
        return None if sign else 0
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P != 0:
        x = x * ROOT_OF_MINUS_1 % P
    if (x * x - square) % P != 0:
        return None
    return P - x if x & 1 != sign else x


def point_decode(data):
    number = int.from_bytes(data, "little")
    y = number & ((1 << 255) - 1)
    x = recover_x(y, number >> 255)
    return None if x is None else (x, y, 1, x * y % P)


def point_encode(p):
    inverse = pow(p[2], P - 2, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = recover_x(BASE_Y, 0)
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def ed25519_verify(public, message, signature):
    if len(public) != 32 or len(signature) != 64:
        return False
    key = point_decode(public)
    s = int.from_bytes(signature[32:], "little")
    if key is None or s >= ORDER:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % ORDER
    negative = (P - key[0], key[1], key[2], P - key[3])
    return point_encode(point_add(point_times(s, BASE), point_times(challenge, negative))) == signature[:32]


# Canonical JSON.


def no_duplicates(pairs):
    result = {}
    for key, value in pairs:
        if key in result:
            raise ValueError("duplicate key %.40r" % key)
        result[key] = value
    return result


def no_float(text):
    raise ValueError("a float: %.40s" % text)


def check_value(value, depth):
    """Refuse what the format has no place for; depth 0 is the line itself."""
    if isinstance(value, (dict, list)) and depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            check_value(key, depth + 1)
            check_value(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            check_value(inner, depth + 1)
    elif isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise ValueError("half of a surrogate pair")
    elif type(value) is int and abs(value) > MAX_INTEGER:
        raise ValueError("an integer of more than 53 bits")


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def parse(text):
    """Decode an object that is in canonical form."""
    try:
        value = json.loads(text, object_pairs_hook=no_duplicates, parse_float=no_float, parse_constant=no_float)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        check_value(value, 0)
        if canonical(value) != text:
            raise ValueError("not in canonical form")
        return value
    except (ValueError, RecursionError) as e:
        raise Refused(str(e) or type(e).__name__) from None


def ascii_text(data):
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise Refused("bytes that are not ASCII") from None


def check_time(text):
    match = TIME.fullmatch(text) if isinstance(text, str) else None
    if not match or int(match[1]) < 1970:
        raise Refused("time is not in the format's form")
    try:
        datetime.datetime(*(int(part) for part in match.groups()))
    except ValueError as e:
        raise Refused("time: %s" % e) from None


# Records.

TEXTS = ("correlation", "group", "outcome", "reason", "session", "source", "topic")
REQUIRED = {"kind", "prev_hash", "seq", "time", "v"}
KNOWN = REQUIRED | set(TEXTS) | {"detail", "stage"}


def is_int(value, low, high):
    return type(value) is int and low <= value <= high


def is_hash(value):
    return isinstance(value, str) and HASH.fullmatch(value) is not None


def check_record(r):
    if not REQUIRED <= r.keys() <= KNOWN:
        raise Refused("missing or unknown keys: %s" % sorted(r.keys() ^ REQUIRED)[:5])
    if not is_int(r["v"], 1, 1):
        raise Refused("version is not 1")
    if not is_int(r["seq"], 0, MAX_INTEGER) or not is_hash(r["prev_hash"]):
        raise Refused("seq or prev_hash has the wrong form")
    if not isinstance(r["kind"], str) or not KIND.fullmatch(r["kind"]):
        raise Refused("kind has the wrong form")
    check_time(r["time"])
    for key in TEXTS:
        if key in r and (not isinstance(r[key], str) or not 1 <= len(r[key].encode()) <= MAX_TEXT):
            raise Refused("%s is not a text of 1 to %d bytes" % (key, MAX_TEXT))
    if "stage" in r and not is_int(r["stage"], 1, 99):
        raise Refused("stage is not 1 to 99")
    if "detail" in r:
        if not isinstance(r["detail"], dict) or len(canonical(r["detail"])) > MAX_DETAIL:
            raise Refused("detail is not an object of at most %d bytes" % MAX_DETAIL)


def decode_line(raw):
    """Return the record, its hash and its MAC as hex, or refuse."""
    if not LINE_END_SIZE < len(raw) < MAX_LINE:
        raise Refused("line of %d bytes" % len(raw))
    text = ascii_text(raw)
    body, end = text[:-LINE_END_SIZE], LINE_END.fullmatch(text[-LINE_END_SIZE:])
    if not end:
        raise Refused("line does not end in record_hash and mac")
    record = parse(body + "}")
    check_record(record)
    if hashlib.sha256(RECORD_DOMAIN + body.encode()).hexdigest() != end[1]:
        raise Refused("record_hash does not match the record")
    return record, end[1], end[2]


# Files.


def open_regular(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise Missing("%s is missing" % path) from None
    except OSError as e:
        raise Refused(str(e)) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Refused("%s is not a regular file" % path)
    return os.fdopen(fd, "rb")


def read_limited(path, limit):
    with open_regular(path) as f:
        data = f.read(limit + 1)
    if len(data) > limit:
        raise Refused("%s has more than %d bytes" % (path, limit))
    return data


def has_writer(folder):
    """Whether a process holds the chain's lock."""
    try:
        f = open_regular(os.path.join(folder, "lock"))
    except Refused:
        return False
    with f:
        try:
            fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as e:
            return e.errno == errno.EWOULDBLOCK
    return False


def segment_names(folder):
    try:
        names = sorted(name for name in os.listdir(folder) if SEGMENT.fullmatch(name))
    except OSError as e:
        raise Refused(str(e)) from None
    for number, name in enumerate(names, int(names[0][:6]) if names else 1):
        if number == 0 or name != "%06d.jsonl" % number:
            raise Refused("segment %06d.jsonl is missing" % number)
    return names


def read_lines(path):
    """Yield whole lines without their newline; then, once, (None, torn bytes)."""
    with open_regular(path) as f:
        while True:
            raw = f.readline(MAX_LINE)
            if raw.endswith(b"\n"):
                yield raw[:-1], b""
            elif len(raw) == MAX_LINE:
                raise Refused("a line of more than %d bytes" % MAX_LINE)
            else:
                yield None, raw
                return


# Heads.

HEAD_KEYS = {"chain", "genesis", "public_key", "record_hash", "seq", "state", "time", "v"}


def check_signature(public, domain, document, signature):
    if domain == HEAD_DOMAIN:
        document = {key: value for key, value in document.items() if key != "signature"}
    payload = canonical(document)[:-1].encode()
    if not ed25519_verify(public, domain + payload, bytes.fromhex(signature)):
        raise Refused("signature does not match")


def check_head(head):
    if head.keys() != HEAD_KEYS:
        raise Refused("head has missing or unknown keys")
    if not is_int(head["v"], 1, 1) or not is_int(head["seq"], 0, MAX_INTEGER):
        raise Refused("head has a wrong version or seq")
    if head["state"] not in ("open", "closed") or not isinstance(head["chain"], str) or not isinstance(head["time"], str):
        raise Refused("head has the wrong form")
    if not is_hash(head["genesis"]) or not is_hash(head["record_hash"]):
        raise Refused("head has the wrong form")


def read_signed(data):
    """Split a signed file into its document and its signature."""
    text = ascii_text(data)
    end = SIGNED_END.fullmatch(text[-SIGNED_END_SIZE:])
    if not end:
        raise Refused("it does not end in a signature")
    return parse(text[:-SIGNED_END_SIZE] + "}"), end[1]


def read_head(root, chain):
    """Return a chain's head and its signature, which is not checked yet."""
    head, signature = read_signed(read_limited(os.path.join(root, chain, "head.json"), MAX_HEAD))
    if head.get("chain") != chain:
        raise Refused("head.json belongs to another chain")
    check_head(head)
    return head, signature


# The succession of keys.


class Ring:
    """The signing keys of an installation, the oldest first, as its index tells them."""

    def __init__(self, public):
        self.keys = [public]
        self.since = [-1]  # the index record that introduced each

    def find(self, public_key):
        for place, key in enumerate(self.keys):
            if key.hex() == public_key:
                return place
        raise Refused("it names another key than the trusted one")

    def at(self, seq):
        """The key that signs the index's heads at seq: a rotation is covered by the key it retires."""
        return max(place for place, since in enumerate(self.since) if place == 0 or seq > since)

    def check_head(self, head, signature, low, high):
        place = self.find(head["public_key"])
        if not self.at(low) <= place <= self.at(high):
            raise Refused("head names another key than the one in use then")
        check_signature(self.keys[place], HEAD_DOMAIN, head, signature)

    def rotate(self, seq, detail, genesis):
        """Take a key.rotate record: only the last key may introduce another."""
        detail = dict(detail)
        signature = detail.pop("signature", None)
        if detail.keys() != {"genesis", "mac_key", "next", "public_key"} or not is_signature(signature):
            raise Refused("record %d is no rotation of keys" % seq)
        if detail["genesis"] != genesis or detail["public_key"] != self.keys[-1].hex() or not is_hash(detail["mac_key"]):
            raise Refused("record %d is not a rotation by the key in use" % seq)
        if not is_hash(detail["next"]) or bytes.fromhex(detail["next"]) in self.keys or len(self.keys) >= MAX_KEYS:
            raise Refused("record %d introduces no new key" % seq)
        check_signature(self.keys[-1], ROTATION_DOMAIN, detail, signature)
        self.keys.append(bytes.fromhex(detail["next"]))
        self.since.append(seq)


def is_signature(value):
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{128}", value) is not None


# One chain.

OPENING_KEYS = {"chain", "genesis", "public_key"}
PAIRS = {"call.begin": ("call", 1), "call.end": ("call", -1)}


class Walk:
    """One walk over one chain, and what is signed about it."""

    def __init__(self, root, chain, trust):
        self.root, self.chain, self.trust = root, chain, trust
        self.folder = os.path.join(root, chain)
        self.marks, self.genesis = {}, set()
        self.signed = self.opened = 0
        self.closed = None
        self.records, self.entries, self.last_kind, self.last_hash = 0, [], None, None
        self.begun = {}
        self.ring, self.cut, self.mac = Ring(trust.public), None, trust.first_mac()

    def mark(self, seq, record_hash, genesis, closed):
        if self.marks.setdefault(seq, record_hash) != record_hash:
            raise Refused("two signed statements differ about record %d: the chain was replaced" % seq)
        self.genesis.add(genesis)
        self.signed = max(self.signed, seq)
        if closed:
            self.closed = max(seq, -1 if self.closed is None else self.closed)

    def mark_head(self, head):
        if head["chain"] != self.chain:
            raise Refused("the head given belongs to another chain")
        self.mark(head["seq"], head["record_hash"], head["genesis"], head["state"] == "closed")

    def gather(self, index, outside, live):
        """Collect what the index, head.json and a head kept elsewhere say."""
        low, high = 0, END
        events = index.events.get(self.chain, []) if index else []
        if index:
            self.ring = index.ring
            if not events and not outside and not live:
                raise Refused("the index does not know it")
            for event in events:
                self.consult(event)
            if events:
                low, high = events[0]["at"], END if live else events[-1]["at"]
        if not self.gone():
            try:
                head, signature = read_head(self.root, self.chain)
                if self.chain != INDEX:
                    self.ring.check_head(head, signature, low, high)
                self.mark_head(head)
            except Missing:
                if not live or events:
                    raise Refused("head.json or the whole chain is missing") from None
        if outside:
            if self.chain != INDEX:
                self.ring.check_head(outside, outside_signature(outside), low, high)
            self.mark_head(outside)

    def consult(self, event):
        self.follow(event)
        opens = event["kind"] == "chain.open"
        if opens:
            self.opened = max(self.opened, event["seq"])
        self.mark(event["seq"], event["record_hash"], event["genesis"], event["kind"] == "chain.close")

    def gone(self):
        return self.cut is not None and self.cut["whole"]

    def follow(self, event):
        """Apply what a record of the index says to what is known of pruning."""
        if event["kind"] != "chain.prune":
            if self.gone():  # a chain may begin again under its name
                self.cut, self.closed, self.signed, self.opened = None, None, 0, 0
                self.marks, self.genesis = {}, set()
            return
        if event["first_seq"] != (self.cut["seq"] + 1 if self.cut else 0):
            raise Refused("the checkpoint at index record %d does not follow the one before it" % event["at"])
        if self.gone() or self.cut and self.cut["segments"] > event["segments"]:
            raise Refused("the checkpoint at index record %d does not follow the one before it" % event["at"])
        sealed = self.closed is not None and (self.closed > self.opened or self.opened == 0)
        if not sealed or event["whole"] != (event["seq"] == self.closed):
            raise Refused("the checkpoint at index record %d removes what was not sealed" % event["at"])
        self.cut = event

    def line(self, raw):
        record, record_hash, mac = decode_line(raw)
        if self.records == 0:
            self.begin(record)
        seq = record["seq"]
        if seq != self.records:
            raise Refused("record %d stands where %d belongs" % (seq, self.records))
        if self.records > 0 and record["prev_hash"] != self.last_hash:
            raise Refused("record %d does not link to the one before it" % seq)
        detail = record.get("detail", {})
        if record["kind"] == "chain.open" and is_opening(detail) and detail["chain"] == self.chain and "mac_key" in detail:
            self.mac = self.trust.mac_named(detail["mac_key"])
        self.trust.check_mac(seq, record_hash, mac, self.mac)
        if self.marks.get(seq, record_hash) != record_hash:
            raise Refused("record %d is not the one that was signed" % seq)
        if self.chain != INDEX and self.last_kind == "chain.close" and record["kind"] != "chain.open":
            raise Refused("record %d follows the chain's end" % seq)
        self.records, self.last_kind, self.last_hash = seq + 1, record["kind"], record_hash
        if self.chain == INDEX:
            self.entries.append(record)
            if record["kind"] == "key.rotate":
                self.ring.rotate(seq, detail, self.start)
                self.mac = self.trust.mac_named(detail["mac_key"])
        self.pair(record)

    def begin(self, record):
        if self.cut:  # record 0 was checked before it was removed
            self.records, self.last_hash = self.cut["seq"] + 1, self.cut["record_hash"]
            if "mac_key" in self.cut:
                self.mac = self.trust.mac_named(self.cut["mac_key"])
            return
        if self.genesis - {record["prev_hash"]}:
            raise Refused("it does not begin with the genesis that was signed: it was replaced")
        detail = record.get("detail", {})
        if record["kind"] != "chain.open" or not is_opening(detail):
            raise Refused("the first record is not a chain.open")
        if detail["chain"] != self.chain or detail["genesis"] != record["prev_hash"] or not is_hash(detail["public_key"]):
            raise Refused("it begins as another chain")
        self.start = record["prev_hash"]
        if self.chain == INDEX:  # whether it leads to the trusted key is asked when it has been read
            self.ring = Ring(bytes.fromhex(detail["public_key"]))
        self.ring.find(detail["public_key"])

    def pair(self, record):
        if record["kind"] not in PAIRS:
            return
        name, step = PAIRS[record["kind"]]
        key = (name, "correlation", record.get("correlation", ""))
        for field in ("call", "id"):
            given = record.get("detail", {}).get(field)
            if isinstance(given, str) and given:
                key = (name, field, given)
        self.begun[key] = max(0, self.begun.get(key, 0) + step)

    def run(self, index, outside, live):
        """Return the chain's state, or refuse."""
        self.gather(index, outside, live)
        if self.gone():
            return self.conclude_pruned()
        names, torn = segment_names(self.folder), b""
        first = self.cut["segments"] + 1 if self.cut else 1
        if names and int(names[0][:6]) < first:
            raise Refused("its removal under a signed checkpoint was interrupted")
        if names and int(names[0][:6]) > first:
            raise Refused("segment %06d.jsonl is missing" % first)
        for name in names:
            if torn:
                raise Refused("a segment before %s ends in the middle of a line" % name)
            number = 0
            try:
                for raw, torn in read_lines(os.path.join(self.folder, name)):
                    number += 1
                    if raw is not None:
                        self.line(raw)
            except Refused as e:
                raise Refused("segment %s line %d: %s" % (name, number, e)) from None
        return self.conclude(bool(torn), outside, live)

    def conclude_pruned(self):
        self.records = self.cut["seq"] + 1
        if self.signed > self.cut["seq"]:
            raise Refused("it was removed up to record %d, before record %d, which was signed" % (self.cut["seq"], self.signed))
        if os.path.lexists(self.folder) and not is_empty(self.folder):
            raise Refused("its removal under a signed checkpoint was interrupted")
        return "pruned"

    def conclude(self, torn, outside, live):
        if self.records == 0 and (self.cut or not live):
            raise Refused("there are no records")
        if self.marks and self.signed >= self.records:
            raise Refused("it ends before record %d, which was signed: its tail was cut off" % self.signed)
        if live or self.chain == INDEX:
            return "open"
        sealed = self.closed is not None and self.closed > self.opened
        if sealed and (self.records - 1 > self.closed or torn):
            raise Refused("something follows its closing head at record %d" % self.closed)
        if sealed and self.last_kind == "chain.close":
            return "closed"
        if outside and not torn:
            return "abandoned"
        raise Refused("no closing head and no living writer: nothing proves what came after record %d" % self.signed)


class Trust:
    """The keys that are believed."""

    def __init__(self, public, mac_keys):
        self.public, self.mac_keys = public, mac_keys  # the newest first, or None

    def first_mac(self):
        """The key of chains that name none."""
        return self.mac_keys[-1] if self.mac_keys else None

    def mac_named(self, name):
        for key in self.mac_keys or []:
            if hashlib.sha256(MAC_ID_DOMAIN + key).hexdigest() == name:
                return key
        return None

    def check_mac(self, seq, record_hash, mac, key):
        if self.mac_keys is None:
            return
        if key is None:
            raise Refused("record %d has a MAC of a key that was not given" % seq)
        want = hmac.new(key, MAC_DOMAIN + bytes.fromhex(record_hash), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(want, mac):
            raise Refused("record %d has a wrong MAC" % seq)


# The index and receipts.

REGISTRATION_KEYS = {"chain", "genesis", "record_hash", "seq"}
CHECKPOINT_KEYS = REGISTRATION_KEYS | {"before", "by", "bytes", "first_seq", "segments", "whole"}


class Index:
    """What the signed part of the index says: chain -> events, in order, and the keys."""

    def __init__(self, events, ring):
        self.events, self.ring = events, ring


def is_opening(detail):
    if not OPENING_KEYS <= detail.keys() <= OPENING_KEYS | {"torn", "mac_key"}:
        return False
    return is_hash(detail.get("mac_key", "0" * 64))


def outside_signature(head):
    return head.get("signature") or ""


def read_index(root, trust, outside):
    """Return what the signed part of the index says."""
    try:
        walk = Walk(root, INDEX, trust)
        if not os.path.isdir(walk.folder):
            raise Missing("it is missing, without which a deleted chain would not be found")
        try:
            head, signature = read_head(root, INDEX)
        except Missing:
            raise Refused("its head.json is missing") from None
        walk.mark_head(head)
        walk.run(None, outside, False)
        walk.ring.find(trust.public.hex())
        walk.ring.check_head(head, signature, head["seq"], head["seq"])
        if outside:
            walk.ring.check_head(outside, outside_signature(outside), outside["seq"], outside["seq"])
        return Index(collect(walk.entries[1 : head["seq"] + 1]), walk.ring)
    except Missing as e:
        raise Missing("index chain: %s" % e) from None
    except Refused as e:
        raise Refused("index chain: %s" % e) from None


def collect(entries):
    events = {}
    for record in entries:
        detail = record.get("detail", {})
        if record["kind"] == "chain.open" and detail.get("chain") == INDEX and "public_key" in detail:
            continue  # it was repaired after a crash
        if record["kind"] == "key.rotate":
            continue
        if record["kind"] == "chain.prune":
            check_checkpoint(record["seq"], detail)
        elif record["kind"] not in ("chain.open", "chain.close") or detail.keys() != REGISTRATION_KEYS:
            raise Refused("record %d registers no chain" % record["seq"])
        if not isinstance(detail["chain"], str) or not CHAIN.fullmatch(detail["chain"]) or detail["chain"] == INDEX:
            raise Refused("record %d registers a chain without a name" % record["seq"])
        if not is_int(detail["seq"], 0, MAX_INTEGER) or not is_hash(detail["genesis"]) or not is_hash(detail["record_hash"]):
            raise Refused("record %d has the wrong form" % record["seq"])
        events.setdefault(detail["chain"], []).append(dict(detail, kind=record["kind"], at=record["seq"]))
    return events


def check_checkpoint(at, c):
    if not CHECKPOINT_KEYS <= c.keys() <= CHECKPOINT_KEYS | {"mac_key"} or not is_hash(c.get("mac_key", "0" * 64)):
        raise Refused("record %d is no checkpoint" % at)
    if type(c["whole"]) is not bool or not isinstance(c["by"], str) or not is_int(c["bytes"], 0, MAX_INTEGER):
        raise Refused("checkpoint at record %d has the wrong form" % at)
    if not is_int(c["segments"], 1, MAX_SEGMENTS) or not is_int(c["seq"], 0, MAX_INTEGER) or not is_int(c["first_seq"], 0, c["seq"]):
        raise Refused("checkpoint at record %d has the wrong numbers" % at)
    check_time(c["before"])


def verify_chain(root, chain, trust, index, say, outside=None):
    """Check one chain; say and return whether it is proven."""
    try:
        if not CHAIN.fullmatch(chain):
            raise Refused("a stranger beside the chains")
        folder = os.path.join(root, chain)
        live = has_writer(folder)
        walk = Walk(root, chain, trust)
        try:
            state = walk.run(index, outside, live)
        except Refused:
            if live or not has_writer(folder):
                raise
            walk = Walk(root, chain, trust)  # a writer came while it was read
            state = walk.run(index, outside, True)
    except Refused as e:
        say("REFUSED  %s: %s" % (printable(chain), e))
        return False
    unknown = sum(walk.begun.values())
    note = ", %d outcomes unknown" % unknown if unknown else ""
    say("ok       %s: %s, %d records%s" % (printable(chain), state, walk.records, note))
    return True


def printable(text):
    return text.encode("ascii", "backslashreplace").decode() if text.isprintable() else ascii(text)


def is_empty(folder):
    """A folder with nothing but perhaps a lock: nothing was written there."""
    try:
        return not set(os.listdir(folder)) - {"lock"}
    except OSError:
        return False


def verify_all(root, trust, say):
    beside = sorted(name for name in os.listdir(root) if name != INDEX)
    moment = index_moment(root)
    index = read_index(root, trust, None)  # after the names: what is whole by now is in it
    good = True
    known = index.events
    for name in list(known) + [name for name in beside if name not in known]:
        if name not in known and CHAIN.fullmatch(name) and is_empty(os.path.join(root, name)):
            continue
        said = []
        proven = verify_chain(root, name, trust, index, said.append)
        if not proven and index_moment(root) != moment:  # it may have been closed since
            proven, said = steady(root, lambda again: verify_one(root, name, trust, again))
        for line in said:
            say(line)
        good = good and proven
    return good


def verify_one(root, chain, trust, say):
    index = read_index(root, trust, None)
    if chain == INDEX:
        say("ok       index")
        return True
    return verify_chain(root, chain, trust, index, say)


def index_moment(root):
    """Differs whenever a chain was opened or closed in between."""
    try:
        return read_limited(os.path.join(root, INDEX, "head.json"), MAX_HEAD)
    except Refused:
        return None


def steady(root, check):
    """Repeat a check that failed while chains were being opened and closed."""
    for _ in range(3):
        said, before = [], index_moment(root)
        try:
            good = check(said.append)
        except Refused as e:
            said.append("REFUSED  %s" % e)
            good = False
        if good or before == index_moment(root):
            break
    return good, said


INT, TEXT, BOOL = int, str, bool
VERDICT = ({"check": TEXT, "passed": BOOL}, {"tree": TEXT, "detail": TEXT})
COST = ({"micro_usd": INT, "input_tokens": INT, "output_tokens": INT, "model_calls": INT}, {})
COUNTS = ({key: INT for key in ("allowed", "denied", "asked", "redacted", "bytes_out", "bytes_in")}, {})
RECEIPT_REQUIRED = {
    "v": INT, "session": TEXT, "group": TEXT, "started": TEXT, "finished": TEXT, "task_digest": TEXT, "outcome": TEXT,
    "sandbox": TEXT, "policy_digest": TEXT, "verdicts": list, "cost": dict, "counts": dict, "heads": dict, "public_key": TEXT,
}
RECEIPT_OPTIONAL = {"project": TEXT, "base_commit": TEXT, "merge_commit": TEXT, "brain": TEXT, "facts": dict}


def check_shape(value, required, optional):
    """Refuse unknown, missing and empty optional keys, and other types."""
    if not isinstance(value, dict) or not required.keys() <= value.keys() <= required.keys() | optional.keys():
        raise Refused("receipt has missing or unknown keys")
    for key, inner in value.items():
        if type(inner) is not {**required, **optional}[key] or key in optional and not inner:
            raise Refused("receipt: %s has the wrong form" % key)


def read_receipt(path):
    receipt, signature = read_signed(read_limited(path, MAX_RECEIPT))
    check_receipt(receipt)
    return receipt, signature


def check_receipt(receipt):
    check_shape(receipt, RECEIPT_REQUIRED, RECEIPT_OPTIONAL)
    check_shape(receipt["cost"], *COST)
    check_shape(receipt["counts"], *COUNTS)
    for verdict in receipt["verdicts"]:
        check_shape(verdict, *VERDICT)
    if any(type(value) is not str for value in receipt.get("facts", {}).values()):
        raise Refused("receipt: facts must be texts")
    if receipt["v"] != 1 or not all(RECEIPT_TIME.fullmatch(receipt[key]) for key in ("started", "finished")):
        raise Refused("receipt has a wrong version or time")
    heads = receipt["heads"]
    check_shape(heads, {"chain": dict, "index": dict}, {})
    for name, head in heads.items():
        if not is_signature(head.get("signature")):
            raise Refused("a head in the receipt is not signed")
        check_head({key: value for key, value in head.items() if key != "signature"})
    if heads["index"]["chain"] != INDEX or heads["chain"]["chain"] == INDEX:
        raise Refused("receipt does not hold the heads of a chain and of the index")


def verify_receipt(path, root, trust, say):
    receipt, signature = read_receipt(path)
    heads = receipt["heads"]
    index = read_index(root, trust, heads["index"])
    signer = index.ring.find(receipt["public_key"])
    if signer < index.ring.at(heads["index"]["seq"]):
        raise Refused("receipt names a key that was retired before")
    check_signature(index.ring.keys[signer], RECEIPT_DOMAIN, receipt, signature)
    index.ring.check_head(heads["chain"], heads["chain"]["signature"], 0, heads["index"]["seq"])
    return verify_chain(root, heads["chain"]["chain"], trust, index, say, heads["chain"])


# Bundles.

BUNDLE_BEGIN = b"nacre-audit-bundle-v1\n"
BUNDLE_END = b"end\n"
BUNDLE_HEADER = re.compile(rb"([a-z0-9][a-z0-9._-]{0,79})/([0-9]{6}\.jsonl|head\.json) (0|[1-9][0-9]{0,9})\n")
MAX_BUNDLE_FILE = 1 << 30
MAX_BUNDLE_FILES = 1 << 17


def unpack_bundle(path, folder):
    """Write a bundle's files under folder; return the chains beside the index."""
    chains = []
    with open_regular(path) as f:
        if f.readline(128) != BUNDLE_BEGIN:
            raise Refused("it is not a whole bundle")
        for _ in range(MAX_BUNDLE_FILES):
            line = f.readline(128)
            if line == BUNDLE_END:
                if f.read(1):
                    raise Refused("something follows the bundle")
                return chains
            header = BUNDLE_HEADER.fullmatch(line)
            if not header or int(header[3]) > MAX_BUNDLE_FILE:
                raise Refused("it is not a whole bundle")
            chain = header[1].decode()
            unpack_file(f, os.path.join(folder, chain), header[2].decode(), int(header[3]))
            if chain != INDEX and chain not in chains:
                chains.append(chain)
    raise Refused("it is not a whole bundle")


def unpack_file(source, folder, name, size):
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        with open(os.path.join(folder, name), "xb") as f:
            while size > 0:
                data = source.read(min(size, 1 << 20))
                if not data:
                    raise Refused("it is not a whole bundle")
                f.write(data)
                size -= len(data)
    except FileExistsError:
        raise Refused("a file stands in the bundle twice") from None


def verify_bundle(path, trust, say):
    with tempfile.TemporaryDirectory(prefix="nacre-bundle-") as folder:
        try:
            chains = unpack_bundle(path, folder)
            index = read_index(folder, trust, None)
            if not chains:
                raise Refused("it holds no chain")
        except Refused as e:
            say("REFUSED  %s" % e)
            return False
        return all([verify_chain(folder, chain, trust, index, say) for chain in chains])


# Files of nacre receipt.

MAX_ACCOUNT = 64 << 20


def verify_account(path, trust, say):
    """Check a receipt's file: signatures, chains up to their signed ends, and the links' digest."""
    text = ascii_text(read_limited(path, MAX_ACCOUNT))
    if not text.endswith("\n"):
        raise Refused("it is no whole receipt")
    account = parse(text[:-1])
    check_shape(account, {"v": int, "receipt": dict, "links": dict, "chains": list}, {})
    if account["v"] != 1 or not account["chains"]:
        raise Refused("it is no receipt of version 1, or has no records")
    receipt = dict(account["receipt"])
    signature = receipt.pop("signature", None)
    if not is_signature(signature):
        raise Refused("it is not signed")
    check_receipt(receipt)
    check_signature(trust.public, RECEIPT_DOMAIN, receipt, signature)
    facts = receipt.get("facts", {})
    if facts.get("links_sha256") != hashlib.sha256(canonical(account["links"]).encode("ascii")).hexdigest():
        raise Refused("its links are not those that were signed")
    with tempfile.TemporaryDirectory(prefix="nacre-receipt-") as folder:
        names = [unpack_chain(folder, chain, trust) for chain in account["chains"]]
        if facts.get("chains") != " ".join(names) or account["chains"][-1]["head"] != receipt["heads"]["chain"]:
            raise Refused("it has other chains than were signed")
        return all([verify_chain(folder, c["head"]["chain"], trust, None, say, c["head"]) for c in account["chains"]])


def unpack_chain(folder, chain, trust):
    """Write one chain under folder, as it stands on disk, and return its name."""
    check_shape(chain, {"head": dict, "records": list}, {})
    head = dict(chain["head"])
    signature = head.pop("signature", None)
    if not is_signature(signature) or any(type(record) is not str for record in chain["records"]):
        raise Refused("a chain has the wrong form")
    check_head(head)
    check_signature(trust.public, HEAD_DOMAIN, head, signature)
    if head["state"] != "closed" or not CHAIN.fullmatch(head["chain"]) or head["seq"] + 1 != len(chain["records"]):
        raise Refused("chain %s does not end at its signed end" % printable(head["chain"]))
    where = os.path.join(folder, head["chain"])
    try:
        os.mkdir(where)
    except OSError:
        raise Refused("chain %s stands there twice" % printable(head["chain"])) from None
    with open(os.path.join(where, "000001.jsonl"), "w", encoding="ascii", newline="") as f:
        f.write("\n".join(chain["records"]) + "\n")
    with open(os.path.join(where, "head.json"), "w", encoding="ascii", newline="") as f:
        f.write(canonical(head)[:-1] + ',"signature":"' + signature + '"}\n')
    return head["chain"]


def read_keys(text):
    """Keys of 32 bytes, given as hex or as a file with a line for each."""
    if not HASH.fullmatch(text):
        with open(text, encoding="ascii") as f:
            text = f.read(MAX_KEYS * 65 + 1)
    lines = (text[:-1] if text.endswith("\n") else text).split("\n")
    if len(lines) > MAX_KEYS or not all(re.fullmatch("[0-9a-fA-F]{64}", line) for line in lines):
        raise ValueError("not 64 hex digits")
    return [bytes.fromhex(line) for line in lines]


def main(arguments):
    parser = argparse.ArgumentParser(description="Check nacre's audit chains and receipts without nacre.")
    parser.add_argument("--root", help="the folder that holds the chains and their index")
    parser.add_argument("--bundle", metavar="FILE", help="a file of nacre audit export, instead of --root")
    parser.add_argument("--public-key", required=True, metavar="HEX|FILE", help="the key you trust, such as the file audit.pub")
    parser.add_argument("--mac-key", metavar="FILE", help="the file audit.mac, to check each record's MAC too")
    parser.add_argument("--chain", metavar="ID", help="only this chain")
    parser.add_argument("--receipt", metavar="FILE", help="this receipt, and the chain it vouches for")
    parser.add_argument("--receipt-file", metavar="FILE", help="a file of nacre receipt, instead of --root")
    options = parser.parse_args(arguments)
    if options.chain and options.receipt:
        parser.error("--receipt names its chain itself: give one of --chain and --receipt")
    if [options.root, options.bundle, options.receipt_file].count(None) != 2 or options.root is None and (options.chain or options.receipt):
        parser.error("give one of --root, --bundle and --receipt-file; a file is verified by itself")
    if options.root is not None and not os.path.isdir(options.root):
        parser.error("--root %s is not a folder" % options.root)
    try:
        trust = Trust(read_keys(options.public_key)[0], read_keys(options.mac_key) if options.mac_key else None)
    except (OSError, ValueError) as e:
        parser.error("key: %s" % e)
    said = []
    if options.bundle:
        good = verify_bundle(options.bundle, trust, said.append)
    elif options.receipt_file:
        try:
            good = verify_account(options.receipt_file, trust, said.append)
        except Refused as e:
            said.append("REFUSED  %s" % e)
            good = False
    elif options.receipt:
        good, said = steady(options.root, lambda say: verify_receipt(options.receipt, options.root, trust, say))
    elif options.chain:
        good, said = steady(options.root, lambda say: verify_one(options.root, options.chain, trust, say))
    else:
        good, said = steady(options.root, lambda say: verify_all(options.root, trust, say))
    print("\n".join(said))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
