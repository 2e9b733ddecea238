"""Python's own clients: urllib, http.client, and a websocket by hand."""
import base64, http.client, os, socket, ssl, sys, urllib.request

PROXY = ("127.0.0.1", 3128)


def get(url):
    print(urllib.request.urlopen(url, timeout=60).read().decode())


def post(url):
    print(urllib.request.urlopen(url, data=b"x" * (1 << 20), timeout=60).read().decode())


def tunnel(host):
    conn = http.client.HTTPSConnection(*PROXY, timeout=60)
    conn.set_tunnel(host, 443)
    for _ in range(3):  # one connection, several requests
        conn.request("GET", "/hello")
        text = conn.getresponse().read().decode()
    print(text)


def websocket(host):
    raw = socket.create_connection(PROXY, 60)
    raw.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
    assert b" 200 " in head(raw)
    s = ssl.create_default_context().wrap_socket(raw, server_hostname=host)
    key = base64.b64encode(os.urandom(16)).decode()
    s.sendall(
        f"GET /socket HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert b" 101 " in head(s)
    for text in (b"one", b"two", b"three"):
        mask = os.urandom(4)
        s.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(c ^ mask[i % 4] for i, c in enumerate(text)))
        length = exactly(s, 2)[1]
        print("echo", exactly(s, length).decode())


def head(s):
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += exactly(s, 1)
    return data


def exactly(s, n):
    data = b""
    while len(data) < n:
        part = s.recv(n - len(data))
        assert part, "closed early"
        data += part
    return data


globals()[sys.argv[1]](sys.argv[2])
