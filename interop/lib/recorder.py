"""A relay between the programs and the server that keeps one exchange of each shape: the golden frames of crates/wire.

Clients learn the broker's address from routes, so the relay writes its own there. Both have five digits: nothing moves.
What is kept is the smallest exchange of its shape, with addresses, process numbers and paths made neutral."""

import json
import re
import socket
import struct
import threading

import net

FRAME_MAX = 16 << 20
# Larger exchanges are left out: they say nothing that a smaller one does not.
KEPT_MAX = 12 << 10
RESPONSE, ONE_WAY = 1, 2
NEUTRAL_ADDRESS = b"192.0.2.2"
# Of a client id; what stands before it may be an escape of JSON, which ends in a digit.
ADDRESS = re.compile(rb"(?:(?<=\\u000[12])|(?<![\d.]))\d{1,3}(?:\.\d{1,3}){3}(?=@)")
# The mark of a stored message.
RECORD = b"\xda\xa3\x20\xa7"


class Frame:
    """`totalLen | serialization, headerLen | header | body`; only JSON headers are looked into."""

    def __init__(self, data):
        word = struct.unpack_from(">I", data, 4)[0]
        end = 8 + (word & 0xFFFFFF)
        self.binary, self.header, self.body = word >> 24, data[8:end], data[end:]
        self.fields = {} if self.binary else json.loads(self.header)

    def is_response(self):
        return self.fields.get("flag", 0) & RESPONSE

    def is_one_way(self):
        return self.fields.get("flag", 0) & ONE_WAY

    def names(self):
        return sorted(self.fields.get("extFields") or {})

    def members(self):
        """The names in a JSON body, at any depth."""
        try:
            return sorted(set(members(json.loads(self.body)))) if self.body.startswith(b"{") else []
        except ValueError:
            # Keys that are numbers or objects: an answer, whose names say nothing more.
            return []

    def encoded(self, paths):
        header, body = neutral(self.header, paths), neutral(self.body, paths)
        return struct.pack(">II", 4 + len(header) + len(body), self.binary << 24 | len(header)) + header + body


class Recorder:
    def __init__(self, server):
        self.lock = threading.Lock()
        self.kept = {}
        first = net.free_block(4)
        self.ports = {"namesrv_port": first, "broker_port": first + 3}
        self.paths = [server.state["folder"]]
        self.moved = (server.address("broker_port").encode(), f"127.0.0.1:{first + 3}".encode())
        relays = [("namesrv_port", 0), ("broker_port", 0), ("broker_port", -2)]
        for name, distance in relays:
            self.listen(self.ports[name] + distance, server.state[name] + distance)

    def address(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    def listen(self, port, target):
        listener = socket.create_server(("127.0.0.1", port), backlog=128)

        def accept():
            while True:
                client = listener.accept()[0]
                try:
                    server = socket.create_connection(("127.0.0.1", target))
                except OSError:
                    client.close()
                    continue
                asked = {}
                for source, drain, from_client in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self.pump, args=(source, drain, from_client, asked), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()

    def pump(self, source, drain, from_client, asked):
        try:
            while data := read_frame(source):
                if data[0] == 0x16 or data[4] > 1:
                    # TLS, or nothing that we know: handed on as it comes.
                    drain.sendall(data)
                    while data := source.recv(1 << 16):
                        drain.sendall(data)
                    break
                self.see(data, from_client, asked)
                drain.sendall(data if from_client else data.replace(*self.moved))
        except OSError:
            pass
        for end in (source, drain):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def see(self, data, from_client, asked):
        """Either side may ask: what the broker asks of clients is kept as well."""
        if len(data) > KEPT_MAX:
            return
        frame = Frame(data)
        if frame.binary:
            return
        opaque = frame.fields["opaque"]
        if not frame.is_response():
            if frame.is_one_way():
                self.keep(frame, None, from_client)
            else:
                asked[from_client, opaque] = frame
            return
        question = asked.pop((not from_client, opaque), None)
        if question is not None:
            self.keep(question, frame, not from_client)

    def keep(self, question, answer, from_client):
        code = question.fields["code"]
        shape = (code, from_client, *question.names(), *question.members())
        if answer:
            shape += (answer.fields["code"], *answer.names(), bool(answer.body))
        size = len(question.body) + (len(answer.body) if answer else 0)
        with self.lock:
            known = self.kept.get(shape)
            if known is None or size < known[0]:
                self.kept[shape] = (size, question, answer)

    def clear(self):
        with self.lock:
            self.kept.clear()

    def write(self, folder, name):
        """All exchanges, one after the other: a question, and the answer unless nobody waits for one. What the server asked is
        apart from what it was asked."""
        folder.mkdir(parents=True, exist_ok=True)
        with self.lock:
            kept = sorted(self.kept.items(), key=lambda item: tuple(map(str, item[0])))
        for suffix, asked_by_client in (("", True), ("-asked", False)):
            pairs = [pair for shape, (_, *pair) in kept if shape[1] == asked_by_client]
            frames = [frame.encoded(self.paths) for pair in pairs for frame in pair if frame]
            if frames:
                (folder / f"{name}{suffix}.frames").write_bytes(b"".join(frames))


def members(value):
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from members(each)


def neutral(data, paths):
    """Text may change its length; of records, only what keeps it."""
    # Client ids: address@process#time.
    data = re.sub(rb"@\d+#\d+", lambda found: re.sub(rb"\d", b"1", found[0]), data)
    if data[4:8] != RECORD:
        data = ADDRESS.sub(NEUTRAL_ADDRESS, data)
        for path in paths:
            data = data.replace(path.encode(), b"/data")
    return data


def read_frame(source):
    """One frame, or the first bytes of something else; nothing at the end."""
    head = read_exactly(source, 8)
    if len(head) < 8:
        return head
    length = struct.unpack(">I", head[:4])[0]
    if not 4 <= length <= FRAME_MAX:
        return head
    rest = read_exactly(source, length - 4)
    return head + rest


def read_exactly(source, length):
    data = bytearray()
    while len(data) < length:
        part = source.recv(min(length - len(data), 1 << 20))
        if not part:
            break
        data += part
    return bytes(data)
